"""A node as the scheduler sees it: its pods, its usage, and which pending pods it accepts.

Built from the verdicts on all pending pods: each has results for every node, from which this node's are selected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from msgspec import field
from msgspec.structs import replace

from stowplan.ask.explain.suggestions.explanations import Explanations, inspecting
from stowplan.ask.explain.suggestions.suggestions import TRIES, suggest_on
from stowplan.ask.explain.verdicts.advice import Suggestion
from stowplan.ask.explain.verdicts.verdict import Verdict, refusals
from stowplan.kube.api.types import Node
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.explanations.formatting import amount, taint_text
from stowplan.scheduler.framework.explanations.preemption import Eviction
from stowplan.scheduler.inspection import records

if TYPE_CHECKING:
    from stowplan.scheduler.cluster.state import ClusterState
    from stowplan.scheduler.engine.engine import Engine

PODS = "pods"
#: Kinds of rejected pods for which changes are tried; each takes many evaluations.
MAX_HELPED = 50
#: Condition -> the status that indicates a problem, and the taints through which the scheduler sees it.
_TROUBLES = {
    "Ready": (("False", "Unknown"), ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")),
    "MemoryPressure": (("True",), ("node.kubernetes.io/memory-pressure",)),
    "DiskPressure": (("True",), ("node.kubernetes.io/disk-pressure",)),
    "PIDPressure": (("True",), ("node.kubernetes.io/pid-pressure",)),
    "NetworkUnavailable": (("True",), ("node.kubernetes.io/network-unavailable",)),
}
_PLACES = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "kubernetes.io/hostname")


class Use(NamedTuple):
    """Usage of a resource of the node, in the scheduler's integers."""

    resource: str
    used: int
    total: int

    @property
    def free(self) -> int:
        return self.total - self.used

    def text(self, number: int) -> str:
        return f"{number:,}" if self.resource == PODS else amount(self.resource, number)

    def record(self) -> records.ResourceRecord:
        return records.ResourceRecord(requested=self.text(self.used), allocatable=self.text(self.total))


class Trouble(NamedTuple):
    """A condition that indicates a problem."""

    condition: str
    status: str
    #: Whether a taint keeps pods away; the scheduler does not read conditions.
    tainted: bool


class Answer(PlainStruct, frozen=True, kw_only=True):
    """The node's result for pods that no plugin can tell apart."""

    verdict: Verdict
    engine: Engine
    #: The pod of the verdict, then those equal to it.
    keys: tuple[str, ...]
    #: By how many points the best node's score is higher; 0 if this node is as good.
    behind: int = 0
    #: The rejecting plugin, and its message; "" if the node is feasible.
    plugin: str = ""
    reason: str = ""
    code: str = ""
    detail: str = ""
    #: What preemption would evict here.
    eviction: Eviction | None = None
    #: Maximum number of changes to try for it.
    tries: int = TRIES

    def help(self, row: int) -> tuple[Suggestion, ...]:
        return suggest_on(self.engine, self.verdict, row, self.tries)


