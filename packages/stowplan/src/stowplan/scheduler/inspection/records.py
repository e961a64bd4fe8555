"""Typed records shown by explain, the secure port and `-o json`.

Each record is plain data, and its fields are those of its JSON document, described in
`docs/reference/inspection.md`. Fields without a value are absent. Text output is made from records, too, so both are
consistent.

`SCHEMA_VERSION` is in every document. It is incremented when a field is removed or changes its meaning, but not for new
fields.
"""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec

from stowplan.scheduler.inspection.frames import to_frame as frame_of
from stowplan.scheduler.inspection.html_cells import text_cell, text_head

SCHEMA_VERSION = 2


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of all records: immutable, with empty fields omitted."""

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-able data."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def document(record: Record) -> dict[str, Any]:
    """The record as JSON-able data, decoded from `encoded`."""
    found: dict[str, Any] = msgspec.json.decode(encoded(record))
    return found


def encoded(record: Record) -> bytes:
    """The record as a JSON document with its schema version: the only place where records are serialized."""
    # Spliced: a snapshot of fifty thousand pods should not be built twice.
    head, body = b'{"schemaVersion":%d' % SCHEMA_VERSION, msgspec.json.encode(record)
    return b"%b,%b" % (head, body[1:]) if len(body) > len(b"{}") else head + b"}"


# -- stories and decisions --------------------------------------------------------------------------------------------


class AttemptRecord(Record, frozen=True, kw_only=True):
    """The outcome of one attempt to schedule a pod."""

    attempt: int = 0
    milliseconds: float | None = None
    #: The chosen node.
    node: str = ""
    #: The failure's status code and message.
    code: str = ""
    message: str = ""
    #: Plugins whose rejections an event has to resolve, and those of them that returned Pending.
    unschedulable_plugins: tuple[str, ...] = ()
    pending_plugins: tuple[str, ...] = ()
    #: Plugin -> number of nodes that it was the first to reject.
    refused: dict[str, int] = {}
    #: The node that preemption clears.
    nominated_node: str = ""
    #: The first victims, their number, and the number of budget violations.
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
    """One decision about a pod."""

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
    #: Number of dropped steps, and how many of `steps` precede them.
    forgotten: int = 0
    steps_before_gap: int = 0

    def __repr__(self) -> str:
        last = f": {self.steps[-1].text()}" if self.steps else ""
        return f"<Story of {self.pod}, {len(self.steps)} steps, the last one{last}>"

    def _repr_html_(self) -> str:
        """A table with a row for each step, for notebooks."""
        cells = [(step.time, step.text()) for step in self.steps]
        if self.forgotten:
            cells.insert(self.steps_before_gap, ("", f"… {self.forgotten:,} steps are forgotten …"))
        rows = [f"<tr>{text_cell(time)}{text_cell(text)}</tr>" for time, text in cells]
        head = f"<thead><tr>{text_head('time', 'what happened')}</tr></thead>"
        return f"<div><p><b>{escape(self.pod)}</b></p><table>{head}<tbody>{''.join(rows)}</tbody></table></div>"

    def to_frame(self) -> Any:
        """A pandas or polars data frame with a row for each step."""
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
    #: Why most nodes refuse it.
    reason: str = ""


class OnPermitRecord(Record, frozen=True, kw_only=True):
    """A pod that has a node and waits on Permit."""

    pod: str
    node: str
    #: Plugins that have not allowed it yet.
    plugins: tuple[str, ...] = ()


class WakeRecord(Record, frozen=True, kw_only=True):
    """An event that requeued rejected pods."""

    time: str
    #: As in metrics: NodeAdd, AssignedPodDelete.
    event: str
    #: The changed object: Kind name or Kind namespace/name; "" if there is none.
    by: str = ""
    #: The number of pods, and the first of them.
    count: int
    pods: tuple[str, ...]
    #: The plugins that had rejected these.
    rejected_by: tuple[str, ...] = ()


class QuotaRecord(Record, frozen=True, kw_only=True):
    """How a quota stands for one resource; CPU in millicores, memory in bytes."""

    quota: str
    resource: str
    used: int
    #: What is guaranteed, and the most that may be used; absent: no limit.
    least: int
    most: int | None = None
    #: If more is used than is guaranteed: who leaves theirs to others, a few of them.
    lenders: tuple[str, ...] = ()


class QueueRecord(Record, frozen=True, kw_only=True):
    """The pods in the scheduling queue."""

    #: Number of pods by place.
    counts: dict[str, int]
    pods: tuple[QueuedPodRecord, ...]
    #: Number of waiting pods that are not in `pods`.
    left_out: int
    #: Pods that have left the queue and are not bound yet, and the number of further ones.
    on_permit: tuple[OnPermitRecord, ...] = ()
    on_permit_left_out: int = 0
    #: Events that requeued rejected pods, newest first.
    wakes: tuple[WakeRecord, ...] = ()
    #: For a standby replica: the leader, "" for none.
    leader: str | None = None
    #: The quotas of plugins, those that borrow first; at most 500.
    quotas: tuple[QuotaRecord, ...] = ()
    page: list[Any] | None = None


# -- verdicts ---------------------------------------------------------------------------------------------------------


class StatusRecord(Record, frozen=True, kw_only=True):
    """Who rejected, with which code, and why."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    #: Details: the missing amount, or the node's value.
    detail: str = ""


