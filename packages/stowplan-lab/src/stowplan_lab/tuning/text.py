"""The report of a search as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.ask.explain.text.tables import Grid, Line
from stowplan.kube.timing.waits import COUNTED
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan_lab.compare.text import amount, spread, title_of
from stowplan_lab.simulation.report.spans import span_text
from stowplan_lab.tuning.records import BETTER, NOT_JUDGED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.ask.explain.text.tables import Block
    from stowplan_lab.tuning.records import JudgedRecord, TuningRecord

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
    yield Line("± is half of a 95 % interval of confidence; * marks differences that chance does not explain.")
