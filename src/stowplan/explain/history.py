"""What a scheduler at work knows of a pod beyond its verdict: where it is now, and how it got there; and what was
decided last, of all pods.

`Standing` is told beside the verdict, as `Heard` is where only the API can be asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stowplan.explain.tables import Grid, Line
from stowplan.framework.explanations.formatting import count, listed
from stowplan.inspection.stories import time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.explain.tables import Block, Cell
    from stowplan.inspection.stories import DecisionRecord, Step, Story
    from stowplan.queue.queued_pod import QueuedPod

#: Steps of a story in the short form, the last ones.
_STEPS = 12


@dataclass(frozen=True)
class Standing:
    """How things stand with a pod."""

    #: In one or two words; "" for a pod that the scheduler does not have.
    place: str = ""
    queued: QueuedPod | None = None
    #: The node that it is on, or on its way to.
    node: str = ""
    story: Story | None = None

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"place": self.place, "node": self.node}
        if self.queued is not None:
            found |= _queued(self.queued)
        if self.story is not None:
            found["story"] = self.story.to_dict()
        return {key: value for key, value in found.items() if value}

    def blocks(self, *, wide: bool) -> list[Block]:
        blocks: list[Block] = [Line(), Line((("What this scheduler knows of it", "head"),)), Line(self._now(), 2)]
        if self.story is None:
            return [*blocks, Line((("no story: none was begun, or it was forgotten for newer ones", "dim"),), 2)]
        steps = self.story.steps
        shown = steps if wide else steps[-_STEPS:]
        left = len(steps) - len(shown) + self.story.forgotten
        if left:
            kept = "" if wide else " (-o wide shows those that are kept)"
            blocks.append(Line(((f"… {count(left, 'earlier step')}{kept}", "dim"),), 2))
        return [*blocks, Grid([[((time_text(step.time), "dim"),), _words(step)] for step in shown])]

    def _now(self) -> Cell:
        told = _queued(self.queued) if self.queued is not None else {}
        parts = [count(told["attempts"], "attempt")] if told.get("attempts") else []
        if "backoffUntil" in told:
            parts.append(f"until {told['backoffUntil']}")
        if "gatedBy" in told:
            parts.append(f"gated by {told['gatedBy']}")
        elif rejectors := told.get("rejectedBy"):
            parts.append(f"waits for an event that {listed(rejectors)} asked for")
        more = f" ({'; '.join(parts)})" if parts else ""
        where = f" {self.node}" if self.node else ""
        return ((f"{self.place or 'gone'}{where}", "pending" if self.queued is not None else ""), (more, "dim"))


def _queued(queued: QueuedPod) -> dict[str, Any]:
    until = queued.backoff_expiration
    found: dict[str, Any] = {
        "attempts": queued.attempts,
        "since": time_text(queued.timestamp),
        "backoffUntil": "" if until is None or "backoff" not in queued.place.value else time_text(until),
        "gatedBy": queued.gating_plugin,
        "rejectedBy": sorted(queued.rejectors),
    }
    return {key: value for key, value in found.items() if value}


def _words(step: Step) -> Cell:
    decision = step.decision
    style = "" if decision is None else "good" if decision.node_name else "bad"
    return ((step.text(), style),)


def waiting_page(waiting: Sequence[QueuedPod], *, left_out: int, summary: str) -> list[Block]:
    """The pods that wait, as a scheduler's queue has them."""
    blocks: list[Block] = [Line(((summary, "head"),))]
    if waiting:
        rows: list[list[Cell]] = [
            [((queued.key, "name"),), queued.place.value, str(queued.attempts), ", ".join(sorted(queued.rejectors))]
            for queued in waiting
        ]
        blocks.append(Grid(rows, header=("POD", "WHERE", "ATTEMPTS", "REFUSED BY"), right=frozenset((2,))))
    if left_out:
        blocks.append(Line(((f"… and {count(left_out, 'more pod')}", "dim"),), 2))
    return blocks


def decisions_page(decisions: Sequence[DecisionRecord]) -> list[Block]:
    """The last decisions, the newest first."""
    if not decisions:
        return [Line("Nothing was decided yet.")]
    rows: list[list[Cell]] = [
        [((time_text(one.time), "dim"),), ((one.key, "name"),), ((one.text(), "good" if one.node_name else "bad"),)]
        for one in decisions
    ]
    return [Line((("Last decisions", "head"),)), Grid(rows)]
