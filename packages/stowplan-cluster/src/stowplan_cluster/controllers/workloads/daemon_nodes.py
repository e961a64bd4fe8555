"""The nodes as DaemonSets see them, and the nodes that a DaemonSet's template is meant for.

Nodes report their status often, but rarely change in what matters to a DaemonSet. So the part of a node that does is
one object for as long as it is equal, and answers about the node are cached by it.
"""

from collections.abc import Mapping
from typing import NamedTuple

from stowplan.kube.api.daemon_pods import may_stay, node_of, tied_to, tolerating, wanted_on
from stowplan.kube.api.decode import convert, decode_json, to_dict
from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.api.node import Node, NodeSpec
from stowplan.kube.api.pod import Pod as SchedulablePod
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.store import Event
from stowplan_cluster.reconcile.pods import Pod

NODES = "nodes"


class Nodes:
    """All nodes, with name, labels and taints only, updated by events."""

    def __init__(self) -> None:
        self.known: dict[str, Node] = {}

    def follow(self, event: Event) -> bool:
        """Apply an event; return whether it can change a DaemonSet's answer."""
        stored = event.stored
        if event.type == "DELETED":
            return self.known.pop(stored.name, None) is not None
        taints = decode_json(stored.data, Node).spec.taints
        node = Node(metadata=ObjectMeta(name=stored.name, labels=dict(stored.labels)), spec=NodeSpec(taints=taints))
        if self.known.get(stored.name) == node:
            return False
        self.known[stored.name] = node
        return True


class Eligibility(NamedTuple):
    should_run: bool
    #: Whether a running pod may stay.
    may_stay: bool


class Demands:
    """The node requirements of one revision of a DaemonSet's template."""

    def __init__(self, template: JsonObject) -> None:
        self._template = tolerating(convert({"spec": template.get("spec") or {}}, SchedulablePod))
        self._answers: dict[str, tuple[Node, Eligibility]] = {}

    def on(self, node: Node) -> Eligibility:
        name = node.metadata.name
        known = self._answers.get(name)
        if known is not None and known[0] is node:
            return known[1]
        answer = Eligibility(wanted_on(self._template, node), may_stay(self._template, node))
        self._answers[name] = (node, answer)
        return answer

    def forget_others(self, nodes: Mapping[str, Node]) -> None:
        """Drop the answers for deleted nodes."""
        if len(self._answers) > len(nodes):
            self._answers = {name: answer for name, answer in self._answers.items() if name in nodes}

    def tied_to(self, node: str) -> JsonObject:
        """The fields of a pod's spec that restrict it to its node, and keep it there."""
        spec: JsonObject = to_dict(tied_to(self._template, node))["spec"]
        return {"tolerations": spec["tolerations"], "affinity": spec["affinity"]}


def target_node(pod: Pod) -> str:
    """The node that a daemon pod is on or was created for; "" if there is none."""
    return pod.spec.node_name or node_of(pod.spec.affinity)
