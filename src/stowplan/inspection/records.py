"""Typed records shown by explain, the secure port and `-o json`.

Each record is plain data, and its fields are the fields of its JSON document; `docs/inspection.md` describes them.
Fields without a value are absent. Text for people is made from records, too, so that both say the same.

`SCHEMA_VERSION` is in every document. New fields leave it as it is; it grows when a field goes or changes its meaning.
"""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec

from stowplan.inspection.frames import to_frame as frame_of

SCHEMA_VERSION = 2


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What all records have in common: they never change, and fields without a value are left out."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def document(record: Record) -> dict[str, Any]:
    """The record as JSON-able data: what is read from `encoded`."""
    found: dict[str, Any] = msgspec.json.decode(encoded(record))
    return found


def encoded(record: Record) -> bytes:
    """The record as a JSON document with the version of its schema: the only place where records are serialised."""
    # Spliced: a snapshot of fifty thousand pods is not to be built twice.
    head, body = b'{"schemaVersion":%d' % SCHEMA_VERSION, msgspec.json.encode(record)
    return b"%b,%b" % (head, body[1:]) if len(body) > len(b"{}") else head + b"}"


# -- stories and decisions --------------------------------------------------------------------------------------------


class AttemptRecord(Record, frozen=True, kw_only=True):
    """How one attempt to place a pod ended."""

    attempt: int = 0
    milliseconds: float | None = None
    #: The chosen node.
    node: str = ""
    #: The failure's status code and message.
    code: str = ""
    message: str = ""
    #: Plugins whose refusals an event has to lift, and those among them that answered Pending.
    unschedulable_plugins: tuple[str, ...] = ()
    pending_plugins: tuple[str, ...] = ()
    #: Plugin -> nodes that it was the first to refuse.
    refused: dict[str, int] = {}
    #: The node that preemption makes room on.
    nominated_node: str = ""
    #: The first pods that are to be evicted, how many there are, and how many of them against a disruption budget.
    victims: tuple[str, ...] = ()
    victims_total: int = 0
    pdb_violations: int = 0

    def attempt_text(self) -> str:
        head = f"attempt {self.attempt} ({self.milliseconds or 0:.1f} ms)"
        if self.node:
            return f"{head}: goes to {self.node}"
        parts = [f"{head}: no node ({self.code}): {self.message}"]
        if self.refused:
            parts.append("refused by " + ", ".join(f"{plugin} ({nodes:,})" for plugin, nodes in self.refused.items()))
        if self.nominated_node:
            parts.append(f"nominated to {self.nominated_node}{self._evicting()}")
        return "; ".join(parts)

    def _evicting(self) -> str:
        if not self.victims:
            return ""
        more = self.victims_total - len(self.victims)
        text = f", evicting {', '.join(self.victims)}{f' and {more:,} more' if more else ''}"
        return f"{text} ({self.pdb_violations:,} against a disruption budget)" if self.pdb_violations else text


class DecisionRecord(AttemptRecord, frozen=True, kw_only=True):
    """One decision about some pod."""

    time: str
    pod: str
    uid: str
    scheduler_name: str


class DecisionsRecord(Record, frozen=True, kw_only=True):
    """The last decisions about all pods, newest first."""

    decisions: tuple[DecisionRecord, ...]
    page: list[Any] | None = None


class StepRecord(AttemptRecord, frozen=True, kw_only=True):
    """Something that happened to a pod; the end of an attempt has the attempt's fields."""

    time: str
    what: str
    cause: str = ""
    detail: str = ""

    @property
    def decided(self) -> bool:
        return self.milliseconds is not None

    def text(self) -> str:
        if self.decided:
            return self.attempt_text()
        cause = f": {self.cause}" if self.cause else ""
        return f"{self.what}{cause}{f' ({self.detail})' if self.detail else ''}"


