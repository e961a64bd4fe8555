"""Scenarios from files: all errors are reported at once, with line, field and suggestions."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from random import Random

import jsonschema
import pytest

from stowplan.kube.api.meta import parse_timestamp
from stowplan_lab.simulation.definition.scenario_fields import scenario_schema, times_of
from stowplan_lab.simulation.definition.scenario_loading import load_scenario
from stowplan_lab.simulation.scenario_errors import ScenarioError

GOOD = {
    "name": "good",
    "duration": "1h",
    "cluster": {"groups": [{"name": "a", "count": 2, "capacity": {"cpu": 4}, "autoscale": {"max": 3}}]},
    "workloads": [{"name": "w", "manifest": {"kind": "Pod"}, "poisson": "5/m", "lifetime": {"exponential": "5m"}}],
    "events": [{"at": ["5m", "10m"], "drain": {"group": "a", "count": 1}}],
}


def problems_of(source):
    with pytest.raises(ScenarioError) as raised:
        load_scenario(source)
    return list(raised.value.problems)


def test_every_problem_has_its_line_and_field(tmp_path):
    file = tmp_path / "wrong.yaml"
    file.write_text(
        "name: x\n"
        "cluster:\n"
        "  groups:\n"
        "  - name: a\n"
        "    count: many\n"
        "    capcity: {cpu: 4}\n"
        "workloads:\n"
        "- name: w\n"
        "  poisson: 100\n"
        "  lifetime: {exponentail: 5m}\n"
        "- name: v\n"
        "  at: [1m, oops]\n"
        "sed: 2\n"
    )
    assert [problem.removeprefix(f"{file}: ") for problem in problems_of(file)] == [
        "line 5: cluster.groups[0].count: want a whole number, got a string",
        "line 6: cluster.groups[0].capcity: there is no such field; did you mean capacity?",
        "line 4: cluster.groups[0]: capacity is missing",
        "line 9: workloads[0].poisson: want a rate such as 2/s, 100/h or 5/10m, got 100",
        "line 10: workloads[0].lifetime: there is no distribution 'exponentail'; did you mean exponential?",
        "line 12: workloads[1].at: want a time span such as 90s, 5m, 1h30m or 7d, or a number of seconds, got 'oops'",
        "line 13: sed: there is no such field; did you mean seed?",
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"start": "tomorrow"}, "start: want a time such as"),
        ({"cluster": {}}, "cluster: there is none"),
        ({"cluster": {"groups": [{"name": "a", "count": -1, "capacity": {}}]}, "events": []}, "count: want 0 or more"),
        ({"cluster": {"groups": 2 * [{"name": "a", "capacity": {}}]}}, "another group 'a'"),
        ({"duration": None}, "poisson never ends: give count or until"),
        ({"workloads": [{"name": "w"}]}, "want one of manifest, file, trace, got none"),
        ({"workloads": [{"name": "w", "manifest": {}, "file": "x"}]}, "got manifest and file"),
        ({"workloads": 2 * [{"name": "w", "manifest": {}}]}, "another workload 'w'"),
        ({"workloads": [{"name": "w", "manifest": {}, "every": "1s", "rate": "1/s"}]}, "got every and rate"),
        ({"workloads": [{"name": "w", "manifest": {}, "count": 5}]}, "count and until go with"),
        ({"workloads": [{"name": "w", "manifest": {}, "rate": "1/s", "hours": [1, 2]}]}, "hours: want 24 numbers"),
        ({"workloads": [{"name": "w", "manifest": {}, "weekdays": 7 * [1]}]}, "weekdays: goes with rate or poisson"),
        ({"workloads": [{"name": "w", "trace": {"format": "csv"}, "podGroup": {}}]}, "pods of a trace have none"),
        ({"workloads": [{"name": "w", "trace": {}}]}, "trace: format is missing"),
        ({"events": [{"at": 1}]}, "want one of fail, outage, drain"),
        ({"events": [{"at": 1, "drain": {"group": "b"}}]}, "there is no group 'b'; there are a"),
        ({"events": [{"at": 1, "scale": {"workload": "b", "replicas": 1}}]}, "there is no workload 'b'"),
        ({"events": [{"taint": {"key": "k", "effect": "No"}}]}, "want one of NoSchedule"),
        ({"events": [{"upgrade": {"group": "a", "atOnce": 0}}]}, "want 1 or more"),
        ({"events": [{"fail": {"count": -1}}]}, "fail.count: want 0 or more"),
        ({"events": [{"resize": {"group": "a", "count": -1}}]}, "resize.count: want 0 or more"),
        ({"events": [{"scale": {"workload": "w", "replicas": -1}}]}, "scale.replicas: want 0 or more"),
        ({"events": [{"price": {"group": "a", "price": float("nan")}}]}, "price.price: want a number of 0 or more"),
        ({"events": [{"outage": {"zone": "z", "for": "1h"}}]}, "outage.zone: there is no zone 'z'; there are none"),
        ({"events": [{"at": [], "fail": {}}]}, "want one time or more"),
        ({"cluster": {"groups": [{"name": "a", "capacity": {}, "price": float("inf")}]}}, "price: want a number of 0"),
        ({"workloads": [{"name": "", "manifest": {}}]}, "name: must not be empty"),
        ({"workloads": [{"name": "w", "trace": {"format": "csv"}, "speed": float("inf")}]}, "want a number above 0"),
        ({"output": {"every": 0}}, "output.every: must be longer than 0"),
        ({"scheduler": {"featureGates": {"Nope": True}}}, "featureGates: the scheduler has no gate 'Nope'"),
    ],
    ids=str,
)
def test_contradictions(change, problem):
    assert any(problem in one for one in problems_of({**GOOD, **change}))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "line 2"),
        ("- 1", "want an object"),
        ("", "want one YAML document, got 0"),
        ("a: 1\n---\nb: 2\n", "got 2"),
        ("name: a\nname: b\n", "name"),
        ("name: n\n", "name: want a string, got true or false; quote it, as y, n,"),
    ],
)
def test_invalid_files(tmp_path, text, problem):
    file = tmp_path / "s.yaml"
    file.write_text(text)
    assert problem in problems_of(file)[0]


def test_a_missing_file(tmp_path):
    assert problems_of(tmp_path / "none.yaml") == [f"{tmp_path}/none.yaml: No such file or directory"]


def test_scenarios_can_be_pickled():
    located = load_scenario(GOOD)
    assert pickle.loads(pickle.dumps(located)) == located


def test_the_schema_agrees_with_the_decoder():
    schema = scenario_schema()
    validator = jsonschema.Draft202012Validator(schema)
    assert not list(validator.iter_errors(GOOD))
    for wrong in ({"sed": 1}, {"cluster": {"groups": [{"name": "a"}]}}, {"duration": []}):
        assert list(validator.iter_errors({**GOOD, **wrong}))
    assert "stowplan" not in json.dumps(schema)


def test_arrivals_follow_the_hours_and_days():
    """None at night, and on Sundays half as many as on other days; the mean stays."""
    hours = [0] * 6 + [2] * 12 + [0] * 6
    workload = {"name": "w", "manifest": {"kind": "Pod"}, "hours": hours, "weekdays": [1, 1, 1, 1, 1, 1, 0.5]}
    for rate, within in (("rate", 1), ("poisson", 80)):
        document = {**GOOD, "start": "2026-11-02T00:00:00Z", "workloads": [{**workload, rate: "24/h"}], "events": []}
        (when,) = load_scenario(document).scenario.workloads
        start = parse_timestamp(document["start"])
        times = list(times_of(when, Random(1), 7 * 86_400, start))
        of_days = Counter(int(at // 86_400) for at in times)
        assert all(6 <= at % 86_400 / 3600 <= 18 for at in times[1:])
        assert len(times) == pytest.approx(7 * 24 * 24, abs=within)
        assert of_days[6] == pytest.approx(7 * 24 * 24 / 13, abs=within)


def test_zones_of_imported_nodes_are_not_checked():
    outage = {"outage": {"zone": "z", "for": "1h"}}
    load_scenario({**GOOD, "cluster": {"files": ["nodes.yaml"], **GOOD["cluster"]}, "events": [outage]})
    group = {"name": "a", "capacity": {}, "labels": {"topology.kubernetes.io/zone": "z"}}
    load_scenario({**GOOD, "cluster": {"groups": [group]}, "events": [outage]})
