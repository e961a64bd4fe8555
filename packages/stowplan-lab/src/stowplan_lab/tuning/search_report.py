"""The report of a search: text, for the page with the Pareto front, and the folder with journal and configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from stowplan.ask.explain.text.tables import Block, Grid, Line
from stowplan.kube.api.yaml_text import to_yaml
from stowplan.kube.timing.waits import COUNTED
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.ui.one_file import report_file
from stowplan.ui.report_records import (
    AxisRecord,
    ChartRecord,
    LayerKind,
    LayerRecord,
    ReportRecord,
    SectionRecord,
    TableRecord,
)
from stowplan_lab.compare.comparison_report import PLUS_MINUS, amount, spread, title_of
from stowplan_lab.simulation.report.summary_text import span_text
from stowplan_lab.tuning.objective import TuningError, front
from stowplan_lab.tuning.search_records import BETTER, NOT_JUDGED, JudgedRecord, TrialRecord, TuningRecord

_SHOWN = 5


def tuning_page(found: TuningRecord) -> list[Block]:
    return list(_blocks(found))


def verdict_text(found: TuningRecord) -> str:
    """The verdict of the held-out part on the best trial, in one sentence."""
    if found.best is None:
        return "No trial is done."
    if found.verdict == NOT_JUDGED:
        return f"Not evaluated: interrupted. Trial {found.best} is the best so far; use --resume to continue."
    lead = f"on the held-out part trial {found.best} has a score of {spread(judged_best(found).score, sign=True)}"
    if found.verdict == BETTER:
        return f"Better than the baseline: {lead}, and less is better."
    if len(found.judged_seeds) < 2:
        return f"Not known to be better than the baseline: {lead}; a single seed does not show the spread."
    return f"Not better than the baseline beyond chance: {lead}; less is better."


def judged_best(found: TuningRecord) -> JudgedRecord:
    return next(one for one in found.judged if one.trial == found.best)


def judged_name(found: TuningRecord, one: JudgedRecord) -> str:
    if one.trial is None:
        return "baseline"
    return f"trial {one.trial}, the best" if one.trial == found.best else f"trial {one.trial}"


def parts_text(found: TuningRecord) -> str:
    return (
        f"searched: the first {span_text(found.split)} of {span_text(found.horizon)}, "
        f"{count(len(found.seeds), 'seed')}; judged: the rest, {count(len(found.judged_seeds), 'other seed')}"
    )


def _blocks(found: TuningRecord) -> Iterator[Block]:
    yield Line(((found.scenario, "name"), (f", objective {found.objective}, seed {found.seed}", "")))
    yield Line(parts_text(found))
    failed = [one for one in found.trials if one.score is None]
    yield Line(count(len(found.trials), "trial") + (f", {len(failed)} failed" if failed else ""))
    for one in failed[:_SHOWN]:
        yield Line(f"trial {one.number} failed: {one.error}", indent=2)
    yield Line()
    yield Line(((verdict_text(found), "head"),))
    if found.best is not None:
        yield Line()
        yield Grid(
            [(name, str(value)) for name, value in found.trial(found.best).values.items()],
            header=("parameter", f"trial {found.best}"),
        )
    if found.judged:
        yield Line()
        yield from _held_out(found)
    for note in found.notes:
        yield Line()
        yield Line(note)


def _held_out(found: TuningRecord) -> Iterator[Block]:
    shown = [one for one in found.judged if one.trial in (None, found.best)]
    baseline, best = shown[0], shown[-1]
    rows = [
        (
            title_of(name),
            spread(baseline.measures[name]) if name in baseline.measures else amount(0.0),
            spread(value),
            spread(best.differences[name], sign=True) + (" *" if best.differences[name].certain else ""),
        )
        for name, value in best.measures.items()
    ]
    yield Grid(
        rows, header=("held-out part", "baseline", f"trial {found.best}", "difference"), right=frozenset({1, 2, 3})
    )
    yield Line()
    yield Line(COUNTED)
    yield Line(PLUS_MINUS)


_OTHER, _BASELINE, _BEST, _FRONT = 7, 4, 2, 0


def tuning_report(found: TuningRecord) -> ReportRecord:
    return ReportRecord(
        title=f"Tuned: {found.scenario}",
        lines=(f"Objective {found.objective}, seed {found.seed}; {parts_text(found)}.",),
        headline=verdict_text(found),
        notes=found.notes,
        sections=tuple(_sections(found)),
    )


def _sections(found: TuningRecord) -> Iterator[SectionRecord]:
    scored = [one for one in found.trials if one.score is not None]
    if scored and len(found.axes) == 2:
        yield _front(found, scored)
    if scored:
        yield _timeline(found, scored)
    if found.judged:
        yield SectionRecord(
            name="judged", title="On the held-out part", caption=f"{COUNTED} {PLUS_MINUS}", table=_judged(found)
        )
    if found.best is not None:
        rows = tuple((name, str(value)) for name, value in found.trial(found.best).values.items())
        table = TableRecord(head=("parameter", "value"), rows=rows)
        yield SectionRecord(name="best", title=f"Trial {found.best}, the best", table=table)
    yield SectionRecord(name="trials", title="All trials", table=_trials(found))


def _front(found: TuningRecord, scored: Sequence[TrialRecord]) -> SectionRecord:
    first, second = found.axes
    Named = tuple[str, dict[str, float]]

    def layer(kind: LayerKind, name: str, colour: int, dots: Sequence[Named], marked: bool) -> LayerRecord:
        points = [(measures.get(first, 0.0), measures.get(second, 0.0)) for _, measures in dots]
        return LayerRecord(
            kind=kind,
            name=name,
            colour=colour,
            x=tuple(x for x, _ in points),
            y=tuple(y for _, y in points),
            labels=tuple(
                f"{one}: {title_of(first)} {amount(x)}, {title_of(second)} {amount(y)}"
                for (one, _), (x, y) in zip(dots, points, strict=True)
            ),
            marked=marked,
        )

    def named(number: int) -> Named:
        return f"trial {number}", found.trial(number).measures

    good = [named(number) for number in front(found.axes, {one.number: one.measures for one in scored})]
    others = [named(one.number) for one in scored if not one.compromise]
    layers = [
        layer("dot", "other trials", _OTHER, others, False),
        layer("line", "", _FRONT, good, False),
        layer("dot", "on the Pareto front", _FRONT, good, False),
        layer("dot", "baseline", _BASELINE, [("baseline", found.baseline)], True),
    ]
    if found.best is not None:
        layers.append(layer("dot", "the best by the objective", _BEST, [named(found.best)], True))
    chart = ChartRecord(x=AxisRecord(name=title_of(first)), y=AxisRecord(name=title_of(second)), layers=tuple(layers))
    caption = "On the part that was searched. No other trial is better than one on the front in both measures."
    return SectionRecord(name="front", title="The Pareto front", caption=caption, chart=chart)


def _timeline(found: TuningRecord, scored: Sequence[TrialRecord]) -> SectionRecord:
    """Scores may be negative, but lines start at 0: shows the improvement of the best so far over the baseline."""
    lead, best = [], 0.0
    for one in scored:
        assert one.score is not None
        best = max(best, found.baseline_score - one.score)
        lead.append(best)
    layer = LayerRecord(kind="step", x=tuple(float(one.number) for one in scored), y=tuple(lead))
    chart = ChartRecord(
        x=AxisRecord(name="trial", unit="count"), y=AxisRecord(name=f"lead{_score_unit(found)}"), layers=(layer,)
    )
    caption = "Lead of the best trial so far over the baseline, in the objective."
    return SectionRecord(name="timeline", title="The search", caption=caption, chart=chart)


def _judged(found: TuningRecord) -> TableRecord:
    scores = tuple(spread(one.score, sign=True) + _star(one.score.certain) for one in found.judged)
    rows = [(f"score{_score_unit(found)}, less is better", *scores)]
    names = dict.fromkeys(name for one in found.judged for name in one.measures)
    for name in names:
        cells = []
        for one in found.judged:
            value, less = one.measures.get(name), one.differences.get(name)
            cells.append(amount(0.0) if value is None else spread(value) + _star(less is not None and less.certain))
        rows.append((title_of(name), *cells))
    return TableRecord(head=("measure", *(judged_name(found, one) for one in found.judged)), rows=tuple(rows))


def _score_unit(found: TuningRecord) -> str:
    """Of a blend of measures: percent of the baseline's; a function's is its own."""
    return "" if ":" in found.objective else " (% of the baseline)"


def _star(certain: bool) -> str:
    return " *" if certain else ""


def _trials(found: TuningRecord) -> TableRecord:
    rows = []
    for one in sorted(found.trials, key=lambda trial: (trial.score is None, trial.score or 0.0, trial.number)):
        values = [amount(one.measures.get(name, 0.0)) if one.measures else "" for name in found.axes]
        mark = "on the front" if one.compromise else one.error
        rows.append((str(one.number), "failed" if one.score is None else amount(one.score), *values, mark))
    return TableRecord(head=("trial", "score", *(title_of(name) for name in found.axes), "remark"), rows=tuple(rows))


#: The resulting configuration; it is only called tuned if it is better.
TUNED, CANDIDATE, POLICY = "tuned.yaml", "candidate.yaml", "policy.yaml"
JOURNAL, DATA, PAGE = "study.journal", "report.json", "report.html"


class Results:
    def __init__(self, folder: Path) -> None:
        """Raises TuningError if it cannot be created."""
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TuningError(f"{folder}: {error.strerror}") from error
        self.journal = folder / JOURNAL

    def write(
        self, record: TuningRecord, configuration: dict[str, Any] | None, policy: dict[str, Any] | None
    ) -> Path | None:
        """Write the report, and the best configuration and policy if there are; the file of the first."""
        folder, written = self._folder, None
        try:
            for name in (TUNED, CANDIDATE, POLICY):
                (folder / name).unlink(missing_ok=True)
            if configuration is not None:
                written = folder / (TUNED if record.verdict == BETTER else CANDIDATE)
                written.write_text(_yaml(record, configuration), encoding="utf-8")
            if policy is not None:
                (folder / POLICY).write_text(_yaml(record, policy), encoding="utf-8")
            data = msgspec.json.format(msgspec.json.encode(record, order="deterministic"), indent=2)
            (folder / DATA).write_bytes(data + b"\n")
            (folder / PAGE).write_text(report_file(tuning_report(record)), encoding="utf-8")
        except OSError as error:
            raise TuningError(f"{error.filename or folder}: {error.strerror}") from error
        return written


def _yaml(record: TuningRecord, configuration: dict[str, Any]) -> str:
    # Through JSON: shared objects would be written as YAML aliases.
    apart = json.loads(json.dumps(configuration))
    # A name with a line break must not extend beyond the comment.
    lines = [f"stowplan tune {record.scenario}, objective {record.objective}, seed {record.seed}", verdict_text(record)]
    head = "".join(f"# {' '.join(line.split())}\n" for line in lines)
    return head + to_yaml(apart, sort_keys=True, width=1000)