class StoryRecord(Record, frozen=True, kw_only=True):
    """What happened to a pod, oldest first."""

    pod: str
    uid: str
    steps: tuple[StepRecord, ...]
    #: Steps that were forgotten, and how many of `steps` came before those.
    forgotten: int = 0
    steps_before_gap: int = 0

    def __repr__(self) -> str:
        last = f": {self.steps[-1].text()}" if self.steps else ""
        return f"<Story of {self.pod}, {len(self.steps)} steps, the last one{last}>"

    def _repr_html_(self) -> str:
        """A table with a row for each step, for notebooks."""
        time = '<td style="white-space:nowrap">'
        rows = [f"<tr>{time}{escape(step.time)}</td><td>{escape(step.text())}</td></tr>" for step in self.steps]
        if self.forgotten:
            rows.insert(self.steps_before_gap, f"<tr><td></td><td>… {self.forgotten:,} steps are forgotten …</td></tr>")
        head = "<thead><tr><th>time</th><th>what happened</th></tr></thead>"
        return f"<div><p><b>{escape(self.pod)}</b></p><table>{head}<tbody>{''.join(rows)}</tbody></table></div>"

    def to_frame(self) -> Any:
        """A data frame with a row for each step; of pandas or polars, whichever is there."""
        return frame_of(
            {"time": s.time, "what": s.what, "cause": s.cause, "node": s.node, "text": s.text()} for s in self.steps
        )


# -- the queue --------------------------------------------------------------------------------------------------------


class QueueStateRecord(Record, frozen=True, kw_only=True):
    """The state of a pod in the scheduling queue."""

    place: str = ""
    attempts: int = 0
    since: str = ""
    backoff_until: str = ""
    gated_by: str = ""
    rejected_by: tuple[str, ...] = ()


class QueuedPodRecord(QueueStateRecord, frozen=True, kw_only=True):
    pod: str


class OnPermitRecord(Record, frozen=True, kw_only=True):
    """A pod that has been given a node and waits on Permit."""

    pod: str
    node: str
    #: Plugins that have not allowed it yet.
    plugins: tuple[str, ...] = ()


class WakeRecord(Record, frozen=True, kw_only=True):
    """An event after which pods that were refused are tried again."""

    time: str
    #: As metrics name it: NodeAdd, AssignedPodDelete.
    event: str
    #: The object that changed: Kind name or Kind namespace/name; "" if it was none.
    by: str = ""
    #: How many pods, and the first of them.
    count: int
    pods: tuple[str, ...]
    #: Who had refused these.
    rejected_by: tuple[str, ...] = ()


class QueueRecord(Record, frozen=True, kw_only=True):
    """The pods that wait in the scheduling queue."""

    #: Pods by place.
    counts: dict[str, int]
    pods: tuple[QueuedPodRecord, ...]
    #: Waiting pods that are not in `pods`.
    left_out: int
    #: Pods that have left the queue and are not bound yet, and how many more there are.
    on_permit: tuple[OnPermitRecord, ...] = ()
    on_permit_left_out: int = 0
    #: What brought refused pods back, the newest first.
    wakes: tuple[WakeRecord, ...] = ()
    #: Of a replica that stands by: who leads, "" for nobody.
    leader: str | None = None
    page: list[Any] | None = None


# -- verdicts ---------------------------------------------------------------------------------------------------------


