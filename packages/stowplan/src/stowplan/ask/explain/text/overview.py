"""A summary of many pods by cause.

Pods that no plugin can tell apart form a group, whose first verdict applies to all of them. The cause is what rejects
most nodes, as resolving it would gain the most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import UNSET

from stowplan.ask.explain.reported_events import seconds_of
from stowplan.ask.explain.text.tables import Block, Cell, Grid, Line, Span
from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict
from stowplan.ask.explain.verdicts.verdict import Verdict, refusals
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.scheduler.inspection.records import CauseRecord, ReliefRecord, SummaryRecord, WorkloadRecord

#: States of pods that have a node, or that never get one.
RUNNING, STARTING, DELETING = "running", "starting", "deleting"
#: States of pods that get no node now, and of pods that do not wait.
WITHOUT_NODE = ("in_group", "refused", "gated", "unjudged")
SETTLED = ("placeable", RUNNING, DELETING)

#: State -> of one pod, of several, and its style.
STATES = {
    RUNNING: ("runs", "run", "good"),
    STARTING: ("has a node but does not run yet", "have a node but do not run yet", "pending"),
    DELETING: ("is being deleted", "are being deleted", "pending"),
    "on_permit": ("waits on Permit", "wait on Permit", "pending"),
    "on_claim": ("waits for its claim", "wait for their claims", "pending"),
    "in_group": ("waits for its pod group", "wait for their pod group", "pending"),
    "placeable": ("would get a node now", "would get a node now", "good"),
    "refused": ("fits nowhere", "fit nowhere", "bad"),
    "gated": ("gated", "gated", "pending"),
    "unjudged": ("not judged", "not judged", "bad"),
}


def placed_state(info: PodInfo, node: str) -> str:
    """The state of a pod that is not waiting for a node; "" if it is."""
    if info.terminating:
        return DELETING
    if not node:
        return ""
    return STARTING if info.pod.status.phase == "Pending" else RUNNING


#: Maximum number of items per part in the short form.
_CAUSES, _NAMESPACES, _RELIEF = 8, 6, 5


class Group(PlainStruct, frozen=True):
    """Pods that share a verdict."""

    verdict: Verdict
    #: Keys of the other pods.
    alike: tuple[str, ...] = ()
    #: The node for which they wait on Permit, according to their scheduler.
    permit_node: str = ""
    #: Why they do not run on their node yet, as far as that is known.
    starting_reason: str = ""
    #: For whose volume they wait that have been given a node.
    claim_reason: str = ""
    #: The verdict on their pod group, if they are scheduled with one.
    pod_group: GroupVerdict | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.verdict.key, *self.alike)

    @property
    def is_refused(self) -> bool:
        """They were judged, and no node is feasible."""
        return self.state == "refused"

    @property
    def state(self) -> str:
        verdict = self.verdict
        placed = placed_state(verdict.pod, verdict.current_node)
        if placed:
            return placed
        if self.permit_node:
            return "on_permit"
        if verdict.error is not None:
            return "unjudged"
        if verdict.gated is not None:
            return "gated"
        if not verdict.node_name:
            return "refused"
        if self.claim_reason:
            return "on_claim"
        group = self.pod_group
        return "placeable" if group is None or group.best is None or group.fits else "in_group"


def summary(groups: Sequence[Group], relief: Sequence[ReliefRecord] = (), together: int | None = None) -> SummaryRecord:
    """`relief`: verified changes that would help. `together`: how many of the placeable pods have room at once."""
    of_state: Counter[str] = Counter()
    namespaces: Counter[str] = Counter()
    of_cause: dict[tuple[str, str], Counter[str]] = {}
    for group in groups:
        state = group.state
        of_state[state] += len(group.keys)
        where = Counter(key.partition("/")[0] for key in group.keys)
        namespaces += where
        if state not in SETTLED:
            of_cause.setdefault(_cause(group, state), Counter()).update(where)
    causes = [
        CauseRecord(plugin=plugin, reason=reason, pods=where.total(), namespaces=dict(where.most_common()))
        for (plugin, reason), where in of_cause.items()
    ]
    return SummaryRecord(
        pods=namespaces.total(),
        **{state: of_state[state] for state in STATES},
        together=UNSET if together is None else together,
        causes=tuple(sorted(causes, key=lambda cause: (-cause.pods, cause.plugin, cause.reason))),
        namespaces=dict(namespaces.most_common()),
        relief=tuple(relief),
    )


def _cause(group: Group, state: str) -> tuple[str, str]:
    """(plugin, reason). Messages that contain the pod's name would be a separate cause for each pod."""
    verdict = group.verdict
    if state == "on_permit":
        return "", "waits on Permit"
    if state == "on_claim":
        return "VolumeBinding", group.claim_reason
    if state == "in_group" and group.pod_group is not None:
        return "", f"pod group {group.pod_group.in_words()}"
    if state == STARTING:
        return "", group.starting_reason or "has a node, but does not run yet"
    if verdict.error is not None:
        return verdict.error.plugin, verdict.error.message.replace(f'"{verdict.key}"', "the pod")
    if verdict.gated is not None:
        return verdict.gated.plugin, verdict.gated.message
    diagnosis = verdict.diagnosis
    groups = refusals(diagnosis) if diagnosis is not None else []
    # Of a pod that is for certain nodes, such as a DaemonSet's, the others are not the cause.
    groups = [group for group in groups if diagnosis is not None and diagnosis.examined[group.rows].any()] or groups
    return (groups[0].plugin, groups[0].text) if groups else ("", verdict.message)


