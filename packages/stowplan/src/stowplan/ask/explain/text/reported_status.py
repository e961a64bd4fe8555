"""The live scheduler's report about a pod: its PodScheduled condition and Events.

Shown next to our own verdict. The two may differ, because the scheduler judged the cluster at that time, with its own
configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stowplan.ask.explain.reported_events import last_reported_time, seconds_of, times_reported
from stowplan.ask.explain.text.scheduler_text import scheduler_blocks
from stowplan.ask.explain.text.tables import Line
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.scheduler.inspection.queue_state import ON_ITS_WAY, WAITS_FOR_CLAIM
from stowplan.scheduler.inspection.records import ConditionRecord, EventRecord, SchedulerRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stowplan.ask.explain.text.tables import Block, Cell, Span
    from stowplan.ask.explain.verdicts.verdict import Verdict
    from stowplan.kube.api.types import Event, Pod, PodCondition

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
    known: SchedulerRecord | None = None

    @classmethod
    def about(
        cls, pod: Pod, events: Sequence[Event] | None = None, known: SchedulerRecord | None = None
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

    def record(self) -> SchedulerRecord | None:
        """None if there is nothing to report."""
        if self.condition is None and self.events is None:
            return self.known
        events = None if self.events is None else tuple(_event(event) for event in self.events)
        return msgspec.structs.replace(
            self.known or SchedulerRecord(),
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
        return [] if self.known is None else scheduler_blocks(self.known, wide=wide, asked_for_story=not among_others)

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


def _condition(condition: PodCondition) -> ConditionRecord:
    return ConditionRecord(
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        since=condition.last_transition_time or "",
    )


def _event(event: Event) -> EventRecord:
    return EventRecord(
        time=last_reported_time(event),
        type=event.type,
        reason=event.reason,
        note=event.note,
        from_=event.reporting_controller,
        count=times_reported(event),
    )
