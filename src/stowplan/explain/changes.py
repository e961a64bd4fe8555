"""Small changes to a pod, or to the nodes and pods around it, that may let it be placed.

A `Change` can be carried out on a copy of the pod, or for the length of an evaluation on the cluster (`Trials`), so
that what is suggested was tried first. A `Dial` is a change with a degree (maxSkew 2, 3, …): loosest first, then
turned back as far as it still helps.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stowplan.api.taints import UNSCHEDULABLE
from stowplan.api.types import Pod, Taint, Toleration
from stowplan.engine.evaluation.evaluation import Evaluation
from stowplan.explain.words import count, joined, listed, taint_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from stowplan.api.types import Node, NodeAffinity, NodeSelectorTerm, PodSpec
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.explain.inspection import Inspection

#: Taints that stand for a node's condition: they go when the node is well again, nobody should tolerate them away.
CONDITION_PREFIXES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")

replace = msgspec.structs.replace


@dataclass(frozen=True)
class Change:
    """One thing to do, in words, as data and as a deed."""

    kind: str
    text: str
    data: dict[str, Any]
    on_pod: Callable[[Pod], Pod] | None = None
    on_node: Callable[[Node], Node] | None = None
    #: The nodes that `on_node` is about.
    nodes: tuple[str, ...] = ()
    #: Pods that would leave.
    leaving: tuple[PodInfo, ...] = ()
    #: What to know about it, beside the deed, and the node that it speaks of.
    note: str = ""
    about: str = ""
    #: Single edits that it consists of.
    cost: int = 1


@dataclass(frozen=True)
class Dial:
    """A change in degrees: what helps at one degree helps at every higher one."""

    low: int
    high: int
    at: Callable[[int], Change]


@dataclass
class Trials:
    """Evaluates changes; counts how often, as the number of tries is limited."""

    at: Inspection
    limit: int = 400
    #: The rows that are to be gained; None: any.
    only: npt.NDArray[np.bool_] | None = None
    tries: int = field(default=0, init=False)

    @property
    def exhausted(self) -> bool:
        return self.tries >= self.limit

    def changed(self, changes: Sequence[Change]) -> Pod:
        pod = self.at.pod.pod
        for change in changes:
            pod = pod if change.on_pod is None else change.on_pod(pod)
        return pod

    def _changed_nodes(self, changes: Sequence[Change]) -> list[Node]:
        found: dict[str, Node] = {}
        for change in changes:
            for name in change.nodes:
                node = found.get(name) or self.at.table.nodes[self.at.table.row_of[name]]
                if node is not None and change.on_node is not None:
                    found[name] = change.on_node(node)
        return list(found.values())

    def feasible(self, changes: Sequence[Change]) -> npt.NDArray[np.intp]:
        """Rows that would take the pod after the changes."""
        self.tries += 1
        cluster = self.at.cluster
        with ExitStack() as stack:
            stack.enter_context(_nodes_replaced(self.at, self._changed_nodes(changes)))
            world = stack.enter_context(cluster.what_if())
            for info in {info.uid: info for change in changes for info in change.leaving}.values():
                world.evict(info)
            outcome = Evaluation(self.at.framework).filter(cluster.pod_info(self.changed(changes)))
            return np.flatnonzero(outcome.feasible if self.only is None else outcome.feasible & self.only)


@contextmanager
def _nodes_replaced(at: Inspection, nodes: Sequence[Node]) -> Iterator[None]:
    """Let nodes be different for a while; what is kept of node objects is worked out anew before and after."""
    before = [at.table.nodes[at.table.row_of[node.metadata.name]] for node in nodes]
    try:
        for node in nodes:
            at.cluster.update_node(node)
        yield
    finally:
        for old in before:
            if old is not None:
                at.cluster.update_node(old)


# -- pods -------------------------------------------------------------------------------------------------------------


def tolerate(taints: Sequence[Taint]) -> Change:
    tolerations = tuple(
        Toleration(key=t.key, operator="Equal" if t.value else "Exists", value=t.value, effect=t.effect) for t in taints
    )
    return Change(
        "taints",
        f"tolerate {joined([taint_text(taint) for taint in taints])}",
        {"tolerate": [{"key": t.key, "value": t.value, "effect": t.effect} for t in taints]},
        lambda pod: with_spec(pod, tolerations=(*pod.spec.tolerations, *tolerations)),
        cost=len(taints),
    )


def drop_node_requirements(
    keys: Sequence[str], dropped: Sequence[str], terms: Sequence[NodeSelectorTerm] | None
) -> Change:
    """Without some keys of nodeSelector, and with other required terms (None: they stay; empty: none at all)."""

    def edited(pod: Pod) -> Pod:
        selector = {key: value for key, value in pod.spec.node_selector.items() if key not in keys}
        pod = with_spec(pod, node_selector=selector)
        return pod if terms is None else _with_node_terms(pod, tuple(terms))

    return Change("nodeAffinity", f"drop {joined(list(dropped))}", {"drop": list(dropped)}, edited, cost=len(dropped))


def _with_node_terms(pod: Pod, terms: tuple[NodeSelectorTerm, ...]) -> Pod:
    affinity = pod.spec.affinity
    node: NodeAffinity | None = affinity.node_affinity if affinity is not None else None
    if affinity is None or node is None:
        return pod
    required = node.required_during_scheduling_ignored_during_execution
    kept = replace(required, node_selector_terms=terms) if terms and required is not None else None
    node = replace(node, required_during_scheduling_ignored_during_execution=kept)
    return with_spec(pod, affinity=replace(affinity, node_affinity=node))


def drop_pod_terms(attribute: str, indexes: Sequence[int], texts: Sequence[str]) -> Change:
    """Without some required terms of `pod_affinity` or `pod_anti_affinity`."""
    label = "podAffinity" if attribute == "pod_affinity" else "podAntiAffinity"

    def edited(pod: Pod) -> Pod:
        affinity = pod.spec.affinity
        group = getattr(affinity, attribute) if affinity is not None else None
        if affinity is None or group is None:
            return pod
        terms = group.required_during_scheduling_ignored_during_execution
        kept = tuple(term for i, term in enumerate(terms) if i not in indexes)
        group = replace(group, required_during_scheduling_ignored_during_execution=kept)
        return with_spec(pod, affinity=replace(affinity, **{attribute: group}))

    text = f"drop {label} {joined([f'({text})' for text in texts])}"
    return Change(label, text, {"drop": list(texts), "terms": list(indexes)}, edited, cost=len(indexes))


def set_constraint(index: int, fields: dict[str, Any], kind_text: str, data: dict[str, Any]) -> Change:
    """One topology spread constraint with other values."""

    def edited(pod: Pod) -> Pod:
        constraints = list(pod.spec.topology_spread_constraints)
        constraints[index] = replace(constraints[index], **fields)
        return with_spec(pod, topology_spread_constraints=tuple(constraints))

    return Change("topologySpread", kind_text, data, edited)


def drop_constraints(indexes: Sequence[int], keys: Sequence[str]) -> Change:
    def edited(pod: Pod) -> Pod:
        kept = (c for i, c in enumerate(pod.spec.topology_spread_constraints) if i not in indexes)
        return with_spec(pod, topology_spread_constraints=tuple(kept))

    text = f"drop the topologySpreadConstraint on {joined(list(keys))}"
    return Change("topologySpread", text, {"drop": list(keys), "constraints": list(indexes)}, edited, cost=len(indexes))


def drop_ports(ports: Sequence[tuple[str, str, int]], texts: Sequence[str]) -> Change:
    """Without host ports; the containers keep listening on their own addresses."""
    wanted = {(protocol, number) for _, protocol, number in ports}

    def freed(container: Any) -> Any:
        kept = tuple(
            p if (p.protocol or "TCP", p.host_port) not in wanted else replace(p, host_port=0) for p in container.ports
        )
        return replace(container, ports=kept)

    def edited(pod: Pod) -> Pod:
        spec = pod.spec
        return with_spec(
            pod,
            containers=tuple(freed(c) for c in spec.containers),
            init_containers=tuple(freed(c) for c in spec.init_containers),
        )

    noun = "hostPort" if len(texts) == 1 else "hostPorts"
    return Change(
        "hostPorts", f"do without {noun} {joined(list(texts))}", {"drop": list(texts)}, edited, cost=len(texts)
    )


def remove_gates(pod: Pod) -> Change:
    gates = [gate.name for gate in pod.spec.scheduling_gates]
    noun = "gate" if len(gates) == 1 else "gates"
    data = {"remove": gates}
    text = f"remove the scheduling {noun} {joined(gates)}"
    return Change("schedulingGates", text, data, lambda p: with_spec(p, scheduling_gates=()), cost=len(gates))


def with_spec(pod: Pod, **fields: Any) -> Pod:
    spec: PodSpec = replace(pod.spec, **fields)
    return replace(pod, spec=spec)


# -- nodes and other pods ---------------------------------------------------------------------------------------------


def uncordon(nodes: Sequence[Node]) -> Change:
    names = [node.metadata.name for node in nodes]
    what = names[0] if len(names) == 1 else f"{count(len(names), 'node')} ({listed(names)})"
    return Change(
        "cordon", f"uncordon {what}", {"uncordon": names}, on_node=_opened, nodes=tuple(names), cost=len(names)
    )


def recover(nodes: Sequence[Node], taints: Sequence[Taint]) -> Change:
    """Nodes get rid of taints that stand for a condition."""
    names = [node.metadata.name for node in nodes]
    what = names[0] if len(names) == 1 else f"{count(len(names), 'node')} ({listed(names)})"
    gone = {(taint.key, taint.effect) for taint in taints}

    def healed(node: Node) -> Node:
        kept = tuple(taint for taint in node.spec.taints if (taint.key, taint.effect) not in gone)
        return replace(node, spec=replace(node.spec, taints=kept))

    conditions = joined(list(dict.fromkeys(taint.key.rpartition("/")[2] for taint in taints)))
    data = {"recover": names, "taints": [taint_text(taint) for taint in taints]}
    text = f"get {what} out of {conditions}"
    return Change("nodeCondition", text, data, on_node=healed, nodes=tuple(names), cost=len(names))


def _opened(node: Node) -> Node:
    kept = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE)
    return replace(node, spec=replace(node.spec, taints=kept, unschedulable=False))


def move(pods: Sequence[PodInfo]) -> Change:
    keys = [info.key for info in pods]
    nodes = sorted({info.node_name for info in pods})
    text = f"move {joined(keys)} off {joined(nodes)}"
    return Change("otherPods", text, {"move": keys}, leaving=tuple(pods), cost=len(keys))
