"""The reference's answers to random configurations, where the recorded data is present."""

import gzip
import json
import pathlib
import re

import pytest

from stowplan.config import ConfigError, load_config

DATA = pathlib.Path(__file__).parents[1] / "golden" / "data"


def rows(path):
    if not path.exists():
        return []
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def comparable(error):
    """Leave out what may differ: source positions and the spelling of a rejected struct."""
    error = re.sub(r' in scheme "[^"]*"', "", error)
    return re.sub(r"Invalid value: \{.*?\}(?=: )", "Invalid value: {}", error)


def answer(config):
    try:
        loaded = load_config(config)
    except ConfigError as error:
        return {"error": comparable(str(error))}
    return {"written": loaded.to_dict(), "effective": loaded.effective_plugins()}


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=f"line {number}") for number, row in enumerate(rows(DATA / "config.jsonl.gz"), start=1)],
)
def test_the_answer_is_the_references(row):
    want = {key: row[key] for key in ("written", "effective", "error") if key in row}
    if "error" in want:
        want["error"] = comparable(want["error"])
    assert answer(row["config"]) == want


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.name) for path in sorted(DATA.glob("*.jsonl.gz")) if path.name[:6] != "config"]
)
def test_the_configurations_of_recorded_clusters_load(path):
    for scenario in rows(path):
        assert load_config(scenario["config"])