class NodeView(PlainStruct, frozen=True, kw_only=True):
    node: Node
    row: int
    uses: list[Use]
    #: Most important first; preemption would evict these last.
    pods: list[PodInfo]
    #: Pending pods that are nominated to the node.
    nominated: list[PodInfo]
    taken: list[Answer] = field(default_factory=list)
    refused: list[Answer] = field(default_factory=list)
    #: Pods that were not filtered, and why.
    untried: list[tuple[tuple[str, ...], str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def waiting(self) -> int:
        keys = [answer.keys for answer in (*self.taken, *self.refused)] + [keys for keys, _ in self.untried]
        return sum(map(len, keys))

    @property
    def troubles(self) -> list[Trouble]:
        keys = {taint.key for taint in self.node.spec.taints if taint.effect != "PreferNoSchedule"}
        found = []
        for condition in self.node.status.conditions:
            bad, taints = _TROUBLES.get(condition.type, ((), ()))
            if condition.status in bad:
                found.append(Trouble(condition.type, condition.status, bool(keys.intersection(taints))))
        return found

    @property
    def places(self) -> dict[str, str]:
        labels = self.node.metadata.labels
        return {key: labels[key] for key in _PLACES if key in labels}

    def record(self) -> records.NodeRecord:
        """The record, including suggestions, which are computed for the most frequent kinds of rejected pods."""
        return records.NodeRecord(
            kind="ExplainNode",
            node=self.name,
            unschedulable=self.node.spec.unschedulable,
            taints=tuple(taint_text(taint) for taint in self.node.spec.taints),
            conditions={c.type: c.status for c in self.node.status.conditions},
            labels=dict(self.node.metadata.labels),
            resources={use.resource: use.record() for use in self.uses},
            pods=tuple(_pod_record(info) for info in self.pods),
            nominated=tuple(info.key for info in self.nominated),
            takes=tuple(
                records.TakesRecord(pods=answer.keys, goes_to=answer.verdict.node_name, points_behind=answer.behind)
                for answer in self.taken
            ),
            refuses=tuple(self._refused(answer, i < MAX_HELPED) for i, answer in enumerate(self.refused)),
            untried=tuple(records.UntriedRecord(pods=keys, reason=reason) for keys, reason in self.untried),
        )

    def _refused(self, answer: Answer, helped: bool) -> records.RefusesRecord:
        return records.RefusesRecord(
            pods=answer.keys,
            plugin=answer.plugin,
            code=answer.code,
            reason=answer.reason,
            detail=answer.detail,
            goes_to=answer.verdict.node_name,
            victims=() if answer.eviction is None else tuple(victim.key for victim in answer.eviction.victims),
            suggestions=tuple(
                records.HelpRecord(text=found.deed, changes=found.changes_data, note=found.note)
                for found in (answer.help(self.row) if helped else ())
            ),
        )


def node_view(
    engine: Engine, name: str, questions: Iterable[tuple[Verdict, tuple[str, ...]]], *, tries: int = TRIES
) -> NodeView:
    """`questions`: for each kind of pending pods its verdict and the keys of all its pods."""
    state = engine.state
    row = state.table.row_of[name]
    node = state.table.nodes[row]
    assert node is not None
    pods = sorted(state.row_pods[row], key=lambda info: (-info.priority, info.start_time, info.key))
    view = NodeView(node=node, row=row, uses=_uses(state, row), pods=pods, nominated=list(state.nominator.on(name)))
    for verdict, keys in questions:
        _judge(view, engine, verdict, keys, tries)
    view.refused.sort(key=lambda answer: (-len(answer.keys), answer.keys))
    return view


def _uses(state: ClusterState, row: int) -> list[Use]:
    table = state.table
    found = [
        Use(resource, int(table.requested[i, row]), int(table.allocatable[i, row]))
        for resource, i in table.resources.items()
    ]
    found.append(Use(PODS, int(table.pod_count[row]), int(table.allowed_pods[row])))
    return [use for use in found if use.used or use.total]


def _judge(view: NodeView, engine: Engine, verdict: Verdict, keys: tuple[str, ...], tries: int) -> None:
    if verdict.gated is not None or verdict.error is not None:
        status = verdict.gated or verdict.error
        assert status is not None
        view.untried.append((keys, status.message))
    elif verdict.feasible[view.row]:
        behind = 0
        if verdict.node_name != view.name and len(verdict.totals):
            behind = int(verdict.totals[verdict.names.index(verdict.node_name)] - verdict.totals[view.row])
        view.taken.append(Answer(verdict=verdict, engine=engine, keys=keys, behind=behind))
    else:
        view.refused.append(replace(_refusal(view, engine, verdict, keys), tries=tries))


def _refusal(view: NodeView, engine: Engine, verdict: Verdict, keys: tuple[str, ...]) -> Answer:
    diagnosis = verdict.diagnosis
    assert diagnosis is not None, "a pod that was filtered has a diagnosis"
    eviction = verdict.preemption.candidates.get(view.name) if verdict.preemption is not None else None
    found = next((group for group in refusals(diagnosis) if view.row in group.rows), None)
    if found is None:
        # A plugin rejected the pod as a whole, without reasons for single nodes.
        return Answer(
            verdict=verdict,
            engine=engine,
            keys=keys,
            plugin=diagnosis.absent.plugin or ", ".join(sorted(diagnosis.pre_filter_plugins)),
            code=diagnosis.absent.code.name,
            reason=diagnosis.pre_filter_message or "not looked at",
        )
    with inspecting(engine, verdict) as at:
        detail = Explanations(at).of_node(found, view.row)
    return Answer(
        verdict=verdict,
        engine=engine,
        keys=keys,
        plugin=found.plugin,
        code=found.code.name,
        reason=found.text,
        detail=detail,
        eviction=eviction,
    )


def _pod_record(info: PodInfo) -> records.PodOnNodeRecord:
    requests = {name: amount(name, number) for name, number in info.shape.used.items() if number}
    return records.PodOnNodeRecord(
        pod=info.key, priority=info.priority, requests=requests, terminating=info.terminating
    )
