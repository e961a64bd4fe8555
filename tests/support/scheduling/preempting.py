"""Clusters for tests of preemption."""

from support.api.manifests import pod
from support.scheduling.attempts import asking, on


def priority_class(name, value, **more):
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


#: Pods without a class have priority 0.
CLASSES = [
    ("priorityclasses", priority_class("some", 10)),
    ("priorityclasses", priority_class("more", 100)),
    ("priorityclasses", priority_class("most", 1000)),
    ("priorityclasses", priority_class("polite", 1000, preemptionPolicy="Never")),
]


def pending_pod(name="web", cpu="3", priority="most", **spec):
    """A pending pod."""
    return asking(pod(name, priorityClassName=priority, **spec), cpu=cpu)


def placed(name, cpu="3", node_name="n1", priority="", *, started="", **spec):
    """A running pod with a long grace period."""
    made = on(node_name, asking(pod(name, **spec), cpu=cpu))
    if priority:
        made["spec"]["priorityClassName"] = priority
    if started:
        made["status"] = {"startTime": started}
    return made


def pods(*objs):
    return [("pods", obj) for obj in objs]


def nodes(*objs):
    return [("nodes", obj) for obj in objs]


async def leaving(cluster, *names):
    """Names of deleted pods, whether terminating or gone."""
    there = {p["metadata"]["name"]: p["metadata"] for p in await cluster.objects.list("pods")}
    return {name for name in names if "deletionTimestamp" in there.get(name, {"deletionTimestamp": ""})}


async def nominated_node(cluster, name="web"):
    """The nominated node in the pod's status, which is also the scheduler's."""
    found = await cluster.pod(name)
    told = found["status"].get("nominatedNodeName", "")
    assert cluster.scheduler.state.nominator.node_of(found["metadata"]["uid"]) == told
    return told
