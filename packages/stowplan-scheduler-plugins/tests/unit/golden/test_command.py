"""The command that compares a folder of recorded answers."""

import gzip
import json

import pytest

from stowplan.testing import a_node, a_pod
from stowplan_scheduler_plugins.golden.__main__ import main

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {
                "multiPoint": {"disabled": [{"name": "*"}]},
                "queueSort": {"enabled": [{"name": "PrioritySort"}]},
                "bind": {"enabled": [{"name": "DefaultBinder"}]},
                "score": {"enabled": [{"name": "PodState", "weight": 2}]},
            },
        }
    ],
}


@pytest.fixture
def compare(tmp_path, monkeypatch, capsys):
    """Run the command on scenarios by category; returns its exit code and its lines."""

    def run(*arguments, **categories):
        for category, rows in categories.items():
            with gzip.open(tmp_path / f"{category}.jsonl.gz", "wt") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        monkeypatch.setattr("sys.argv", ["golden", "--dir", str(tmp_path), *arguments])
        return main(), capsys.readouterr().out.splitlines()

    return run


def scenario(points):
    leaving = a_pod("old").on("n1").deleted("2026-01-01T00:00:00Z").obj()
    scores = {"n1": {"PodState": points}, "n2": {"PodState": 0}}
    return {
        "name": "podstate-1",
        "config": CONFIG,
        "objects": [a_node("n1").obj(), a_node("n2").obj(), leaving],
        "pods": [a_pod("p").obj()],
        "verdicts": [
            {"pod": "default/p", "feasible": ["n1", "n2"], "scores": scores, "totals": {"n1": points, "n2": 0}}
        ],
    }


def test_equal_answers(compare):
    assert compare(podstate=[scenario(200)]) == (
        0,
        ["podstate: verdicts 1/1", "verdicts 1/1, steps 0/0, config 0/0"],
    )


def test_a_different_answer_is_shown(compare):
    code, lines = compare(podstate=[scenario(198), scenario(200)])
    assert code == 1
    assert lines[0] == "--- podstate-1 default/p"
    assert "    /totals/n1: want 198, got 200" in lines
    assert lines[-1] == "verdicts 1/2, steps 0/0, config 0/0"


def test_one_category_of_several(compare):
    code, lines = compare("--category", "podstate", podstate=[scenario(200)], allocatable=[scenario(1)])
    assert (code, lines[-1]) == (0, "verdicts 1/1, steps 0/0, config 0/0")


def test_a_category_that_is_not_built_is_not_equal(compare):
    code, lines = compare("--show", "0", unheard=[scenario(200)])
    assert (code, lines[-1]) == (1, "verdicts 0/1, steps 0/0, config 0/0")


def test_nothing_compared_is_no_success(compare):
    assert compare() == (1, ["verdicts 0/0, steps 0/0, config 0/0"])
