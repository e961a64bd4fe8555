"""The report of a search as one HTML file: the Pareto front, and the evaluation."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from stowplan.kube.timing.waits import COUNTED
from stowplan_lab.compare.text import amount, spread, title_of
from stowplan_lab.simulation.report.html import figure, standing_page
from stowplan_lab.simulation.report.pictures import COLOURS, Dot, Series, lines, scatter
from stowplan_lab.tuning.pareto_front import front
from stowplan_lab.tuning.text import judged_name, parts_text, verdict_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stowplan_lab.tuning.records import TrialRecord, TuningRecord

_GREY, _BASELINE, _BEST, _FRONT = COLOURS - 1, 6, 2, 0


def tuning_html(found: TuningRecord) -> str:
    return standing_page(f"Tuned: {found.scenario}", "".join(_body(found)))


def _body(found: TuningRecord) -> Iterator[str]:
    yield f"<h1>Tuned: {escape(found.scenario)}</h1>"
    yield f"<p>Objective {escape(found.objective)}, seed {found.seed}; {escape(parts_text(found))}.</p>"
    yield f'<p id="verdict"><strong>{escape(verdict_text(found))}</strong></p>'
    scored = [one for one in found.trials if one.score is not None]
    if scored and len(found.axes) == 2:
        yield _front(found, scored)
    if scored:
        yield _timeline(found, scored)
    if found.judged:
        yield f"<h2>On the held-out part</h2>{_judged(found)}"
        yield f"<p>{COUNTED}</p>"
        yield "<p>± is half of a 95 % interval of confidence; * marks differences that chance does not explain.</p>"
    if found.best is not None:
        rows = [(name, str(value)) for name, value in found.trial(found.best).values.items()]
        yield f"<h2>Trial {found.best}, the best</h2>{_table(('parameter', 'value'), rows)}"
    yield f"<h2>All trials</h2>{_trials(found)}"
    for note in found.notes:
        yield f"<p>{escape(note)}</p>"


def _front(found: TuningRecord, scored: Sequence[TrialRecord]) -> str:
    first, second = found.axes

    def dot(measures: dict[str, float], name: str, colour: int, *, marked: bool = False, joined: bool = False) -> Dot:
        x, y = measures.get(first, 0.0), measures.get(second, 0.0)
        text = f"{name}: {title_of(first)} {amount(x)}, {title_of(second)} {amount(y)}"
        return Dot(x, y, text, colour, marked, joined)

    dots = [dot(one.measures, f"trial {one.number}", _GREY) for one in scored if not one.compromise]
    compromises = front(found.axes, {one.number: one.measures for one in scored})
    dots += [dot(found.trial(number).measures, f"trial {number}", _FRONT, joined=True) for number in compromises]
    dots.append(dot(found.baseline, "baseline", _BASELINE, marked=True))
    if found.best is not None:
        dots.append(dot(found.trial(found.best).measures, f"trial {found.best}, the best", _BEST, marked=True))
    title = f"{title_of(first)} against {title_of(second)}"
    keys = [
        Series("good compromises", (), colour=_FRONT),
        Series("other trials", (), colour=_GREY),
        Series("baseline", (), colour=_BASELINE),
        Series("the best by the objective", (), colour=_BEST),
    ]
    caption = "On the part that was searched. Of good compromises none is worse than another trial in both measures."
    picture = scatter(title, (title_of(first), title_of(second)), dots, _on_axis)
    return figure("The front of good compromises", caption, picture, keys, "front")


def _on_axis(value: float) -> str:
    """As short as possible: there is little room next to a chart on a phone."""
    return f"{value:,.4g}"


def _timeline(found: TuningRecord, scored: Sequence[TrialRecord]) -> str:
    """Scores may be negative, but lines start at 0: shows the improvement of the best so far over the baseline."""
    lead, best = [], 0.0
    for one in scored:
        assert one.score is not None
        best = max(best, found.baseline_score - one.score)
        lead.append(best)
    series = [Series("lead of the best trial so far", lead)]
    picture = lines(
        "Lead over the baseline by trial", [float(one.number) for one in scored], series, lambda n: f"{n:.0f}", _on_axis
    )
    return figure(
        "The timeline of the search", "Lead over the baseline in the objective, by trial.", picture, (), "timeline"
    )


def _judged(found: TuningRecord) -> str:
    head = ["", *(judged_name(found, one) for one in found.judged)]
    rows: list[Sequence[str]] = [
        ("score, less is better", *(spread(one.score, sign=True) + _star(one.score.certain) for one in found.judged))
    ]
    names = dict.fromkeys(name for one in found.judged for name in one.measures)
    for name in names:
        cells = []
        for one in found.judged:
            value, less = one.measures.get(name), one.differences.get(name)
            cells.append("" if value is None else spread(value) + _star(less is not None and less.certain))
        rows.append((title_of(name), *cells))
    return _table(head, rows)


def _star(certain: bool) -> str:
    return " *" if certain else ""


def _trials(found: TuningRecord) -> str:
    head = ("trial", "score", *(title_of(name) for name in found.axes), "")
    rows = []
    for one in sorted(found.trials, key=lambda trial: (trial.score is None, trial.score or 0.0, trial.number)):
        values = [amount(one.measures.get(name, 0.0)) if one.measures else "" for name in found.axes]
        mark = "compromise" if one.compromise else one.error
        rows.append((str(one.number), "failed" if one.score is None else amount(one.score), *values, mark))
    return _table(head, rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def row(cells: Sequence[str], kind: str) -> str:
        return "<tr>" + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"

    return f'<div class="wide"><table>{row(head, "th")}{"".join(row(cells, "td") for cells in rows)}</table></div>'