class StatusRecord(Record, frozen=True, kw_only=True):
    """Who refused, how hard, and why."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    #: What exactly: how much is missing, which value the node has.
    detail: str = ""


class RefusalRecord(StatusRecord, frozen=True, kw_only=True):
    """Nodes that were refused alike."""

    #: How many there are, and the first of them.
    nodes: int
    names: tuple[str, ...]


class CandidateRecord(Record, frozen=True, kw_only=True):
    """A node that would take the pod once the victims have left."""

    victims: tuple[str, ...]
    pdb_violations: int


class PreemptionRecord(Record, frozen=True, kw_only=True):
    #: The PostFilter plugin that found it.
    plugin: str = ""
    eligible: bool
    #: Why the pod may not preempt.
    reason: str = ""
    #: By node.
    candidates: dict[str, CandidateRecord] = {}
    #: The nodes that the selection rules leave.
    selected: tuple[str, ...] = ()


class SuggestionRecord(Record, frozen=True, kw_only=True):
    """Changes that were tried, and what they gain."""

    text: str
    #: How many nodes would take the pod, and the first of them.
    gain: int
    nodes: tuple[str, ...]
    changes: tuple[dict[str, Any], ...]
    note: str = ""


class ConditionRecord(Record, frozen=True, kw_only=True):
    """The PodScheduled condition."""

    status: str = ""
    reason: str = ""
    message: str = ""
    since: str = ""


class EventRecord(Record, frozen=True, kw_only=True):
    """An Event about the pod."""

    time: str = ""
    type: str = ""
    reason: str = ""
    note: str = ""
    from_: str = msgspec.field(default="", name="from")
    count: int


class SchedulerRecord(QueueStateRecord, frozen=True, kw_only=True):
    """What a scheduler knows of a pod: a running one of its own state, any other by what it wrote to the API."""

    #: The node that the pod is on, or on its way to.
    node: str = ""
    story: StoryRecord | None = None
    condition: ConditionRecord | None = None
    events: tuple[EventRecord, ...] | None = None


class ExtenderWordRecord(Record, frozen=True, kw_only=True):
    """An extender's answer about a pod's nodes."""

    extender: str
    #: filter or prioritize.
    verb: str
    #: How many nodes it was asked about.
    asked: int
    #: Node -> why not; "" where it gave no reason.
    refused: dict[str, str] = {}
    #: Node -> what is added to its score.
    points: dict[str, int] = {}
    #: Why it said nothing.
    failed: str = ""


class ReliefRecord(Record, frozen=True, kw_only=True):
    """A change that was tried on all refused pods together."""

    text: str
    #: How many of them it places.
    pods: int
    changes: tuple[dict[str, Any], ...]
    note: str = ""


class GroupPodRecord(Record, frozen=True, kw_only=True):
    """A pod of a group that has room beside the others."""

    pod: str
    node: str
    #: Pods that are to be evicted first.
    victims: tuple[str, ...] = ()


class GroupRefusalRecord(Record, frozen=True, kw_only=True):
    """Pods of a group that found no node, for the same reason."""

    reason: str
    #: What they are told: with what PostFilter adds.
    message: str
    plugins: tuple[str, ...] = ()
    #: How many there are, and the first of them.
    pods: int
    names: tuple[str, ...]


class GroupDomainRecord(Record, frozen=True, kw_only=True):
    """A group tried on the nodes of one domain."""

    #: The value of the topology label; "" for the whole cluster.
    name: str = ""
    nodes: int
    fits: bool = False
    chosen: bool = False
    #: How many more pods would have to fit, and what they request altogether.
    lacking: int = 0
    lacking_resources: dict[str, str] = {}
    placed: tuple[GroupPodRecord, ...] = ()
    refused: tuple[GroupRefusalRecord, ...] = ()
    #: Pods that leave for the group as a whole.
    victims: tuple[str, ...] = ()


class GroupVerdictRecord(Record, frozen=True, kw_only=True):
    """What would be decided about a pod group as a whole."""

    kind: str
    pod_group: str
    #: `gang` or `basic`; "" without a PodGroup object.
    policy: str = ""
    min_count: int = 0
    topology_key: str = ""
    fits: bool = False
    #: Whether it fits once pods have been evicted.
    waits_for_preemption: bool = False
    #: The status that the condition PodGroupScheduled would have.
    code: str
    message: str = ""
    #: Pods that were tried, in this order.
    pods: tuple[str, ...] = ()
    #: All pods have nodes, and were judged as if they had not.
    judged_anew: bool = False
    #: Pods that keep their nodes.
    have_node: dict[str, str] = {}
    #: Pod -> why PreEnqueue holds it back.
    held_back: dict[str, str] = {}
    #: The domain that is taken.
    domain: str = ""
    #: The one that is taken first, then those that come closest.
    domains: tuple[GroupDomainRecord, ...] = ()
    #: What the cluster's scheduler said.
    condition: ConditionRecord | None = None
    #: Changes that let the group fit.
    relief: tuple[ReliefRecord, ...] = ()
    #: Extenders that were left out -> why.
    not_asked: dict[str, str] = {}


class VerdictRecord(Record, frozen=True, kw_only=True):
    """What would be decided about one pod."""

    kind: str = "Explain"
    pod: str
    #: In a list, other pods of which all of it is true as well.
    alike: tuple[str, ...] = ()
    #: What ended the cycle; `gated` when PreEnqueue keeps the pod back.
    error: str = ""
    node: str = ""
    #: Whether `node` is chosen because the pod is nominated to it, whatever the scores.
    nominated: bool = False
    #: The node that the pod is nominated to, whether it goes there or not.
    nominated_node: str = ""
    current_node: str = ""
    pre_filter_message: str = ""
    absent_nodes_status: StatusRecord | None = None
    unschedulable_plugins: tuple[str, ...] = ()
    #: Nodes by why they were refused, the largest group first.
    refusals: tuple[RefusalRecord, ...] = ()
    #: Node -> the first plugin that refused it.
    rejected: dict[str, StatusRecord] = {}
    #: How many nodes would take the pod; in a list, the other fields have the best of them only.
    feasible_nodes: int | None = None
    feasible: tuple[str, ...] = ()
    #: Node -> plugin -> points.
    scores: dict[str, dict[str, int]] = {}
    totals: dict[str, int] = {}
    message: str = ""
    full_message: str = ""
    preemption: PreemptionRecord | None = None
    extenders: tuple[ExtenderWordRecord, ...] = ()
    #: PostFilter plugins and extenders that were left out -> why.
    not_asked: dict[str, str] = {}
    suggestions: tuple[SuggestionRecord, ...] = ()
    obstacles: tuple[str, ...] = ()
    scheduler: SchedulerRecord | None = None
    #: The verdict on the group that the pod is in.
    pod_group: GroupVerdictRecord | None = None
    leader: str | None = None
    page: list[Any] | None = None


class GroupStateRecord(Record, frozen=True, kw_only=True):
    """What a running scheduler knows of a pod group."""

    pod_group: str
    #: What is in the PodGroup; 0 for a group that is no gang.
    min_count: int = 0
    condition: ConditionRecord | None = None
    #: Pods in the queue, and pods on nodes or on their way there.
    waiting: tuple[QueuedPodRecord, ...] = ()
    have_node: dict[str, str] = {}
    #: What would be decided now, if that was asked for.
    verdict: GroupVerdictRecord | None = None
    #: Why there is no verdict, or what was left out of it.
    note: str = ""
    story: StoryRecord | None = None
    leader: str | None = None
    page: list[Any] | None = None


class CauseRecord(Record, frozen=True, kw_only=True):
    """Pods that wait for the same reason, by the plugin that refuses most nodes."""

    plugin: str = ""
    reason: str
    pods: int
    #: Namespace -> pods.
    namespaces: dict[str, int]


class SummaryRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Many pods in few words."""

    pods: int
    #: Those that wait on Permit, as their scheduler says.
    on_permit: int
    #: Those that a node would take now, those that none takes, those held back before, and those nobody here judges.
    placeable: int
    refused: int
    gated: int
    unjudged: int
    #: Of all but the placeable ones; what concerns most pods first.
    causes: tuple[CauseRecord, ...]
    #: Namespace -> pods.
    namespaces: dict[str, int]
    #: What places most of them first.
    relief: tuple[ReliefRecord, ...]


