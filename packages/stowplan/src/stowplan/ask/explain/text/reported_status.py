"""What a running scheduler reports, as text: stories, queue, decisions, a pod's PodScheduled condition and Events.

Shown next to our own verdict. The two may differ, because the scheduler judged the cluster at that time, with its own
configuration.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from msgspec.structs import replace

from stowplan.ask.explain.reported_events import last_reported_time, seconds_of, times_reported
from stowplan.ask.explain.text.tables import Block, Cell, Grid, Line, Span
from stowplan.ask.explain.verdicts.verdict import Verdict
from stowplan.kube.api.types import Event, Pod, PodCondition
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.explanations.formatting import count, listed
from stowplan.scheduler.inspection import records
from stowplan.scheduler.inspection.queue_state import ON_ITS_WAY, WAITS_FOR_CLAIM

#: Number of steps of a story in the short form; the last ones.
_STEPS = 8


def scheduler_blocks(record: records.SchedulerRecord, *, wide: bool, asked_for_story: bool = True) -> list[Block]:
    """What the scheduler knows about one pod."""
    blocks: list[Block] = [Line(), Line((("What this scheduler knows of it", "head"),)), Line(_state(record), 2)]
    story = record.story
    if story is None and not asked_for_story:
        return blocks
    if story is None:
        return [*blocks, Line((("no story: none was begun, or it was forgotten for newer ones", "dim"),), 2)]
    shown = story.steps if wide else story.steps[-_STEPS:]
    left = len(story.steps) - len(shown) + story.forgotten
    if left:
        kept = "" if wide else " (-o wide shows those that are kept)"
        blocks.append(Line(((f"… {count(left, 'earlier step')}{kept}", "dim"),), 2))
    return [*blocks, _steps(shown)]


def group_state_page(record: records.GroupStateRecord, *, wide: bool) -> list[Block]:
    """What the scheduler knows about a pod group."""
    gang = f", a gang of at least {record.min_count:,}" if record.min_count else ""
    counts = f": {count(len(record.have_node), 'pod')} with a node, {len(record.waiting):,} in the queue{gang}"
    blocks: list[Block] = [Line((("pod group ", ""), (record.pod_group, "name"), (counts, "")))]
    if record.condition is not None:
        said = f"its condition: {record.condition.status}, {record.condition.reason}"
        message = f": {record.condition.message}" if record.condition.message else ""
        blocks.append(Line(f"{said}{message}", 2))
    if record.note:
        blocks.append(Line(((record.note, "dim"),), 2))
    if record.story is not None:
        steps = record.story.steps if wide else record.story.steps[-_STEPS:]
        blocks += [Line(), Line((("What happened", "head"),)), _steps(steps)]
    if record.waiting:
        shown = record.waiting if wide else record.waiting[:_STEPS]
        rows: list[list[Cell]] = [
            [
                ((pod.pod, "name"),),
                pod.place,
                count(pod.attempts, "attempt"),
                pod.gated_by and f"gated by {pod.gated_by}",
            ]
            for pod in shown
        ]
        blocks += [Line(), Line((("In the queue", "head"),)), Grid(rows)]
        if len(record.waiting) > len(shown):
            more = f"… and {count(len(record.waiting) - len(shown), 'more pod')}"
            blocks.append(Line(((more, "dim"),), 2))
    return blocks


def _state(record: records.SchedulerRecord) -> Cell:
    parts = [count(record.attempts, "attempt")] if record.attempts else []
    if record.backoff_until:
        parts.append(f"until {seconds_of(record.backoff_until)}")
    if record.gated_by:
        parts.append(f"gated by {record.gated_by}")
    elif record.rejected_by:
        parts.append(f"waits for an event that {listed(record.rejected_by)} asked for")
    more = f" ({'; '.join(parts)})" if parts else ""
    where = f" {record.node}" if record.node else ""
    # Only a pod in the queue has a time since which it is there.
    return ((f"{record.place or 'gone'}{where}", "pending" if record.since else ""), (more, "dim"))


def _steps(steps: Sequence[records.StepRecord]) -> Grid:
    """A message that an attempt repeats is shown once."""
    rows: list[list[Cell]] = []
    said = ""
    for step in steps:
        repeats = step.decided and step.message and step.message == said
        text = (replace(step, message="as before") if repeats else step).text()
        said = step.message if step.decided else said
        style = "" if not step.decided else "good" if step.node else "bad"
        rows.append([((seconds_of(step.time), "dim"),), ((seconds_of(text), style),)])
    return Grid(rows)


def queue_page(record: records.QueueRecord, *, summary: str) -> list[Block]:
    """The waiting pods in a scheduler's queue."""
    blocks: list[Block] = [Line(((summary, "head"),))]
    if record.pods:
        rows: list[list[Cell]] = [
            [((pod.pod, "name"),), pod.place, str(pod.attempts), ", ".join(pod.rejected_by)] for pod in record.pods
        ]
        blocks.append(Grid(rows, header=("POD", "WHERE", "ATTEMPTS", "REFUSED BY"), right=frozenset((2,))))
    if record.left_out:
        blocks.append(Line(((f"… and {count(record.left_out, 'more pod')}", "dim"),), 2))
    if record.on_permit:
        on_permit: list[list[Cell]] = [
            [((pod.pod, "name"),), pod.node, ", ".join(pod.plugins)] for pod in record.on_permit
        ]
        blocks += [Line(), Grid(on_permit, header=("POD ON PERMIT", "NODE", "WAITS FOR"))]
    if record.on_permit_left_out:
        blocks.append(Line(((f"… and {count(record.on_permit_left_out, 'more pod')}", "dim"),), 2))
    return blocks


