"""Sums by workload, namespace and label: computed again from the rows, and what nobody requested."""

from __future__ import annotations

import pytest

from stowplan.ui.timeline_file import NAME, read_timeline
from stowplan_lab.simulation.nodes.fleet import share_of_price
from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulate import simulate_scenario


def _pod(team, cpu):
    requests = {"cpu": cpu, "memory": "1Gi"}
    return {
        "kind": "Pod",
        "metadata": {"labels": {"team": team}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]},
    }


SCENARIO = {
    "duration": 7200,
    "currency": "EUR",
    "cluster": {"groups": [{"name": "a", "count": 2, "capacity": {"cpu": 4, "memory": "8Gi"}, "price": 3}]},
    "workloads": [
        {"name": "train", "manifest": _pod("ml", "2"), "each": 3, "lifetime": 1800},
        {"name": "huge", "manifest": _pod("ml", "4"), "at": 60, "each": 2, "lifetime": 1800},
        {"name": "web", "manifest": _pod("shop", "1")},
        {"name": "never", "manifest": _pod("shop", "9")},
    ],
    "events": [{"at": 5000, "price": {"group": "a", "price": 1}}],
}


@pytest.fixture(scope="module")
def found():
    return simulate_scenario(SCENARIO)


def test_prices_of_the_page_are_those_of_the_beginning(tmp_path):
    spot = {"name": "b", "count": 1, "capacity": {"cpu": 4}, "price": 1}
    spot["labels"] = {"node.kubernetes.io/instance-type": "large", "karpenter.sh/capacity-type": "spot"}
    groups = [*SCENARIO["cluster"]["groups"], spot]
    simulate_scenario({**SCENARIO, "cluster": {"groups": groups}}, folder=tmp_path)
    header, timeline = read_timeline(tmp_path / NAME)
    assert header.prices == {"a": {"": 3}, "large": {"spot": 1}}
    types = {dict(node.labels)["node.kubernetes.io/instance-type"] for node in timeline.start.nodes.values()}
    assert types == {"a", "large"}


def test_parts_agree_with_the_rows(found):
    summary, rows = found.summary, found.decisions
    of_team = {part.name: part for part in summary.parts["team"]}
    for team, part in of_team.items():
        own = [row for row in rows if row.labels["team"] == team]
        waits = [(7200 if row.placed is None else row.placed) - row.arrived for row in own]
        ran = [
            ((row.ended or 7200) - row.placed) / 3600 * row.requests["cpu"] / 1000
            for row in own
            if row.placed is not None
        ]
        assert part.pods == part.waits.pods == len(own)
        assert part.waits.unplaced == sum(row.placed is None for row in own)
        assert part.waits.mean == pytest.approx(sum(waits) / len(waits))
        assert part.hours["cpu"] == pytest.approx(sum(ran))
        assert part.cost == pytest.approx(sum(row.cost for row in own), abs=1e-5)
    assert of_team["shop"].waits.longest == 7200, "who still waits counts"
    assert sum(part.waits.pods for part in summary.parts["workload"]) == summary.waits.pods


def test_what_pods_pay_and_what_is_left_is_the_cost(found):
    summary = found.summary
    # Two nodes, 5000 s for 3 and 2200 s for 1 per hour.
    assert summary.cost == pytest.approx(2 * (5000 * 3 + 2200) / 3600, abs=1e-5)
    assert sum(part.cost for part in summary.parts["workload"]) + summary.cost_idle == pytest.approx(summary.cost)
    web = next(part for part in summary.parts["workload"] if part.name == "web")
    assert web.cost == pytest.approx((5000 * 3 + 2200) / 3600 * (1 / 4 + 1 / 8) / 2, abs=1e-5)
    used = sum(part.hours.get("cpu", 0.0) for part in summary.parts["workload"])
    assert summary.idle_hours["cpu"] == pytest.approx(2 * 4 * 2 - used)
    assert summary.units["hours.cpu"] == "core hours"


def test_a_removed_node_is_not_paid_for():
    gone = {**SCENARIO, "events": [{"at": 1000, "fail": {"group": "a"}}], "models": {"failureDetection": 0}}
    summary = simulate_scenario(gone).summary
    assert sum(part.cost for part in summary.parts["workload"]) <= summary.cost


@pytest.mark.parametrize(
    ("node", "requests", "share"),
    [
        ({"cpu": 4000, "memory": 8}, {"cpu": 1000, "memory": 4}, 0.375),
        ({"cpu": 4000, "memory": 8, "nvidia.com/gpu": 4}, {"cpu": 4000, "memory": 8}, 0.0),
        ({"cpu": 4000, "nvidia.com/gpu": 4}, {"cpu": 1, "nvidia.com/gpu": 1}, 0.25),
        ({}, {"cpu": 1}, 0.0),
    ],
)
def test_gpus_are_what_their_node_costs(node, requests, share):
    assert share_of_price(node, requests) == share


def test_one_workload_is_no_table():
    one = simulate_scenario({**SCENARIO, "workloads": [{**SCENARIO["workloads"][2], "manifest": _pod("", "1")}]})
    assert not one.summary.parts
    with pytest.raises(ScenarioError, match="the pods are not summed by 'team', but by nothing"):
        one.parts_frame("team")


def test_reports_have_the_tables(found):
    section = next(one for one in found.record.sections if one.name == "by-team")
    assert section.table.head[-1] == "EUR"
    costs = [float(row[-1]) for row in section.table.rows]
    assert costs == sorted(costs, reverse=True)
    assert "EUR were for the rest" in section.caption


def test_frames_have_a_column_per_resource_and_label(found):
    pytest.importorskip("pandas")
    assert {"requests.cpu", "labels.team", "cost"} <= set(found.to_frame().columns)
    assert {"used.cpu", "allocatable.memory", "pending"} <= set(found.series_frame().columns)
    assert list(found.parts_frame("team")["waits.pods"]) == [part.pods for part in found.summary.parts["team"]]
