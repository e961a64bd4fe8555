"""Corrupted requests for all kinds and verbs succeed completely or are refused with a Status.

One value of a valid object is replaced, and the object is created, updated, patched, applied, bound or evicted.
Refused requests must leave no trace, and stored objects must be readable.
"""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import ApiError
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.eviction import evict
from stowplan_cluster.apiserver.registry import Options
from stowplan_cluster.apiserver.scale import set_scale
from support.api import manifests
from support.api.embedded import Api, binding
from support.examples import examples

TERM = {"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}
POD_TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "z"}
POD = manifests.pod(
    affinity={
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": POD_TERM}]
        },
    },
    tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
    topologySpreadConstraints=[
        {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    ],
    volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "e", "emptyDir": {}}],
    schedulingGates=[{"name": "example.com/g"}],
)
OBJECTS = [
    POD,
    manifests.node("n2", taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}]),
    manifests.namespace("space"),
    manifests.definition(),
    manifests.workload("Deployment", strategy={"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 1}}),
    manifests.workload("StatefulSet", serviceName="web"),
    manifests.workload("DaemonSet"),
    manifests.workload("ReplicaSet"),
    manifests.job(completions=2),
    manifests.budget(minAvailable="50%"),
    # A service, a secret, a claim, a role, a binding.
    *(obj for obj in manifests.fifty() if obj["metadata"]["name"] in ("web-0", "token-0", "data-0", "reader")),
]

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["", "-1", "1e400", "999Ei", "a/b/c", "..", "x" * 300, "100%", "2026-01-01T00:00:00Z", "\x00"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


def _paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _paths(item, (*path, key))


@st.composite
def damaged(draw, whole):
    path = draw(st.sampled_from([path for path in _paths(whole) if path]))
    obj = deepcopy(whole)
    inner = obj
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = draw(VALUES)
    return obj


@pytest.fixture(scope="module")
def api():
    api = Api()
    api.create("nodes", {"metadata": {"name": "n1"}})
    return api


def resource_of(api, obj):
    return api.server.catalogue.of_kind(obj["apiVersion"], obj["kind"])


def attempt(api, request):
    """Whether the request succeeded."""
    before = api.store.version
    try:
        request()
    except ApiError as refusal:
        status = refusal.status
    else:
        return True
    assert 400 <= status.code < 600
    assert status.message
    assert api.store.version == before, f"refused, but something was written: {status.message}"
    return False


def wipe(api, resource):
    """Delete all objects of the kind, despite finalizers."""
    for stored in api.store.list(resource.storage):
        api.registry.to_dict(resource, stored)
        if stored.namespace == "default" or not resource.namespaced:
            api.store.remove(stored)


@st.composite
def requests(draw):
    whole = draw(st.sampled_from(OBJECTS))
    return whole, draw(damaged(whole))


def create_namespace_of(api, whole):
    resource = resource_of(api, whole)
    return resource, "default" if resource.namespaced else "", whole["metadata"]["name"]


def needed_by_others(api, resource):
    """Objects that other tests need."""
    return resource.storage in ("nodes", "namespaces")


@given(requests())
@examples(500)
def test_creates(api, request_):
    whole, obj = request_
    resource, namespace, _ = create_namespace_of(api, whole)
    attempt(
        api,
        lambda: api.registry.create(resource, namespace, obj, options=Options(dry_run=needed_by_others(api, resource))),
    )
    if not needed_by_others(api, resource):
        wipe(api, resource)


@given(requests(), st.sampled_from(["", "", "status"]), st.sampled_from(["put", "merge", "strategic", "apply"]))
@examples(800)
def test_changes(api, request_, subresource, verb):
    whole, obj = request_
    resource, namespace, name = create_namespace_of(api, whole)
    if needed_by_others(api, resource) or (subresource and not resource.has_status):
        return
    api.registry.create(resource, namespace, deepcopy(whole))
    options = Options(field_manager="fuzz", force=True)
    if verb == "put":
        attempt(
            api,
            lambda: api.registry.update(resource, namespace, name, obj, subresource=subresource, options=options),
        )
    else:
        attempt(
            api,
            lambda: api.registry.patch(
                resource, namespace, name, obj, kind=verb, subresource=subresource, options=options
            ),
        )
    wipe(api, resource)


@given(damaged({"apiVersion": "v1", "kind": "Binding", **binding(uid="u", annotations={"a": "b"})}))
def test_bindings(api, sent):
    resource = api.resource("pods")
    api.create("pods", {"metadata": {"name": "p", "namespace": "default"}, "spec": manifests.pod()["spec"]})
    attempt(api, lambda: api.registry.bind("default", "p", sent))
    wipe(api, resource)


@given(
    damaged(
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "p"},
            "deleteOptions": {"gracePeriodSeconds": 3, "preconditions": {"uid": "u"}, "dryRun": ["All"]},
        }
    )
)
def test_evictions(api, sent):
    resource = api.resource("pods")
    api.create("pods", {"metadata": {"name": "p", "namespace": "default"}, "spec": manifests.pod()["spec"]})
    attempt(api, lambda: evict(api.registry, "default", "p", sent, DeleteOptions()))
    wipe(api, resource)


@given(damaged({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": 3}}))
def test_scales(api, sent):
    resource, namespace, name = create_namespace_of(api, manifests.workload("Deployment"))
    api.registry.create(resource, namespace, manifests.workload("Deployment"))
    attempt(api, lambda: set_scale(api.registry, resource, namespace, name, sent, options=Options()))
    wipe(api, resource)