# -- pages -------------------------------------------------------------------------------------------------------------


def overview(
    record: SummaryRecord, workloads: Sequence[tuple[WorkloadRecord, Mapping[str, int]]] = (), *, wide: bool = False
) -> list[Block]:
    """The summary that precedes the groups. `workloads`: those that were named, with the states of their pods."""
    blocks: list[Block] = [line for one in workloads for line in _workload(*one, record, alone=len(workloads) == 1)]
    if len(workloads) != 1:
        blocks += [*([Line()] if blocks else []), _headline(record)]
    if record.causes:
        blocks += [Line(), Line((("Why they wait", "head"),)), *_causes(record, wide)]
    if len(record.namespaces) > 1:
        blocks += [Line(), Line((("By namespace", "head"),)), *_namespaces(record, wide)]
    if record.relief:
        blocks += [Line(), Line((("What would help most", "head"),)), *_relief(record, wide)]
    return blocks


def _headline(record: SummaryRecord) -> Line:
    numbers = {state: getattr(record, state) for state in STATES}
    return Line(((count(record.pods, "pod"), "name"), (": ", ""), *_states(numbers, record)))


def _workload(
    workload: WorkloadRecord, states: Mapping[str, int], record: SummaryRecord, *, alone: bool
) -> list[Block]:
    wants = f" wants {count(workload.wanted, 'pod')}" if workload.kind != "CronJob" else ""
    if workload.existing > workload.wanted or workload.kind == "CronJob":
        wants += f"{',' if wants else ''} has {count(workload.existing, 'pod')}"
    found = _states(states, record if alone else None)
    if workload.missing:
        missing = f"{workload.missing:,} {'are' if workload.missing != 1 else 'is'} not created"
        found += [*([(", ", "")] if found else []), (missing, "bad")]
    for number, what, style in ((workload.succeeded, "succeeded", "good"), (workload.failed, "failed", "bad")):
        if number:
            found += [*([(", ", "")] if found else []), (f"{number:,} {what}", style)]
    head = ((f"{workload.kind} {workload.workload}", "name"), (f"{wants}{': ' if found else ''}", ""), *found)
    blocks: list[Block] = [Line(head)]
    if workload.message:
        about = ", ".join(part for part in (workload.reason, seconds_of(workload.since)) if part)
        blocks.append(Line(((f"not created: {workload.message}", ""), (f" ({about})" if about else "", "dim")), 2))
    elif workload.missing and not workload.notes:
        blocks.append(Line((("not created, and nothing that can be read from here says why", "dim"),), 2))
    return [*blocks, *(Line(note, 2) for note in workload.notes)]


def _states(numbers: Mapping[str, int], record: SummaryRecord | None) -> list[Span]:
    """`record`: of all these pods, which knows whether the placeable ones have room at the same time."""
    found: list[Span] = []
    for state, (one, several, style) in STATES.items():
        number, text = numbers.get(state, 0), one
        if number != 1:
            text = several
        if state == "placeable" and record is not None and crowded(record):
            text, style = f"would each get a node now, but only {record.together:,} of them together", "pending"
        if number:
            found += [*([(", ", "")] if found else []), (f"{number:,} {text}", style)]
    return found


def crowded(record: SummaryRecord) -> bool:
    """Whether some pods would each get a node now, but not all of them together."""
    return record.together is not UNSET and record.together < record.placeable


def _causes(record: SummaryRecord, wide: bool) -> list[Block]:
    shown = record.causes if wide else record.causes[:_CAUSES]
    rows: list[list[Cell]] = [
        [count(cause.pods, "pod"), ((cause.plugin, "bad"),), cause.reason, ((_listed(cause.namespaces, wide), "dim"),)]
        for cause in shown
    ]
    return [Grid(rows, right=frozenset((0,))), *_more(len(record.causes) - len(shown), "cause")]


def _listed(namespaces: dict[str, int], wide: bool) -> str:
    """The first ones, which have the most pods."""
    shown = list(namespaces) if wide else list(namespaces)[:3]
    left = len(namespaces) - len(shown)
    return f"({', '.join(shown)}{f' and {left:,} more' if left else ''})"


def _namespaces(record: SummaryRecord, wide: bool) -> list[Block]:
    shown = list(record.namespaces.items())[: None if wide else _NAMESPACES]
    rows: list[list[Cell]] = [[count(number, "pod"), name] for name, number in shown]
    return [Grid(rows, right=frozenset((0,))), *_more(len(record.namespaces) - len(shown), "namespace")]


def _relief(record: SummaryRecord, wide: bool) -> list[Block]:
    blocks: list[Block] = []
    shown = record.relief if wide else record.relief[:_RELIEF]
    for number, one in enumerate(shown, start=1):
        gain = f"places {count(one.pods, 'pod')}"
        note = ((f" — {one.note}", "dim"),) if one.note else ()
        text = ((f"{number}. ", "dim"), (f"{one.text}: ", ""), (gain, "good"), *note)
        blocks.append(Line(text, 2, marked=True))
    return [*blocks, *_more(len(record.relief) - len(shown), "change")]


def _more(left: int, what: str) -> list[Block]:
    return [Line(((f"… and {count(left, f'more {what}')} (-o wide)", "dim"),), 2)] if left > 0 else []
