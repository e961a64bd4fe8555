"""Scenarios of preemption by groups as data: who runs in the end, who was evicted, who was nominated.

Victims take three seconds to terminate. Pods without a node of their own in the table go to the first node.
"""

import msgspec

from stowplan.plugins import ReservePlugin, unschedulable
from stowplan.scheduler.framework.interface import NodeScorePlugin
from stowplan.testing import a_pod
from stowplan.testing.live import Latency, live_cluster
from support.plugins.answering_plugins import configuration
from support.scheduling.groups import a_composite, a_group, node

TREES = {"TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}


class Case(msgspec.Struct, kw_only=True):
    name: str
    #: CPUs of nodes n1, n2, ….
    nodes: tuple[int, ...]
    #: Name, priority, min count (None: basic), further fields of the spec.
    groups: list[tuple] = []
    #: Groups of groups: name, priority, how many children must be scheduled (None: basic), further fields of the spec.
    composites: list[tuple] = []
    #: Name, CPUs, priority, options: `on` (a node), `group`, further fields of the spec.
    initial: list[tuple]
    preemptors: list[tuple]
    #: Pods that have a node in the end, and pods that have none.
    bound: str
    left: str = ""
    evicted: str = ""
    nominated: str = ""
    #: Whether preemptors come one by one, and not all at once.
    in_turn: bool = False
    policy_gate: bool = False
    prefers_first: bool = False
    #: Whether a plugin reserves for one pod only.
    reserves: bool = False
    #: The composite that is deleted before the preemptors come.
    deleted: str = ""
    #: What the budget of the pods with the label app=foo allows.
    budget: int | None = None


ALL = {"disruptionMode": {"all": {}}}
NEVER, LOWER = {"preemptionPolicy": "Never"}, {"preemptionPolicy": "PreemptLowerPriority"}
APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        }
    }
}


def pods(names, cpu="1", priority=100, group="pg", **options):
    return [(name, cpu, priority, {"group": group, **options}) for name in names.split()]


def lows(names, cpu="1", priority=10, **options):
    return [(name, cpu, priority, options) for name in names.split()]


def on(node_name, name, cpu="1", priority=10, **options):
    return (name, cpu, priority, {"on": node_name, **options})


def spread_out(names, priorities, **options):
    """One pod on each node."""
    return [
        on(f"n{i}", name, priority=priority, **options)
        for i, (name, priority) in enumerate(zip(names.split(), priorities, strict=True), 1)
    ]


class PrefersFirst(NodeScorePlugin):
    name = "PrefersFirst"

    def score_node(self, state, pod, node):
        return 100 if node.name == "n1" else 0


class Reserving(ReservePlugin):
    """Reserves for one pod at a time."""

    name = "Reserving"

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.reserved = set()

    def reserve(self, state, pod, node_name):
        if self.reserved - {pod.uid}:
            return unschedulable("reserved for another pod")
        self.reserved.add(pod.uid)
        return None

    def unreserve(self, state, pod, node_name):
        self.reserved.discard(pod.uid)


def objects_of(rows, *, placed):
    for name, cpu, priority, options in rows:
        options = dict(options)
        where, group, labels = options.pop("on", "n1"), options.pop("group", ""), options.pop("labels", {})
        built = a_pod(name).labels(**labels)
        spec = {"priority": priority, **options}
        spec |= {"schedulingGroup": {"podGroupName": group}} if group else {}
        spec |= {"nodeName": where} if placed else {}
        yield (built.requests(cpu=cpu) if cpu else built).spec(**spec).obj()


def groups_of(case):
    for name, priority, count, more in case.groups:
        made = a_group(name, gang=count, priority=priority, mode={"single": {}})
        made["spec"] |= more
        yield made
    for name, priority, least, more in case.composites:
        made = a_composite(name, gang=least, priority=priority)
        made["spec"] |= more
        yield made


def is_late(group):
    """Whether the group is of the preemptors: they are gated until it is created, and tried at the same time."""
    return group["metadata"]["name"] in ("pg", "pg2", "top")


def budget_of(case):
    if case.budget is not None:
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "foo", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "foo"}}},
            "status": {"disruptionsAllowed": case.budget},
        }


def cluster_of(case):
    nodes = [node(f"n{i}", cpu, **{"kubernetes.io/hostname": f"n{i}"}) for i, cpu in enumerate(case.nodes, 1)]
    groups = [group for group in groups_of(case) if case.in_turn or not is_late(group)]
    objects = [*nodes, *groups, *budget_of(case), *objects_of(case.initial, placed=True)]
    plugins = [plugin for plugin, used in ((PrefersFirst, case.prefers_first), (Reserving, case.reserves)) if used]
    enabled = [{"name": plugin.name, **({"weight": 100} if plugin is PrefersFirst else {})} for plugin in plugins]
    own = {"plugins": {"multiPoint": {"enabled": enabled}}}
    options = {"config": configuration(own), "plugins": plugins} if plugins else {}
    return live_cluster(
        *objects,
        feature_gates={"GenericWorkload": True, "PodGroupPreemptionPolicy": case.policy_gate, **TREES}
        if case.composites
        else {"GenericWorkload": True, "PodGroupPreemptionPolicy": case.policy_gate},
        emulated_version="1.37",
        latency=Latency(deletions=lambda pod: 3.0),
        **options,
    )


def nominated(cluster, case, until=""):
    """The preemptors, up to the last one that exists, that are nominated to a node."""
    names = [name for name, *_ in case.preemptors]
    names = names[: names.index(until) + 1] if until else names
    return {name for name in names if cluster.get("pods", name)["status"].get("nominatedNodeName")}


def check(case):
    found = set()
    with cluster_of(case) as cluster:
        if case.deleted:
            cluster.delete("compositepodgroups.scheduling.k8s.io", case.deleted)
            cluster.advance(1)
        for pod in objects_of(case.preemptors, placed=False):
            cluster.create(pod)
            if case.in_turn:
                found |= nominated(cluster, case, until=pod["metadata"]["name"])
                cluster.advance(30)
        if not case.in_turn:
            cluster.create(*filter(is_late, groups_of(case)))
        for _ in range(60):
            found |= nominated(cluster, case)
            cluster.advance(2)
        cluster.engine.validate()
        evicted = {event["regarding"]["name"] for event in cluster.events(reason="Preempted")}
        assert evicted == set(case.evicted.split())
        assert all(cluster.node_of(name) for name in case.bound.split())
        assert not any(cluster.node_of(name) for name in case.left.split())
        assert found >= set(case.nominated.split())
