"""The categories of recorded answers, and how Stowplan is asked in each."""

import gzip
import json
import traceback
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from stowplan_scheduler_plugins.golden.chart import chart_answers
from stowplan_scheduler_plugins.golden.configurations import configuration_answer
from stowplan_scheduler_plugins.golden.controllers import controller_answers
from stowplan_scheduler_plugins.golden.numa import cache_answers, fingerprint_answers
from stowplan_scheduler_plugins.golden.scenarios import scenario_answers
from stowplan_scheduler_plugins.golden.scripts import script_answers
from stowplan_scheduler_plugins.golden.tally import CONFIGURATIONS, STEPS, VERDICTS, Answer

Json = Any
#: Categories that are not asked by verdicts.
_OF_PARTS = {
    "chart": chart_answers,
    "controllers": controller_answers,
    "coscheduling": script_answers,
    "fingerprint": fingerprint_answers,
    "nrtcache": cache_answers,
}
CONFIG = "config"
#: Clusters whose pods are judged one by one, or compared by a QueueSort plugin.
KNOWN = frozenset(
    {
        *_OF_PARTS,
        "allocatable",
        "elasticquota",
        "networkaware",
        "nodemetadata",
        "nrt",
        "peaks",
        "podstate",
        "preemptiontoleration",
        "qossort",
        "sysched",
        "trimaran-lroc",
        "trimaran-lvrb",
        "trimaran-tlp",
    }
)


def listed(folder: Path, wanted: Collection[str] | None = None) -> list[str]:
    """The categories of a folder, or those of them that are wanted."""
    found = sorted(path.name.removesuffix(".jsonl.gz") for path in folder.glob("*.jsonl.gz"))
    return [name for name in found if not wanted or name in wanted]


def rows_of(folder: Path, category: str, choose: Callable[[list[bytes]], list[bytes]] = list) -> Iterator[Json]:
    """The rows of a category; `choose` takes some of its lines."""
    with gzip.open(folder / f"{category}.jsonl.gz", "rb") as lines:
        yield from map(json.loads, choose(lines.readlines()))


def compared(folder: Path, category: str, choose: Callable[[list[bytes]], list[bytes]] = list) -> Iterator[Answer]:
    """The answers of a category, or of the chosen rows of it."""
    for number, row in enumerate(rows_of(folder, category, choose), 1):
        yield from _answers(category, number, row)


def _answers(category: str, number: int, row: Json) -> Iterator[Answer]:
    try:
        if category == CONFIG:
            yield configuration_answer(number, row)
        elif category in _OF_PARTS:
            yield from _OF_PARTS[category](number, row)
        elif category in KNOWN:
            yield from scenario_answers(row)
        else:
            yield from _not_built(category, number, row)
    except Exception:
        # Whatever it is: the other rows are compared.
        raised = " | ".join(traceback.format_exc().splitlines()[-3:])
        yield Answer(STEPS, row.get("name", f"{category} line {number}"), [f"raised: {raised}"])


def _not_built(category: str, number: int, row: Json) -> Iterator[Answer]:
    """A difference for each answer of a category that nothing answers yet."""
    name = row.get("name", f"{category} line {number}")
    verdicts, steps = len(row.get("verdicts") or ()), len(row.get("steps") or ())
    for i in range(verdicts):
        yield Answer(VERDICTS, f"{name} {i}", ["not built"])
    for i in range(steps or (not verdicts)):
        yield Answer(STEPS, f"{name} step {i}", ["not built"])


__all__ = ["CONFIG", "CONFIGURATIONS", "KNOWN", "compared", "listed"]