class RefusalRecord(StatusRecord, frozen=True, kw_only=True):
    """Nodes that were rejected for the same reasons."""

    #: Their number, and the first of them.
    nodes: int
    names: tuple[str, ...]


class CandidateRecord(Record, frozen=True, kw_only=True):
    """A node that would fit the pod once the victims have left."""

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
    #: The nodes that the selection rules rank equal.
    selected: tuple[str, ...] = ()


class SuggestionRecord(Record, frozen=True, kw_only=True):
    """Verified changes, and what they gain."""

    text: str
    #: The number of nodes that become feasible, and the first of them.
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
    """What a scheduler knows of a pod: a running one from its own state, any other from what it wrote to the API."""

    #: The node that the pod is on, or will be bound to.
    node: str = ""
    story: StoryRecord | None = None
    condition: ConditionRecord | None = None
    events: tuple[EventRecord, ...] | None = None


class ExtenderResultRecord(Record, frozen=True, kw_only=True):
    """An extender's answer about a pod's nodes."""

    extender: str
    #: filter or prioritize.
    verb: str
    #: Number of nodes in the request.
    asked: int
    #: Node -> reason; "" if there is none.
    refused: dict[str, str] = {}
    #: Node -> addition to its score.
    points: dict[str, int] = {}
    #: Why there is no answer.
    failed: str = ""


class ReliefRecord(Record, frozen=True, kw_only=True):
    """A change that was tried on all rejected pods together."""

    text: str
    #: How many of them it places.
    pods: int
    changes: tuple[dict[str, Any], ...]
    note: str = ""


class GroupPodRecord(Record, frozen=True, kw_only=True):
    """A pod of a group that fits along with the others."""

    pod: str
    node: str
    #: Pods to evict first.
    victims: tuple[str, ...] = ()


class GroupRefusalRecord(Record, frozen=True, kw_only=True):
    """Pods of a group without a node, for the same reason."""

    reason: str
    #: Their message, including PostFilter's part.
    message: str
    plugins: tuple[str, ...] = ()
    #: Their number, and the first of them.
    pods: int
    names: tuple[str, ...]


class GroupDomainRecord(Record, frozen=True, kw_only=True):
    """The trial of a group in one domain."""

    #: The value of the topology label; "" for the whole cluster.
    name: str = ""
    nodes: int
    fits: bool = False
    chosen: bool = False
    #: The number of missing pods, and their total requests.
    lacking: int = 0
    lacking_resources: dict[str, str] = {}
    placed: tuple[GroupPodRecord, ...] = ()
    refused: tuple[GroupRefusalRecord, ...] = ()
    #: Pods to evict for the group as a whole.
    victims: tuple[str, ...] = ()


class GroupVerdictRecord(Record, frozen=True, kw_only=True):
    """The current verdict on a pod group as a whole."""

    kind: str
    pod_group: str
    #: `gang` or `basic`; "" without a PodGroup object.
    policy: str = ""
    min_count: int = 0
    topology_key: str = ""
    fits: bool = False
    #: Whether it fits after evictions.
    waits_for_preemption: bool = False
    #: The status of its condition: PodGroupInitiallyScheduled, until 1.36 PodGroupScheduled.
    code: str
    message: str = ""
    #: Pods that were tried, in order.
    pods: tuple[str, ...] = ()
    #: Whether all pods have nodes, and were judged as if they had not.
    judged_as_pending: bool = False
    #: Pods that keep their nodes.
    have_node: dict[str, str] = {}
    #: Pod -> why PreEnqueue gates it.
    held_back: dict[str, str] = {}
    #: The selected domain.
    domain: str = ""
    #: The selected one, then the others by how close they come.
    domains: tuple[GroupDomainRecord, ...] = ()
    #: The cluster's scheduler's condition.
    condition: ConditionRecord | None = None
    #: Changes that let the group fit.
    relief: tuple[ReliefRecord, ...] = ()
    #: Extenders that were skipped -> why.
    not_asked: dict[str, str] = {}


