"""What a running scheduler knows beside verdicts, as text: where a pod is, its story, the queue, decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.explain.tables import Grid, Line
from stowplan.framework.explanations.formatting import count, listed

if TYPE_CHECKING:
    from stowplan.explain.tables import Block, Cell
    from stowplan.inspection.records import DecisionsRecord, QueueRecord, SchedulerRecord, StepRecord

#: Steps of a story in the short form, the last ones.
_STEPS = 12


def scheduler_blocks(record: SchedulerRecord, *, wide: bool) -> list[Block]:
    """What the scheduler knows of one pod."""
    blocks: list[Block] = [Line(), Line((("What this scheduler knows of it", "head"),)), Line(_state(record), 2)]
    story = record.story
    if story is None:
        return [*blocks, Line((("no story: none was begun, or it was forgotten for newer ones", "dim"),), 2)]
    shown = story.steps if wide else story.steps[-_STEPS:]
    left = len(story.steps) - len(shown) + story.forgotten
    if left:
        kept = "" if wide else " (-o wide shows those that are kept)"
        blocks.append(Line(((f"… {count(left, 'earlier step')}{kept}", "dim"),), 2))
    return [*blocks, Grid([[((step.time, "dim"),), _step(step)] for step in shown])]


def _state(record: SchedulerRecord) -> Cell:
    parts = [count(record.attempts, "attempt")] if record.attempts else []
    if record.backoff_until:
        parts.append(f"until {record.backoff_until}")
    if record.gated_by:
        parts.append(f"gated by {record.gated_by}")
    elif record.rejected_by:
        parts.append(f"waits for an event that {listed(record.rejected_by)} asked for")
    more = f" ({'; '.join(parts)})" if parts else ""
    where = f" {record.node}" if record.node else ""
    # Only a pod in the queue has been there since some time.
    return ((f"{record.place or 'gone'}{where}", "pending" if record.since else ""), (more, "dim"))


def _step(step: StepRecord) -> Cell:
    style = "" if not step.decided else "good" if step.node else "bad"
    return ((step.text(), style),)


def queue_page(record: QueueRecord, *, summary: str) -> list[Block]:
    """The pods that wait, as a scheduler's queue has them."""
    blocks: list[Block] = [Line(((summary, "head"),))]
    if record.pods:
        rows: list[list[Cell]] = [
            [((pod.pod, "name"),), pod.place, str(pod.attempts), ", ".join(pod.rejected_by)] for pod in record.pods
        ]
        blocks.append(Grid(rows, header=("POD", "WHERE", "ATTEMPTS", "REFUSED BY"), right=frozenset((2,))))
    if record.left_out:
        blocks.append(Line(((f"… and {count(record.left_out, 'more pod')}", "dim"),), 2))
    return blocks


def decisions_page(record: DecisionsRecord) -> list[Block]:
    """The last decisions, the newest first."""
    if not record.decisions:
        return [Line("Nothing was decided yet.")]
    rows: list[list[Cell]] = [
        [((one.time, "dim"),), ((one.pod, "name"),), ((one.attempt_text(), "good" if one.node else "bad"),)]
        for one in record.decisions
    ]
    return [Line((("Last decisions", "head"),)), Grid(rows)]