def decisions_page(record: records.DecisionsRecord) -> list[Block]:
    """The last decisions, newest first."""
    if not record.decisions:
        return [Line("Nothing was decided yet.")]
    rows: list[list[Cell]] = [
        [((one.time, "dim"),), ((one.pod, "name"),), ((one.attempt_text(), "good" if one.node else "bad"),)]
        for one in record.decisions
    ]
    return [Line((("Last decisions", "head"),)), Grid(rows)]


#: Number of Events in the short form.
_EVENTS = 4
#: Maximum length of a note next to its time and reason.
_SHORT = 40
_PAST = "Judged as things are now: what the scheduler saw when it chose the node cannot be seen from outside."
_ASK_THERE = (
    "Does it wait all the same? Only its scheduler knows what Permit or a backoff holds. No Stowplan scheduler that "
    "knows the pod runs on this machine as your user; ask one elsewhere: stowplan explain --from-scheduler URL pod "
    "NAME"
)


class ReportedStatus(PlainStruct, frozen=True):
    condition: PodCondition | None
    #: Newest first. None: not requested, or not readable.
    events: tuple[Event, ...] | None = None
    #: The scheduler's own record of the pod, if it was available.
    known: records.SchedulerRecord | None = None

    @classmethod
    def about(
        cls, pod: Pod, events: Sequence[Event] | None = None, known: records.SchedulerRecord | None = None
    ) -> ReportedStatus:
        found = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        newest = None if events is None else tuple(sorted(events, key=last_reported_time, reverse=True))
        return cls(found, newest, known)

    @property
    def on_its_way(self) -> tuple[str, str]:
        """What the pod waits for, and the node that it will be bound to; "" if it is not in a binding cycle."""
        place = "" if self.known is None else self.known.place
        if self.known is None or not (place in ON_ITS_WAY or place.startswith(WAITS_FOR_CLAIM)):
            return "", ""
        return place, self.known.node

    def record(self) -> records.SchedulerRecord | None:
        """None if there is nothing to report."""
        if self.condition is None and self.events is None:
            return self.known
        events = None if self.events is None else tuple(_event(event) for event in self.events)
        return msgspec.structs.replace(
            self.known or records.SchedulerRecord(),
            condition=None if self.condition is None else _condition(self.condition),
            events=events,
        )

    def blocks(
        self, verdict: Verdict, *, wide: bool, among_others: bool = False, waits_for_group: bool = False
    ) -> list[Block]:
        """`among_others`: on a page about many pods, only the newest Event is shown. `waits_for_group`: the node of the
        verdict does not matter yet.
        """
        said = self._spoken(verdict, would=not waits_for_group)
        blocks: list[Block] = [Line(), Line((("What the scheduler said", "head"),)), Line(said, 2)]
        if self.events is not None and (self.events or not among_others):
            above = {_computed_message(verdict), self.condition.message if self.condition is not None else ""}
            shown = len(self.events) if wide else 1 if among_others else _EVENTS
            blocks += _listed(self.events, above, shown)
        if verdict.current_node:
            blocks.append(Line(((_PAST, "dim"),), 2))
        if self.known is None and verdict.node_name and not verdict.current_node and not waits_for_group:
            blocks.append(Line(((_ASK_THERE, "dim"),), 2))
        return blocks

    def known_blocks(self, *, wide: bool, among_others: bool = False) -> list[Block]:
        """The scheduler's own record, which may be long."""
        known = self.known
        # That it waits for a claim is seen without asking a scheduler, and is in the headline.
        if known is None or (known.story is None and known.place.startswith(WAITS_FOR_CLAIM)):
            return []
        return scheduler_blocks(known, wide=wide, asked_for_story=not among_others)

    def _spoken(self, verdict: Verdict, *, would: bool) -> Cell:
        """`would`: a node that would take the pod now is worth saying."""
        condition = self.condition
        if condition is None:
            nothing = "nothing" if verdict.current_node else "nothing yet"
            return ((f"{nothing}: the pod has no PodScheduled condition", "pending"),)
        since = f" since {seconds_of(condition.last_transition_time)}" if condition.last_transition_time else ""
        reason = f" ({condition.reason})" if condition.reason else ""
        style = "good" if condition.status == "True" else "pending"
        spans: list[Span] = [(f"PodScheduled={condition.status}", style), (f"{reason}{since}", "dim")]
        if condition.message:
            same = condition.message == _computed_message(verdict)
            spans.append((": the same" if same else f": {condition.message}", ""))
        if would and condition.status == "False" and verdict.node_name and not verdict.current_node:
            spans.append((f"; as things are now, {verdict.node_name} would take it", "good"))
        return tuple(spans)