class VerdictListRecord(Record, frozen=True, kw_only=True):
    """The verdicts on several pods."""

    kind: str
    summary: SummaryRecord
    verdicts: tuple[VerdictRecord, ...]


# -- nodes ------------------------------------------------------------------------------------------------------------


class ResourceRecord(Record, frozen=True, kw_only=True):
    requested: str
    allocatable: str


class PodOnNodeRecord(Record, frozen=True, kw_only=True):
    pod: str
    priority: int
    requests: dict[str, str]
    terminating: bool = False


class TakesRecord(Record, frozen=True, kw_only=True):
    """Pending pods that the node would take, and where they go."""

    pods: tuple[str, ...]
    goes_to: str
    #: Points by which another node is better.
    points_behind: int = 0


class HelpRecord(Record, frozen=True, kw_only=True):
    """A change that would let pods onto the node."""

    text: str
    changes: tuple[dict[str, Any], ...]
    note: str = ""


class RefusesRecord(Record, frozen=True, kw_only=True):
    """Pending pods that the node refuses."""

    pods: tuple[str, ...]
    plugin: str = ""
    code: str = ""
    reason: str = ""
    detail: str = ""
    goes_to: str = ""
    #: Pods on the node that preemption would evict.
    victims: tuple[str, ...] = ()
    suggestions: tuple[HelpRecord, ...] = ()


class UntriedRecord(Record, frozen=True, kw_only=True):
    """Pending pods that do not get as far as being filtered."""

    pods: tuple[str, ...]
    reason: str


class NodeRecord(Record, frozen=True, kw_only=True):
    """One node as the scheduler sees it."""

    node: str
    unschedulable: bool = False
    taints: tuple[str, ...] = ()
    conditions: dict[str, str] = {}
    labels: dict[str, str] = {}
    resources: dict[str, ResourceRecord] = {}
    #: Most important first.
    pods: tuple[PodOnNodeRecord, ...] = ()
    #: Nominated pods, for which preemption makes room.
    nominated: tuple[str, ...] = ()
    takes: tuple[TakesRecord, ...] = ()
    refuses: tuple[RefusesRecord, ...] = ()
    untried: tuple[UntriedRecord, ...] = ()
    #: Of a running scheduler that was asked for a page: its blocks.
    page: list[Any] | None = None
