"""Stories, queue state and decisions of a running scheduler as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.ask.explain.reported_events import seconds_of
from stowplan.ask.explain.text.tables import Grid, Line
from stowplan.scheduler.framework.explanations.formatting import count, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.ask.explain.text.tables import Block, Cell
    from stowplan.scheduler.inspection.records import (
        DecisionsRecord,
        GroupStateRecord,
        QueueRecord,
        SchedulerRecord,
        StepRecord,
    )

#: Number of steps of a story in the short form; the last ones.
_STEPS = 8


def scheduler_blocks(record: SchedulerRecord, *, wide: bool, asked_for_story: bool = True) -> list[Block]:
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


def group_state_page(record: GroupStateRecord, *, wide: bool) -> list[Block]:
    """What the scheduler knows about a pod group."""
    gang = f", a gang of at least {record.min_count:,}" if record.min_count else ""
    counts = f": {count(len(record.have_node), 'pod')} with a node, {len(record.waiting):,} in the queue{gang}"
    blocks: list[Block] = [Line((("pod group ", ""), (record.pod_group, "name"), (counts, "")))]
    if record.condition is not None:
        said = f"PodGroupScheduled {record.condition.status}, {record.condition.reason}"
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


def _state(record: SchedulerRecord) -> Cell:
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


def _steps(steps: Sequence[StepRecord]) -> Grid:
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


def queue_page(record: QueueRecord, *, summary: str) -> list[Block]:
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


def decisions_page(record: DecisionsRecord) -> list[Block]:
    """The last decisions, newest first."""
    if not record.decisions:
        return [Line("Nothing was decided yet.")]
    rows: list[list[Cell]] = [
        [((one.time, "dim"),), ((one.pod, "name"),), ((one.attempt_text(), "good" if one.node else "bad"),)]
        for one in record.decisions
    ]
    return [Line((("Last decisions", "head"),)), Grid(rows)]
