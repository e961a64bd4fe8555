"""A comparison as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.ask.explain.text.tables import Grid, Line
from stowplan.kube.timing.waits import COUNTED
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan_lab.compare.recorded import PLACED_DIFFERENTLY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stowplan.ask.explain.text.tables import Block
    from stowplan_lab.compare.comparison import ComparisonRecord, MeasureRecord
    from stowplan_lab.compare.statistics import Estimate

NO_DIFFERENCE = "No difference: every pod has the same node at the same time."
_PLAIN = {
    "waits.mean": "mean wait (s)",
    "waits.p95": "p95 wait (s)",
    "waits.longest": "longest wait (s)",
    "unplaced": "pods without node",
    "evictions": "evictions",
    "nodes.mean": "nodes",
    "cost": "cost",
    PLACED_DIFFERENTLY: "other node than recorded (%)",
}
_SHARES = {"utilization": "in use (%)", "fragmentation": "fragmented (%)"}


def title_of(measure: str) -> str:
    kind, _, resource = measure.partition(".")
    return _PLAIN.get(measure) or f"{resource} {_SHARES.get(kind, kind)}".strip()


def amount(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.2f}"


def spread(found: Estimate, *, sign: bool = False) -> str:
    """Mean ± half of the interval."""
    text = ("+" if sign and found.mean > 0 else "") + amount(found.mean)
    return text if found.high is None else f"{text} ±{amount(found.high - found.mean)}"


def comparison_page(found: ComparisonRecord) -> list[Block]:
    return list(_blocks(found))


def _blocks(found: ComparisonRecord) -> Iterator[Block]:
    yield Line(((found.scenario, "name"), (f", {how_often(found)}", "")))
    for letter, name in zip(letters(found), found.configs, strict=True):
        yield Line(f"{letter}: {name}", indent=2)
    yield Line()
    if found.seeds and found.is_same:
        yield Line(NO_DIFFERENCE)
        yield Line()
    if found.seeds:
        head = ["", *letters(found), *(f"{letter} − A" for letter in letters(found)[1:])]
        rows = [_row(measure) for measure in found.measures]
        others = [spread(one) for one in found.placed_differently[1:]]
        rows.append(["placed differently (%)", *[""] * len(found.configs), *others])
        yield Grid(rows, header=head, right=frozenset(range(1, len(head))))
        yield Line()
        yield Line(COUNTED)
        if not found.recording:
            yield Line("± is half of a 95 % interval of confidence; * marks differences that chance does not explain.")
    for note in found.notes:
        yield Line(note)
    for failure in found.failures:
        yield Line(f"failed: {failure.config}, seed {failure.seed}: {failure.error}")


def how_often(found: ComparisonRecord) -> str:
    how = "a recording, scheduled again" if found.recording else count(len(found.seeds), "seed")
    return f"{how} (interrupted)" if found.interrupted else how


def letters(found: ComparisonRecord) -> list[str]:
    return [chr(ord("A") + i) for i in range(len(found.configs))]


def _row(measure: MeasureRecord) -> Sequence[str]:
    differences = [spread(one, sign=True) + (" *" if one.certain else "") for one in measure.differences[1:]]
    return [title_of(measure.name), *(spread(one) for one in measure.values), *differences]