def _computed_message(verdict: Verdict) -> str:
    return verdict.full_message if verdict.gated is None else verdict.gated.message


def _listed(events: Sequence[Event], said: Collection[str], most: int) -> list[Block]:
    """Events that do not repeat what was `said` above; long ones are printed below, at full width."""
    if not events:
        return [Line((("no Events (an API server forgets them after an hour)", "dim"),), 2)]
    shown = events[:most]
    blocks: list[Block] = []
    for event in shown:
        style = "bad" if event.type == "Warning" else ""
        number = f" ×{times_reported(event)}" if times_reported(event) > 1 else ""
        time = seconds_of(last_reported_time(event))
        head: tuple[Span, ...] = ((f"{time} ", "dim"), (f"{event.reason}{number}", style))
        if event.note in said:
            blocks.append(Line((*head, (": the same", "")), 2))
        elif len(event.note) <= _SHORT:
            blocks.append(Line((*head, (f": {event.note}", "")), 2))
        else:
            blocks += [Line(head, 2), Line(event.note, 6)]
    left = len(events) - len(shown)
    more = [Line(((f"… and {count(left, 'older Event')} (-o wide)", "dim"),), 2)] if left else []
    return [*blocks, *more]


def _condition(condition: PodCondition) -> records.ConditionRecord:
    return records.ConditionRecord(
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        since=condition.last_transition_time or "",
    )


def _event(event: Event) -> records.EventRecord:
    return records.EventRecord(
        time=last_reported_time(event),
        type=event.type,
        reason=event.reason,
        note=event.note,
        from_=event.reporting_controller,
        count=times_reported(event),
    )
