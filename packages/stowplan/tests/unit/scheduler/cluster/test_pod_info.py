"""What the scheduler reads of a pod, and what pods of the same shape and template share."""

import pytest
from msgspec.structs import replace

from stowplan.kube.api.decode import convert
from stowplan.kube.api.meta import OwnerReference
from stowplan.kube.api.pod import ResourceRequirements
from stowplan.kube.api.types import Pod
from stowplan.scheduler.cluster.pod_info import (
    NOT_STARTED,
    PodShape,
    _TemplateFact,
    is_copy,
    scheduler_name_of,
    shape_key,
    template_key,
)
from stowplan.scheduler.cluster.pods_on_nodes import _IDLE_SHAPES
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.testing import a_pod


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        pytest.param(None, NOT_STARTED, id="none"),
        pytest.param("", NOT_STARTED, id="empty"),
        pytest.param("yesterday", NOT_STARTED, id="no time"),
        pytest.param("2027-01-15T08:00:00Z", 1_800_000_000 * 10**9, id="whole seconds"),
        pytest.param("2027-01-15T08:00:00.250001Z", 1_800_000_000_250_001_000, id="microseconds"),
        pytest.param("2027-01-15T09:30:00+01:30", 1_800_000_000 * 10**9, id="with an offset"),
        pytest.param("1969-12-31T23:59:59Z", -(10**9), id="before the epoch"),
    ],
)
def test_the_start_time_of_a_pod(text, nanoseconds):
    pod = a_pod("p").obj()
    pod["status"] = {"startTime": text}
    assert ClusterState().pod_info(convert(pod, Pod)).start_time == nanoseconds


@pytest.mark.parametrize(("name", "responsible"), [("mine", "mine"), ("", "default-scheduler")])
def test_the_scheduler_name_of_a_pod(name, responsible):
    pod = a_pod("p").obj()
    pod["spec"]["schedulerName"] = name
    assert scheduler_name_of(convert(pod, Pod)) == responsible


def with_claim(name, claim, **source):
    pod = a_pod(name).labels(app="db").obj()
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim, **source}}
    return convert(pod | {"spec": {**pod["spec"], "volumes": [volume]}}, Pod)


@pytest.mark.parametrize(
    ("one", "other", "template", "shape"),
    [
        pytest.param({"claim": "data-0"}, {"claim": "data-0"}, True, True, id="the same claim"),
        pytest.param({"claim": "data-0"}, {"claim": "data-1"}, True, False, id="claims of their own"),
        pytest.param({"claim": "data-0"}, {"claim": "data-0", "readOnly": True}, False, False, id="read-only"),
    ],
)
def test_templates_ignore_the_names_of_claims(one, other, template, shape):
    state = ClusterState()
    first, second = (state.pod_info(pod) for pod in (with_claim("db-0", **one), with_claim("db-1", **other)))
    assert (first.shape.template is second.shape.template) == template
    assert (first.shape is second.shape) == shape
    assert second.shape.claim_names == (other["claim"],)


def test_a_pod_with_a_claim_has_another_template_than_one_without():
    state = ClusterState()
    holder = state.pod_info(with_claim("db-0", "data-0"))
    without = state.pod_info(convert(a_pod("db-1").labels(app="db").obj(), Pod))
    assert holder.shape.template is not without.shape.template


FACTS = [name for name, fact in vars(PodShape).items() if isinstance(fact, _TemplateFact)]


def test_a_templates_facts_are_the_same_from_any_of_its_pods():
    """Pods of a StatefulSet differ in labels and claims: facts computed for the first are shared with the others."""

    def replica(i):
        pod = with_claim(f"db-{i}", f"data-{i}")
        labels = {"app": "db", "pod-index": str(i)}
        owner = OwnerReference(api_version="apps/v1", kind="StatefulSet", name=f"db{i}", uid=f"u{i}", controller=True)
        return replace(pod, metadata=replace(pod.metadata, labels=labels, owner_references=(owner,)))

    state = ClusterState()
    first, second = (state.pod_info(replica(i)).shape for i in range(2))
    alone = ClusterState().pod_info(replica(1)).shape
    assert first.template is second.template is not alone.template
    assert FACTS
    for fact in FACTS:
        assert getattr(second, fact) == getattr(alone, fact) == getattr(first, fact), fact
        assert getattr(second, fact) is getattr(first, fact), fact
    third = state.pod_info(replica(2)).shape
    assert vars(third).keys() >= set(FACTS), "known from the beginning"
    assert third.labels != first.labels
    assert third.claim_names == ("data-2",)


def made(**spec):
    raw = a_pod("web").uid("1").labels(app="web").requests(cpu="1").obj()
    raw["spec"] |= spec
    return convert(raw, Pod)


def with_node(pod, **spec):
    return replace(
        pod,
        metadata=replace(pod.metadata, resource_version="2"),
        spec=replace(pod.spec, node_name="n1", **spec),
        status=replace(pod.status, nominated_node_name=""),
    )


def test_a_bound_pod_shares_the_shape_of_the_pending_one():
    pod = made()
    assert is_copy(with_node(pod), pod)
    assert template_key(with_node(pod)) == template_key(pod)


CHANGES = [
    ("containers", "containers", [{"name": "other"}]),
    ("init_containers", "initContainers", [{"name": "init"}]),
    ("scheduler_name", "schedulerName", "other"),
    ("priority", "priority", 7),
    ("preemption_policy", "preemptionPolicy", "Never"),
    ("node_selector", "nodeSelector", {"a": "b"}),
    ("affinity", "affinity", {"podAffinity": {}}),
    ("tolerations", "tolerations", [{"key": "k"}]),
    ("topology_spread_constraints", "topologySpreadConstraints", [{"topologyKey": "zone", "maxSkew": 1}]),
    ("overhead", "overhead", {"cpu": "1"}),
    ("resources", "resources", {"requests": {"cpu": "3"}}),
    ("scheduling_gates", "schedulingGates", [{"name": "g"}]),
    ("resource_claims", "resourceClaims", [{"name": "c"}]),
    ("host_network", "hostNetwork", True),
    ("host_users", "hostUsers", False),
    ("volumes", "volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
]


@pytest.mark.parametrize(("field", "name", "value"), CHANGES)
def test_a_pod_with_other_requests_gets_another_shape(field, name, value):
    pod = made()
    other = with_node(pod, **{field: getattr(made(**{name: value}).spec, field)})
    assert not is_copy(other, pod)
    assert shape_key(other) != shape_key(pod)


def test_changed_labels_owners_or_resources_give_another_shape():
    pod = made()
    assert not is_copy(replace(pod, metadata=replace(pod.metadata, labels={"app": "web"})), pod)
    assert not is_copy(
        replace(pod, metadata=replace(pod.metadata, owner_references=(OwnerReference(kind="Job"),))), pod
    )
    assert not is_copy(
        replace(pod, status=replace(pod.status, resources=ResourceRequirements(requests={"cpu": "2"}))), pod
    )


def test_a_dropped_shape_is_created_again():
    state, pod = ClusterState(), made()
    first = state.pod_info(pod)
    assert state.pod_info(pod).shape is first.shape
    for i in range(2 * _IDLE_SHAPES):
        state.pod_info(made(priority=i))
    state.expect(first)
    assert state.pod_info(pod).shape is state.pod_info(made()).shape
