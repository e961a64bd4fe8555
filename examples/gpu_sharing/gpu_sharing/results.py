"""What the runs of an experiment say together: means over seeds, as a table, as JSON and as the paper's figure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from stowplan.ui.one_file import report_file
from stowplan.ui.report_records import AxisRecord, ChartRecord, LayerRecord, ReportRecord, SectionRecord, TableRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_sharing.experiment import Run

#: Loads of the table, in percent of all GPUs.
TABLE_LOADS = (50, 80, 90, 100, 110, 120, 130)
#: Of the picture.
FIRST_LOAD = 50


@dataclass(frozen=True, slots=True)
class Curve:
    """One policy's measure by load: means over seeds, and the standard deviation of one run."""

    title: str
    means: list[float]
    deviations: list[float]


def curves(runs: Iterable[Run], measure: str, titles: dict[str, str]) -> list[Curve]:
    """A curve per policy that has runs, in the order of `titles`."""
    by_policy: dict[str, list[Run]] = {}
    for run in runs:
        by_policy.setdefault(run.policy, []).append(run)
    found = []
    for policy, title in titles.items():
        of_runs = [getattr(run, measure) for run in sorted(by_policy.get(policy, []), key=lambda run: run.seed)]
        if of_runs:
            # A seed more or less may fall one load short.
            columns = list(zip(*of_runs, strict=False))
            means = [round(fmean(column), 3) for column in columns]
            spread = [round(stdev(column), 3) if len(column) > 1 else 0.0 for column in columns]
            found.append(Curve(title, means, spread))
    return found


def table(of_policies: Sequence[Curve]) -> list[list[str]]:
    """Rows of text: a policy each, a column per load."""
    head = ["Policy", *(str(load) for load in TABLE_LOADS)]
    rows = [
        [
            curve.title,
            *(
                f"{curve.means[load]:.2f} ±{curve.deviations[load]:.2f}" if load < len(curve.means) else "–"
                for load in TABLE_LOADS
            ),
        ]
        for curve in of_policies
    ]
    return [head, *rows]


def figure(allocated: Sequence[Curve], fragments: Sequence[Curve], *, title: str) -> str:
    """Both measures over the load, with their tables, as an HTML file that stands alone."""
    sections = (
        _section("allocated", "GPU allocation, of all GPUs", allocated),
        _section("fragments", "Fragmented GPUs, of all GPUs", fragments),
    )
    return report_file(ReportRecord(title=title, sections=sections))


def _section(name: str, title: str, of_policies: Sequence[Curve]) -> SectionRecord:
    last = max((len(curve.means) for curve in of_policies), default=0)
    first = min(FIRST_LOAD, max(last - 2, 0))
    layers = tuple(
        LayerRecord(
            kind="line",
            name=curve.title,
            x=tuple(load / 100 for load in range(first, len(curve.means))),
            y=tuple(mean / 100 for mean in curve.means[first:]),
            colour=i,
        )
        for i, curve in enumerate(of_policies)
    )
    chart = ChartRecord(x=AxisRecord(name="arrived load", unit="ratio"), y=AxisRecord(unit="ratio"), layers=layers)
    head, *rows = table(of_policies)
    caption = "Means over seeds; in the table, in percent, with the deviation of one run."
    cells = TableRecord(head=tuple(head), rows=tuple(map(tuple, rows)))
    return SectionRecord(name=name, title=title, caption=caption, chart=chart, table=cells)
