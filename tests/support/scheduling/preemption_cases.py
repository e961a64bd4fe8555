"""Scenarios of preemption by groups as data: who runs in the end, who was evicted, who was nominated.

Victims take three seconds to terminate. Pods without a node of their own in the table go to the first node.
"""

import msgspec

from stowplan.plugins import PlacementScorePlugin, ReservePlugin, unschedulable
from stowplan.scheduler.framework.interface import NodeScorePlugin
from stowplan.testing import a_pod
from stowplan.testing.live import Latency, live_cluster
from support.plugins.answering_plugins import configuration
from support.scheduling.groups import a_composite, a_group, node


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
    prefers_last: bool = False
    #: How many pods a plugin reserves for, those with the label taken=yes that run included; None: there is none.
    reservations: int | None = None
    #: The zones of the nodes.
    zones: str = ""
    #: The order in which pods are evicted (-name) and bound.
    order: str = ""
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


class PrefersLast(NodeScorePlugin, PlacementScorePlugin):
    name = "PrefersLast"

    def score_node(self, state, pod, node):
        return 25 * int(node.name.removeprefix("n"))

    def score_placement(self, state, group, assignments):
        return max(25 * int(name.removeprefix("n")) for name in assignments.placement.nodes.names())


class Reserving(ReservePlugin):
    name = "Reserving"
    most = 1

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.reserved = set()

    def reserve(self, state, pod, node_name):
        row = self.handle.cluster.table.row_of[node_name]
        taken = sum("taken" in info.pod.metadata.labels for info in self.handle.cluster.row_pods[row])
        if len(self.reserved - {pod.uid}) + taken >= self.most:
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


def cluster_of(case, seconds=3.0):
    """`seconds`: how long victims take to terminate."""
    zones = case.zones.split() or [""] * len(case.nodes)
    nodes = [
        node(f"n{i}", cpu, zone=zone, **{"kubernetes.io/hostname": f"n{i}"})
        for i, (cpu, zone) in enumerate(zip(case.nodes, zones, strict=True), 1)
    ]
    groups = [group for group in groups_of(case) if case.in_turn or not is_late(group)]
    objects = [*nodes, *groups, *budget_of(case), *objects_of(case.initial, placed=True)]
    reserving = type("Reserving", (Reserving,), {"most": case.reservations})
    wanted = {PrefersFirst: case.prefers_first, PrefersLast: case.prefers_last, reserving: case.reservations}
    plugins = [plugin for plugin, used in wanted.items() if used]
    weights = {"Reserving": {}, "PrefersFirst": {"weight": 100}, "PrefersLast": {"weight": 100}}
    enabled = [{"name": plugin.__name__, **weights[plugin.__name__]} for plugin in plugins]
    own = {"plugins": {"multiPoint": {"enabled": enabled}}}
    options = {"config": configuration(own), "plugins": plugins} if plugins else {}
    return live_cluster(
        *objects,
        feature_gates={
            "GenericWorkload": True,
            "PodGroupPreemptionPolicy": case.policy_gate,
            "TopologyAwareWorkloadScheduling": True,
            "CompositePodGroup": bool(case.composites),
        },
        emulated_version="1.37",
        latency=Latency(deletions=lambda pod: seconds),
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
        happened = [event for event in cluster.events() if event["reason"] in ("Preempted", "Scheduled")]
        order = ["-" * (event["reason"] == "Preempted") + event["regarding"]["name"] for event in happened]
        assert not case.order or order == case.order.split()
