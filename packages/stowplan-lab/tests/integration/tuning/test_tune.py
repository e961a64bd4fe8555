"""A complete search: the held-out part decides, results are deterministic, and finished trials are kept."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import stowplan
from stowplan.app.cli.main import cli
from stowplan.ask.rebalance import read_policy
from stowplan_lab.sweeps import Processes
from stowplan_lab.tuning.objective import TuningError
from stowplan_lab.tuning.search_records import BETTER, NOT_BETTER, NOT_JUDGED
from stowplan_lab.tuning.study import BATCH
from stowplan_lab.tuning.tune import Effort, tune_scenario
from support.page.saved import data_of
from support.sweeps.in_process import InProcessWorkers

pytest.importorskip("optuna", reason="the extra tune is not installed")

#: Pods are created and finish on nodes that an autoscaler removes when empty, so packing costs less.
SCENARIO = """
name: small
duration: 60m
output: {every: 1m}
cluster:
  groups:
  - {name: a, count: 4, capacity: {cpu: "8", memory: 32Gi}, price: 1, autoscale: {min: 1, max: 8, boot: 30s, idle: 30s}}
workloads:
- name: batch
  poisson: 5/m
  lifetime: {exponential: 2m}
  manifest: {kind: Pod, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1", memory: 1Gi}}}]}}
"""
PACKING = {"profiles": [{"strategy": ["MostAllocated"], "weights": {"NodeResourcesFit": [5, 10]}}]}
#: Two values with the same decisions.
IDLE = {"profiles": [{"weights": {"ImageLocality": [1, 3]}}]}

FILES = ("report.json", "report.html")


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    return str(path)


@pytest.fixture
def short(tmp_path):
    """Long enough where it does not matter which configuration is better."""
    path = tmp_path / "short.yaml"
    path.write_text(SCENARIO.replace("60m", "15m"))
    return str(path)


def tuned(scenario, folder, *, trials=1, judged_seeds=2, **options):
    effort = Effort(trials=trials, seeds=1, judged_seeds=judged_seeds)
    return tune_scenario(
        scenario, folder=folder, effort=effort, workers=InProcessWorkers(), **{"objective": "cost", **options}
    )


def test_a_better_configuration_is_found_and_loads(scenario, tmp_path):
    found = tuned(scenario, tmp_path / "out", space=PACKING, judged_seeds=4)
    assert found.record.verdict == BETTER
    best = found.record.judged[1]
    assert best.score.mean < 0
    assert best.differences["cost"].mean < 0
    assert found.file == tmp_path / "out" / "tuned.yaml"
    loaded = stowplan.load_config(str(found.file))
    assert loaded.to_dict() == stowplan.load_config(found.configuration).to_dict()
    assert yaml.safe_load(found.file.read_text())["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    report = data_of((tmp_path / "out" / "report.html").read_text())["report"]
    assert report["headline"].startswith("Better than the baseline")


def test_no_improvement_is_reported(scenario, tmp_path):
    found = tuned(scenario, tmp_path / "out", space=IDLE)
    assert found.record.verdict == NOT_BETTER
    assert found.record.judged[1].score.mean == 0
    assert found.file == tmp_path / "out" / "candidate.yaml"
    assert not (tmp_path / "out" / "tuned.yaml").exists()
    assert "# Not better than the baseline" in found.file.read_text()


POLICY = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  plugins: {deschedule: {enabled: [PodLifeTime]}}
  pluginConfig: [{name: PodLifeTime, args: {maxPodLifeTimeSeconds: 60}}]
"""
#: Other pods come and go, so pods of the Deployment find better nodes.
REBALANCED = (
    SCENARIO.replace(", autoscale: {min: 1, max: 8, boot: 30s, idle: 30s}", "")
    + """
- name: web
  manifest:
    kind: Deployment
    apiVersion: apps/v1
    spec:
      replicas: 6
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 500m}}}]}
events: [{every: 5m, rebalance: {policy: policy.yaml}}]
"""
)


def test_policies_are_tuned(scenario, tmp_path):
    (tmp_path / "policy.yaml").write_text(POLICY)
    Path(scenario).write_text(REBALANCED)
    arguments = {"PodLifeTime": {"maxPodLifeTimeSeconds": [600, 900]}}
    space = {"rebalance": {"everyMinutes": [10, 20], "maxMoves": [1, 2], "arguments": arguments}}
    found = tuned(scenario, tmp_path / "out", space=space, objective="evictions", trials=2)
    best = found.record.trial(found.record.best)
    assert best.measures["evictions"] < found.record.baseline["evictions"]
    values = best.values
    (profile,) = read_policy(tmp_path / "out" / "policy.yaml").profiles
    ((_, arguments),) = profile.strategies["deschedule"]
    assert arguments.max_pod_life_time_seconds == values["rebalance/PodLifeTime/maxPodLifeTimeSeconds"]
    assert 10 <= values["rebalance/everyMinutes"] <= 20


def test_a_single_seed_is_inconclusive(scenario, tmp_path):
    found = tuned(scenario, tmp_path / "out", space=PACKING, judged_seeds=1)
    assert found.record.judged[1].score.mean < 0
    assert found.record.verdict == NOT_BETTER
    assert "a single seed does not show the spread" in found.file.read_text()


def test_the_held_out_part_is_not_searched(scenario, tmp_path):
    record = tuned(scenario, tmp_path / "out", space=IDLE).record
    assert (record.split, record.horizon) == (2160, 3600)
    assert not set(record.seeds) & set(record.judged_seeds)


def contents(folder):
    return [(folder / name).read_bytes() for name in FILES] + [one.read_bytes() for one in folder.glob("*.yaml")]


class Interrupting:
    """Raises KeyboardInterrupt after a number of trial runs."""

    def __init__(self, after):
        self._after = after

    def __call__(self, phase, done, of):
        if phase == "trials":
            self._after -= 1
            if not self._after:
                raise KeyboardInterrupt


@pytest.mark.slow
def test_results_are_deterministic_despite_workers_and_interruptions(short, tmp_path):
    trials = BATCH + 3
    once = tmp_path / "once"
    tuned(short, once, trials=trials)
    assert (once / "report.json").stat().st_size > 1000

    pool = tmp_path / "pool"
    effort = Effort(trials=trials, seeds=1, judged_seeds=2)
    tune_scenario(short, folder=pool, effort=effort, workers=Processes(2), objective="cost")
    assert contents(pool) == contents(once)

    broken = tmp_path / "broken"
    for after in (3, 6):
        found = tuned(short, broken, trials=trials, resume=True, progress=Interrupting(after))
        assert found.record.interrupted
        assert found.record.verdict == NOT_JUDGED
    assert len(found.record.trials) > 3, "finished trials were lost"
    tuned(short, broken, trials=trials, resume=True)
    assert contents(broken) == contents(once)


def test_another_seed_is_another_search(short, tmp_path):
    one = tuned(short, tmp_path / "one").record
    other = tuned(short, tmp_path / "other", seed=7).record
    assert [trial.values for trial in one.trials] != [trial.values for trial in other.trials]


def test_a_storage_belongs_to_one_search(short, tmp_path):
    tuned(short, tmp_path / "out", space=IDLE)
    with pytest.raises(TuningError, match="continue it with --resume"):
        tuned(short, tmp_path / "out", space=IDLE)
    with pytest.raises(TuningError, match="objective differs"):
        tuned(short, tmp_path / "out", space=IDLE, objective="waits", resume=True)
    more = tuned(short, tmp_path / "out", space=IDLE, trials=3, resume=True)
    assert [trial.number for trial in more.record.trials] == [0, 1, 2]


def test_a_database_is_a_storage(short, tmp_path):
    storage = f"sqlite:///{tmp_path}/study.db"
    tuned(short, tmp_path / "one", space=IDLE, storage=storage)
    found = tuned(short, tmp_path / "two", space=IDLE, trials=2, storage=storage, resume=True)
    assert len(found.record.trials) == 2
    with pytest.raises(TuningError, match="cannot be used as storage"):
        tuned(short, tmp_path / "three", storage="nosuch://here")


def test_a_class_of_workloads_gets_its_own_profile(scenario, tmp_path):
    space = {"profiles": [{"name": "packed", "workloads": ["batch"], "strategy": ["MostAllocated"]}]}
    found = tuned(scenario, tmp_path / "out", space=space, judged_seeds=4)
    names = [profile["schedulerName"] for profile in found.configuration["profiles"]]
    assert names == ["default-scheduler", "packed"]
    assert found.record.verdict == BETTER, "its pods do not use the profile"
    assert "packed" in found.record.notes[0]


def test_what_can_never_run_is_noted(scenario, tmp_path):
    path = Path(scenario)
    path.write_text(SCENARIO.replace("60m", "4m").replace('cpu: "1"', 'cpu: "9"'))
    assert tuned(scenario, tmp_path / "out", space=IDLE).record.notes == (
        "batch can never run: a pod requests 9 cpu, nodes have at most 8",
    )


def test_without_a_duration_it_ends_with_the_last_pod(tmp_path):
    scenario = yaml.safe_load(SCENARIO)
    del scenario["duration"]
    scenario["workloads"][0] |= {"poisson": None, "rate": "4/m", "count": 21}
    record = tuned(scenario, tmp_path / "out", space=IDLE, trials=1).record
    assert (record.horizon, record.split) == (300, 180)


def test_failing_trials_do_not_stop_the_search(short, tmp_path, monkeypatch):
    from stowplan_lab.tuning import search_runs

    def failing(job):
        if job.config["profiles"][0]["plugins"]["multiPoint"]["enabled"][-3]["weight"] == 3 and not job.part.since:
            raise RuntimeError("no luck")
        return real(job)

    real = search_runs.measured
    monkeypatch.setattr(search_runs, "measured", failing)
    record = tuned(short, tmp_path / "out", space=IDLE, trials=6).record
    failed = [one for one in record.trials if one.score is None]
    assert failed
    assert {one.error for one in failed} == {"seed 1: no luck"}
    assert record.best not in {one.number for one in failed}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--objective", "wait.mean"], "did you mean waits.mean", id="objective"),
        pytest.param(["--share", "1"], "between 0 and 1", id="share"),
        pytest.param(["--space", "gone.yaml"], "gone.yaml: No such file", id="space"),
        pytest.param(["--config", "gone.yaml"], "gone.yaml", id="config"),
        pytest.param(["--out", "s.yaml"], "s.yaml: ", id="folder"),
        pytest.param(["--plugin", "nowhere:Plugin"], "nowhere", id="plugin"),
    ],
)
def test_invalid_arguments(scenario, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(cli, ["tune", "s.yaml", *arguments])
    assert found.exit_code == 2
    assert message in found.output
    assert not (tmp_path / "s-tuned" / "report.json").exists()


def test_a_full_disk_is_reported(short, tmp_path, monkeypatch):
    def full(self, data):
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(TuningError, match=r"report.json: No space left on device"):
        tuned(short, tmp_path / "out", space=IDLE)
    monkeypatch.undo()
    assert tuned(short, tmp_path / "out", space=IDLE, resume=True).record.best == 0


def test_without_optuna_the_error_names_the_extra(scenario, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    found = CliRunner().invoke(cli, ["tune", scenario, "--out", str(tmp_path / "out")])
    assert found.exit_code == 2
    assert "pip install 'stowplan-lab[tune]'" in found.output


def test_the_command(scenario, tmp_path, monkeypatch):
    monkeypatch.setattr("stowplan_lab.sweeps.Processes", InProcessWorkers)
    space = tmp_path / "space.yaml"
    space.write_text(yaml.safe_dump({**PACKING, "objective": {"cost": 1.0}}))
    out = str(tmp_path / "out")
    arguments = ["tune", scenario, "--space", str(space), "--out", out, "--trials", "1", "--seeds", "1"]
    found = CliRunner().invoke(cli, arguments)
    assert found.exit_code == 0, found.output
    assert "Better than the baseline" in found.output
    assert "tuned.yaml" in found.output
    again = CliRunner().invoke(cli, [*arguments, "--resume", "-o", "json"])
    assert json.loads(again.output) == json.loads((tmp_path / "out" / "report.json").read_text())
    schema = CliRunner().invoke(cli, ["tune", "--schema"])
    assert "profiles" in json.loads(schema.output)["$defs"]["SpaceSpec"]["properties"]