class VerdictRecord(Record, frozen=True, kw_only=True):
    """The current verdict on one pod."""

    kind: str
    pod: str
    #: In a list, other pods that share the verdict.
    alike: tuple[str, ...] = ()
    #: The error that ended the cycle; `gated` if PreEnqueue gates the pod.
    error: str = ""
    node: str = ""
    #: Whether `node` is chosen because the pod is nominated to it, regardless of scores.
    nominated: bool = False
    #: The pod's nominated node, whether or not it is chosen.
    nominated_node: str = ""
    current_node: str = ""
    pre_filter_message: str = ""
    absent_nodes_status: StatusRecord | None = None
    unschedulable_plugins: tuple[str, ...] = ()
    #: Nodes by reason, the largest group first.
    refusals: tuple[RefusalRecord, ...] = ()
    #: Node -> the first plugin that rejected it.
    rejected: dict[str, StatusRecord] = {}
    #: Number of feasible nodes; in a list, the other fields only have the best of them.
    feasible_nodes: int | None = None
    feasible: tuple[str, ...] = ()
    #: Node -> plugin -> score.
    scores: dict[str, dict[str, int]] = {}
    totals: dict[str, int] = {}
    #: Node -> plugin -> what its score rests on.
    score_details: dict[str, dict[str, str]] = {}
    #: What plugins say of the pod whether it fits or not.
    facts: tuple[str, ...] = ()
    message: str = ""
    full_message: str = ""
    preemption: PreemptionRecord | None = None
    extenders: tuple[ExtenderResultRecord, ...] = ()
    #: PostFilter plugins and extenders that were skipped -> why.
    not_asked: dict[str, str] = {}
    suggestions: tuple[SuggestionRecord, ...] = ()
    #: More nodes that would take it.
    relief: tuple[ReliefRecord, ...] = ()
    obstacles: tuple[str, ...] = ()
    scheduler: SchedulerRecord | None = None
    #: The verdict on the pod's group.
    pod_group: GroupVerdictRecord | None = None
    leader: str | None = None
    page: list[Any] | None = None


class GroupStateRecord(Record, frozen=True, kw_only=True):
    """What a running scheduler knows of a pod group."""

    pod_group: str
    #: From the PodGroup; 0 if the group is not a gang.
    min_count: int = 0
    condition: ConditionRecord | None = None
    #: Pods in the queue, and assumed or bound pods.
    waiting: tuple[QueuedPodRecord, ...] = ()
    have_node: dict[str, str] = {}
    #: The current verdict, if requested.
    verdict: GroupVerdictRecord | None = None
    #: Why there is no verdict, or what it does not include.
    note: str = ""
    story: StoryRecord | None = None
    leader: str | None = None
    page: list[Any] | None = None


class WorkloadRecord(Record, frozen=True, kw_only=True):
    """What a workload wants, and what there is of it."""

    kind: str
    #: namespace/name.
    workload: str
    #: The number of pods that its controller would have now; of a CronJob: those that it has.
    wanted: int
    #: Its unfinished pods, and how many were not created.
    existing: int
    missing: int = 0
    #: Why: the ReplicaFailure condition, or the last Warning about it; and since when.
    reason: str = ""
    message: str = ""
    since: str = ""
    #: Of a Job.
    succeeded: int = 0
    failed: int = 0
    #: What else keeps pods from being created or replaced: it is paused, suspended, being deleted.
    notes: tuple[str, ...] = ()


class CauseRecord(Record, frozen=True, kw_only=True):
    """Pending pods with the same reason, by the plugin that rejects most nodes."""

    plugin: str = ""
    reason: str
    pods: int
    #: Namespace -> number of pods.
    namespaces: dict[str, int]


class SummaryRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A summary of many pods."""

    pods: int
    #: Numbers of pods that run, that have a node but do not run yet, and that are being deleted.
    running: int
    starting: int
    deleting: int
    #: Number of pods that wait on Permit, according to their scheduler.
    on_permit: int
    #: Number of pods that have been given a node and wait for a provisioner to create the volume of their claim.
    on_claim: int
    #: Number of pods that would get a node alone, but whose pod group does not fit as a whole.
    in_group: int
    #: Of the others without a node, the numbers that would be placed now, that fit nowhere, that are gated, and that no
    #: profile here schedules.
    placeable: int
    #: How many of the placeable ones have room at the same time; absent if there are too many to try.
    together: int | msgspec.UnsetType = msgspec.UNSET
    refused: int
    gated: int
    unjudged: int
    #: For all that do not run and are neither placeable nor being deleted; the cause of most pods first.
    causes: tuple[CauseRecord, ...]
    #: Namespace -> number of pods.
    namespaces: dict[str, int]
    #: The change that places most of them first.
    relief: tuple[ReliefRecord, ...]


class VerdictListRecord(Record, frozen=True, kw_only=True):
    """The verdicts on several pods."""

    kind: str
    #: The workloads that were named.
    workloads: tuple[WorkloadRecord, ...] = ()
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
    """Pending pods for which the node is feasible, and where they go."""

    pods: tuple[str, ...]
    goes_to: str
    #: By how many points another node is better.
    points_behind: int = 0


class HelpRecord(Record, frozen=True, kw_only=True):
    """A change that would make the node feasible for pods."""

    text: str
    changes: tuple[dict[str, Any], ...]
    note: str = ""


class RefusesRecord(Record, frozen=True, kw_only=True):
    """Pending pods that the node rejects."""

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
    """Pending pods that were not filtered."""

    pods: tuple[str, ...]
    reason: str


class NodeRecord(Record, frozen=True, kw_only=True):
    """One node as the scheduler sees it."""

    kind: str
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
    #: The blocks of a page, if one was requested from a running scheduler.
    page: list[Any] | None = None
