"""`stowplan compare`: paired seeds, intervals, and failing runs."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from click.testing import CliRunner

from stowplan.ask.explain.text.tables import write
from stowplan_lab.commands.compare import compare as command
from stowplan_lab.compare.comparison import Estimate, Scheduler, compare, estimate
from stowplan_lab.compare.comparison_report import NO_DIFFERENCE, comparison_page, comparison_report
from support.sweeps.in_process import InProcessWorkers

SCENARIO = """
name: small
cluster:
  groups:
  - {name: a, count: 3, capacity: {cpu: "4", memory: 16Gi, pods: "110"}}
workloads:
- name: web
  poisson: 60/m
  count: 20
  lifetime: 30s
  manifest:
    apiVersion: v1
    kind: Pod
    metadata: {name: web}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1", memory: 2Gi}}}]}
"""
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PACKING = """profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "a.yaml").write_text(HEAD)
    (tmp_path / "b.yaml").write_text(HEAD + PACKING)
    return [str(tmp_path / name) for name in ("s.yaml", "a.yaml", "b.yaml")]


def compared(scenario, *configs):
    return compare(scenario, [*map(Scheduler.of, configs)], names=configs, seeds=(1, 2), workers=InProcessWorkers())


def test_a_configuration_does_not_differ_from_itself(files):
    scenario, a, _ = files
    found = compared(scenario, a, a)
    assert found.is_same
    assert {one.mean for measure in found.measures for one in measure.differences} == {0.0}
    assert comparison_report(found).headline == NO_DIFFERENCE


def test_another_strategy_places_differently(files):
    found = compared(*files)
    assert not found.is_same
    assert found.placed_differently[0].mean == 0
    assert found.placed_differently[1].mean > 0
    assert comparison_report(found).headline == ""
    for measure in found.measures:
        first, second = measure.values
        assert measure.differences[1].mean == pytest.approx(second.mean - first.mean, abs=1e-5)


def test_what_can_never_run_is_noted_once(files):
    scenario, *configs = files
    Path(scenario).write_text(SCENARIO.replace('cpu: "1"', 'cpu: "5"').replace("count: 20", "count: 2"))
    found = compared(scenario, *configs)
    note = "web can never run: a pod requests 5 cpu, nodes have at most 4"
    assert found.notes == (note,)
    text = io.StringIO()
    write(comparison_page(found), text)
    assert note in text.getvalue()
    assert "2 seeds" in text.getvalue()
    assert note in comparison_report(found).notes


def test_a_failing_run_drops_its_seed(files):
    scenario, a, _ = files
    found = compare(
        scenario,
        [Scheduler(a), Scheduler("/nowhere.yaml")],
        names=["a", "gone"],
        seeds=(1,),
        workers=InProcessWorkers(),
    )
    assert (found.seeds, found.measures) == ((), ())
    assert [(one.config, one.seed) for one in found.failures] == [("gone", 1)]
    assert "nowhere" in found.failures[0].error


def test_finished_runs_are_kept_after_an_interruption(files):
    done = []

    def interrupt():
        done.append(1)
        if len(done) == 3:
            raise KeyboardInterrupt

    scenario, a, b = files
    schedulers = [Scheduler(a), Scheduler(b)]
    found = compare(
        scenario, schedulers, names=["a", "b"], seeds=(1, 2), workers=InProcessWorkers(), progress=interrupt
    )
    assert (found.seeds, found.interrupted) == ((1,), True)
    assert found.measures
    assert "1 seed (interrupted)" in comparison_report(found).lines[-1]


def test_the_command(files, tmp_path, monkeypatch):
    monkeypatch.setattr("stowplan_lab.sweeps.Processes", InProcessWorkers)
    scenario, a, b = files
    page = tmp_path / "page.html"
    found = CliRunner().invoke(command, [a, b, "--scenario", scenario, "--seeds", "2", "--html", str(page)])
    assert found.exit_code == 0, found.output
    assert "B − A" in found.output
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["a.yaml"], "Name two or more configurations", id="one configuration"),
        pytest.param(["a.yaml", "gone.yaml"], "gone.yaml", id="no such configuration"),
    ],
)
def test_invalid_usage(files, tmp_path, monkeypatch, arguments, message):
    from stowplan.app.cli.main import cli

    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(cli, ["compare", *arguments, "--scenario", "s.yaml"])
    assert found.exit_code != 0
    assert message in found.output + str(found.exception)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([3.0], Estimate(mean=3.0), id="one value has no spread"),
        pytest.param([2.0, 2.0], Estimate(mean=2.0, low=2.0, high=2.0), id="equal values"),
        # 4.303 * 1 / sqrt(3)
        pytest.param([1.0, 2.0, 3.0], Estimate(mean=2.0, low=-0.484338, high=4.484338), id="three values"),
    ],
)
def test_intervals(values, expected):
    assert estimate(values) == expected


# -- policies of rebalancing ------------------------------------------------------------------------------------------

POLICY = """apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig: [{name: RemoveDuplicates}]
  plugins: {balance: {enabled: [RemoveDuplicates]}}
"""
UNEVEN = """
duration: 20m
cluster:
  groups:
  - {name: a, count: 1, capacity: {cpu: "4", memory: 16Gi, pods: "110"}}
workloads:
- name: web
  manifest:
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 3
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1", memory: 2Gi}}}]}
events:
- {at: 1m, resize: {group: a, count: 3}}
- {at: 5m, rebalance: {goal: mend}}
"""


def test_policies_and_no_rebalancing(files, tmp_path):
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "uneven.yaml").write_text(UNEVEN)
    found = compared(str(tmp_path / "uneven.yaml"), "no-rebalance", str(tmp_path / "policy.yaml"))
    [evictions] = [one for one in found.measures if one.name == "evictions"]
    assert [one.mean for one in evictions.values] == [0, 2]


def test_a_policy_for_a_scenario_that_does_not_rebalance(files, tmp_path):
    (tmp_path / "policy.yaml").write_text(POLICY)
    ran = CliRunner().invoke(command, [files[1], str(tmp_path / "policy.yaml"), "--scenario", files[0]])
    assert ran.exit_code == 2
    assert "the scenario has no event rebalance" in ran.stderr
