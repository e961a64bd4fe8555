"""`stowplan compare --recording`: configurations that schedule a recording again."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from stowplan.app.cli.main import cli
from stowplan.scheduler.engine.input_log.recording import RecordingError
from stowplan_lab.compare.comparison import NO_ATTEMPTS, ONE_RUN, REAL, RECORDED, Scheduler, compare_recorded
from stowplan_lab.compare.comparison_report import NO_DIFFERENCE, comparison_report
from support.live.recordings import a_short_run
from support.sweeps.in_process import InProcessWorkers

PACKING = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("recorded") / "run.recording"
    asyncio.run(a_short_run(path))
    return str(path)


@pytest.fixture
def packing(tmp_path):
    path = tmp_path / "packing.yaml"
    path.write_text(PACKING)
    return str(path)


def compared(recording, *configs):
    schedulers = [Scheduler.of(one) for one in configs]
    return compare_recorded(recording, schedulers, names=configs, workers=InProcessWorkers())


def measure(found, name):
    return [value.mean for value in next(one for one in found.measures if one.name == name).values]


def test_a_configuration_does_not_differ_from_itself(recording):
    found = compared(recording, RECORDED, RECORDED)
    assert found.is_same
    assert comparison_report(found).headline == NO_DIFFERENCE
    assert all(value.low is None for one in found.measures for value in one.values), "one run has no interval"


def test_another_strategy_places_differently(recording, packing):
    found = compared(recording, RECORDED, packing)
    assert not found.failures
    # Of two pods one fits: on the larger node by default, on the smaller one when nodes are filled.
    assert [one.mean for one in found.placed_differently] == [0, 50]
    assert measure(found, "placedDifferently") == [0, 50]
    assert measure(found, "unplaced") == [1, 1]
    # The other one has waited from its arrival to the end, some 10 s later.
    first, second = measure(found, "waits.longest")
    assert first == second
    assert 10 <= first < 15
    assert found.notes == (ONE_RUN,)
    assert ONE_RUN in comparison_report(found).notes


def test_simulated_against_real_with_intervals(recording):
    """Reality is one run, and scheduling again comes close to its waits."""
    configs = (REAL, RECORDED)
    schedulers = [Scheduler.of(one) for one in configs]
    found = compare_recorded(recording, schedulers, names=configs, workers=InProcessWorkers(), seeds=3)
    assert found.seeds == (0, 1, 2)
    for one in found.measures:
        real, again = one.values
        assert real.low == real.mean == real.high
        assert again.low is not None
        assert again.mean == pytest.approx(real.mean, abs=0.05), one.name
    assert "with 3 seeds; whiskers" in comparison_report(found).lines[-1]


def test_a_recording_without_decisions_has_fewer_measures(recording, monkeypatch):
    from stowplan_lab.compare import comparison

    class Header:
        decides = False

    monkeypatch.setattr(comparison, "header_of", lambda path: Header)
    assert comparison.notes_of(recording) == (ONE_RUN, NO_ATTEMPTS)


def test_a_recording_that_is_cut_at_any_byte_is_compared_up_to_there_or_refused(recording, tmp_path):
    whole = Path(recording).read_bytes()
    cut = tmp_path / "cut.recording"
    compared_to, refused = set(), []
    for size in range(0, len(whole), max(1, len(whole) // 25)):
        cut.write_bytes(whole[:size])
        try:
            found = compared(str(cut), RECORDED, RECORDED)
        except RecordingError as error:
            refused.append(str(error))
            continue
        assert not found.failures
        assert found.is_same
        compared_to.add(len(found.measures))
    assert compared_to
    assert refused
    assert all(str(cut) in message for message in refused)


def test_the_command(recording, packing, tmp_path, monkeypatch):
    monkeypatch.setattr("stowplan_lab.sweeps.Processes", InProcessWorkers)
    page = tmp_path / "page.html"
    arguments = ["compare", "recorded", packing, "--recording", recording]
    found = CliRunner().invoke(cli, [*arguments, "--html", str(page)])
    assert found.exit_code == 0, found.output
    assert "other node than recorded (%)" in found.output
    assert "±" not in found.output
    assert page.read_text().startswith("<!doctype html>")
    data = json.loads(CliRunner().invoke(cli, [*arguments, "-o", "json"]).output)
    assert data["configs"] == ["recorded", packing]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["recorded", "recorded", "--recording", "gone"], "gone: ", id="no such recording"),
        pytest.param(["recorded", "gone.yaml", "--recording", "RECORDING"], "gone.yaml", id="no such configuration"),
        pytest.param(["recorded", "x"], "Give one of --scenario and --recording", id="neither"),
        pytest.param(["a", "b", "--recording", "r", "--scenario", "s"], "Give one of", id="both"),
    ],
)
def test_invalid_usage(recording, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(cli, ["compare", *(one.replace("RECORDING", recording) for one in arguments)])
    assert found.exit_code == 2
    assert message in found.output
