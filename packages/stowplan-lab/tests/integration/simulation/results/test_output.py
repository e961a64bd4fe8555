"""The folder of a simulation: its files agree with the result, and errors lose no data."""

from __future__ import annotations

import itertools
import json

import msgspec
import pytest

from stowplan_lab.simulation.results.output import Digest, Folder
from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulate import simulate_scenario

SCENARIO = {
    "duration": 120,
    "cluster": {"groups": [{"name": "a", "count": 1, "capacity": {"cpu": 4}, "zones": ["x"]}]},
    "workloads": [
        {
            "name": "w",
            "manifest": {
                "kind": "Pod",
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]},
            },
            "poisson": "6/m",
            "lifetime": {"exponential": 20},
        }
    ],
}


def test_the_files_agree_with_the_result(tmp_path):
    folder = tmp_path / "out"
    kept = simulate_scenario(SCENARIO)
    written = simulate_scenario(SCENARIO, folder=folder)
    assert written.decisions is None
    rows = [json.loads(line) for line in (folder / "decisions.jsonl").read_bytes().splitlines()]
    assert rows == [row.to_dict() for row in kept.decisions]
    series = [json.loads(line) for line in (folder / "series.jsonl").read_bytes().splitlines()]
    assert series == [row.to_dict() for row in kept.series]
    assert json.loads((folder / "summary.json").read_bytes()) == json.loads(msgspec.json.encode(kept.summary))
    assert (folder / "report.html").read_text() == kept.report()


def test_parquet_has_the_columns_of_the_lines(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    found = simulate_scenario(SCENARIO, folder=tmp_path)
    table = parquet.read_table(tmp_path / "decisions.parquet")
    assert table.num_rows == found.summary.arrived
    assert parquet.read_table(tmp_path / "series.parquet").num_rows == len(found.series)
    for name, rows in (("decisions", simulate_scenario(SCENARIO).decisions), ("series", found.series)):
        table = parquet.read_table(tmp_path / f"{name}.parquet")
        written = {field for row in rows for field in row.to_dict()}
        assert set(table.column_names) >= written
        assert not [field for field in table.column_names if "_" in field]


def test_rows_have_requests():
    (row, *_) = simulate_scenario(SCENARIO).decisions
    assert row.requests == {"cpu": 2000}


def test_only_an_earlier_simulation_is_replaced(tmp_path):
    simulate_scenario(SCENARIO, folder=tmp_path)
    simulate_scenario(SCENARIO, folder=tmp_path, seed=2)
    strange = tmp_path / "home"
    strange.mkdir()
    (strange / "letter.txt").touch()
    with pytest.raises(ScenarioError, match=r"holds other files \(letter.txt…\)"):
        simulate_scenario(SCENARIO, folder=strange)
    with pytest.raises(ScenarioError, match="Not a directory"):
        simulate_scenario(SCENARIO, folder=strange / "letter.txt" / "x")


def test_an_earlier_simulation_is_kept_if_the_next_one_cannot_start(tmp_path):
    simulate_scenario(SCENARIO, folder=tmp_path)
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    workload = SCENARIO["workloads"][0]
    wrong = [{**workload, "name": "v", "manifest": {"kind": "Pood"}}, {**workload, "name": "u", "manifest": {}}]
    with pytest.raises(ScenarioError) as raised:
        simulate_scenario({**SCENARIO, "workloads": [workload, *wrong]}, folder=tmp_path)
    assert [problem.split(": ")[1] for problem in raised.value.problems] == ["v", "u"], "all of them"
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before


def test_rows_written_before_the_folder_is_known():
    row, kept = simulate_scenario(SCENARIO).decisions[0], []
    digest = Digest()
    digest.decision(row)
    digest.go_to(lambda row, line: kept.append(row))
    digest.decision(row)
    assert kept == [row, row]


def test_a_full_disk_is_reported_and_written_data_is_kept(tmp_path, monkeypatch):
    class Full:
        def write(self, line):
            raise OSError(28, "No space left on device")

        def close(self):
            pass

    begin = Folder.__init__

    def full(self, path):
        begin(self, path)
        self._lines.close()
        self._lines = Full()

    monkeypatch.setattr(Folder, "__init__", full)
    with pytest.raises(ScenarioError, match=r"decisions.jsonl: No space left on device"):
        simulate_scenario(SCENARIO, folder=tmp_path)


def test_a_full_disk_with_parquet(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow.parquet")

    def full(self, row):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stowplan_lab.simulation.results.output._ParquetTable.add", full)
    with pytest.raises(ScenarioError, match=r"decisions.parquet: No space left on device"):
        simulate_scenario(SCENARIO, folder=tmp_path)


def test_rows_can_be_disabled(tmp_path):
    assert simulate_scenario(SCENARIO, decisions=False).decisions is None
    simulate_scenario({**SCENARIO, "output": {"decisions": False}}, folder=tmp_path)
    assert not (tmp_path / "decisions.jsonl").read_bytes()


def test_sampling_interval():
    every = simulate_scenario({**SCENARIO, "output": {"every": 10}}).series
    assert [row.time for row in every] == [10.0 * i for i in range(13)]
    workload = {**SCENARIO["workloads"][0], "poisson": "1/m", "count": 60}
    free = simulate_scenario({**SCENARIO, "duration": None, "workloads": [workload]}).series
    assert 100 < len(free) <= 513
    steps = {round(b.time - a.time, 6) for a, b in itertools.pairwise(free)}
    assert len(steps) <= 2, "and are evenly apart, but for the last"
