"""Objects with missing or garbage fields that the API accepts do not break any controller."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import ApiError
from stowplan_cluster.controllers.controller_manager import cluster_controllers, workload_controllers
from support.api.storage_objects import claim, protected, storage_class, volume
from support.examples import examples
from support.live.controller_cluster import workload
from support.live.living_cluster import Living, node, pod

#: More digits than Python parses.
LONG = "9" * 5000
JUNK = [
    *(None, "", "x", "-1s", 0, -1, 10**6, True, [], {}, ["x"], {"x": "y"}, [{}], "2023-11-14T22:13:20Z", "50%"),
    *(LONG, f"{LONG}%", f"{LONG}s", "\u0663", 2**31 - 1, 2**63 - 1, -(2**63)),
    *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
]

BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "budget", "namespace": "default"},
    "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "finalizers": ["example.com/keep"]}}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "owner", "namespace": "default"},
    "spec": {
        "completionMode": "Indexed",
        "completions": 2,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    },
}
#: Fields that may not be huge: the test would make as many pods.
SIZES = {"replicas", "parallelism"}
OWNERS = ("deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch")
TARGETS = [
    ("pods", "web", "status"),
    ("pods", "web", ""),
    ("pods", "crashing", "status"),
    ("pods", "ending", "status"),
    ("nodes", "node-1", "status"),
    ("nodes", "node-1", ""),
    ("leases.coordination.k8s.io", "node-1", ""),
    ("poddisruptionbudgets.policy", "budget", "status"),
    ("poddisruptionbudgets.policy", "budget", ""),
    ("persistentvolumes", "pv", "status"),
    ("persistentvolumes", "pv", ""),
    ("persistentvolumes", "free", ""),
    ("persistentvolumeclaims", "data", "status"),
    ("persistentvolumeclaims", "data", ""),
    ("persistentvolumeclaims", "made", ""),
    ("storageclasses.storage.k8s.io", "fast", ""),
    ("namespaces", "team", "status"),
    *((storage, "owner", part) for storage in OWNERS for part in ("status", "")),
]


def populated():
    cluster = Living()
    cluster.loop.close()
    cluster._controllers = lambda registry: [*workload_controllers(registry), *cluster_controllers(registry)]
    cluster.restart()
    crash = {"stowplan.io/run-for": "1s", "stowplan.io/exit-code": "1"}
    for manifest in (
        node(),
        NAMESPACE,
        BUDGET,
        storage_class(),
        volume(),
        volume("free", "100Gi"),
        protected(claim()),
        claim("made", class_="fast"),
        workload("Deployment"),
        *(workload(kind, "owner") for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")),
        JOB,
        pod("web", node="node-1", labels={"app": "web"}, readinessGates=[{"conditionType": "example.com/gate"}]),
        pod("crashing", node="node-1", annotations=crash),
        pod("ending", node="node-1", annotations={"stowplan.io/stop-after": "20s"}),
    ):
        cluster.create(manifest)
    cluster.advance(3)
    cluster.delete("Pod", "ending")
    cluster.delete("namespaces", "team")
    cluster.settle()
    return cluster


def places(value, path=()):
    """Paths of all nested values."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def corrupt(obj, part, choice, junk):
    """Take a part of the object out, or put junk into its place."""
    top = obj.setdefault(part, {})
    found = list(places(top))
    if not found:
        return
    *parents, last = found[choice % len(found)]
    for key in parents:
        top = top[key]
    if junk is None:
        del top[last]
    else:
        top[last] = deepcopy(junk)


changes = st.lists(
    st.tuples(st.sampled_from(TARGETS), st.integers(0, 10_000), st.sampled_from(JUNK)), min_size=1, max_size=6
)
PARTS = {"status": ("status",), "": ("spec", "metadata")}


@pytest.mark.slow
@examples(70)
@given(plan=changes, restart=st.booleans())
def test_no_stored_object_stops_the_loop(plan, restart):
    cluster = populated()
    for (storage, name, subresource), choice, junk in plan:
        namespace = "kube-node-lease" if storage.startswith("leases") else "default"
        obj = cluster.get(storage, name, namespace)
        if obj is None:
            continue
        parts = PARTS[subresource]
        corrupt(obj, parts[choice % len(parts)], choice, junk)
        for field in SIZES & obj.get("spec", {}).keys():
            obj["spec"][field] = min(obj["spec"][field], 5) if isinstance(obj["spec"][field], int) else junk
        resource = cluster.registry.of_storage(storage)
        namespace = namespace if resource.namespaced else ""
        try:
            cluster.registry.update(resource, namespace, name, obj, subresource=subresource)
        except ApiError:
            continue
        cluster.advance(1)
    if restart:
        cluster.loop.close()
        cluster.restart()
    cluster.advance(70)
    # The other controllers go on.
    cluster.create(workload("ReplicaSet", "after", replicas=2))
    cluster.advance(1)
    owners = [owner["name"] for pod in cluster.pods() for owner in pod["metadata"].get("ownerReferences") or ()]
    assert owners.count("after") == 2


@pytest.mark.parametrize(
    ("storage", "place", "name", "subresource"),
    [
        ("replicasets.apps", "annotations", "deployment.kubernetes.io/revision", ""),
        ("replicasets.apps", "annotations", "deployment.kubernetes.io/desired-replicas", ""),
        ("replicasets.apps", "annotations", "deployment.kubernetes.io/max-replicas", ""),
        ("pods", "annotations", "batch.kubernetes.io/job-completion-index", ""),
        ("jobs.batch", "status", "completedIndexes", "status"),
    ],
)
def test_long_numbers_do_not_stop_the_loop(storage, place, name, subresource):
    cluster = populated()

    def change(obj):
        (obj["status"] if place == "status" else obj["metadata"].setdefault("annotations", {}))[name] = LONG

    for found in cluster.names(storage):
        if storage != "pods" or found.startswith("owner-"):
            cluster.change(storage, found, change, subresource=subresource)
    cluster.scale("Deployment", "web", 5)
    cluster.advance(70)
    assert cluster.get("deployments.apps", "web")["status"]["replicas"] == 5


def test_a_percentage_out_of_range_does_not_stop_the_loop():
    cluster = populated()
    deployment = workload("Deployment", "other", replicas=2)
    deployment["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": f"{LONG}%"}}
    cluster.create(deployment)
    cluster.advance(1)
    assert cluster.get("deployments.apps", "other")["status"]["replicas"] == 2


def test_a_grace_period_of_billions_of_years_does_not_stop_the_loop():
    cluster = populated()
    deployment = workload("Deployment", "other", replicas=2)
    deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 2**63 - 1
    cluster.create(deployment)
    cluster.advance(1)
    for name in cluster.names("pods"):
        if name.startswith("other-"):
            cluster.bind(name, "node-1")
    cluster.advance(1)
    cluster.scale("Deployment", "other", 0)
    cluster.advance(1)
    assert cluster.get("deployments.apps", "other")["status"].get("replicas", 0) == 0
