"""Measured pods as workloads: how many come when, and how long they run."""

from stowplan_lab.traces.arrival_profile import arrival_workloads

HOUR, DAY = 3600, 86_400
# 2026-11-02T00:00:00Z, a Monday.
MONDAY = 1793577600
HEADER = ["time", "lifetime", "name", "namespace", "owner", "cpu"]


def rows(*pods):
    """Pods as (time, lifetime, owner, cpu)."""
    return [HEADER, *([f"{at}", life, f"p{i}", "ml", owner, cpu] for i, (at, life, owner, cpu) in enumerate(pods))]


def workloads(pods, days):
    return {one["name"]: one for one in arrival_workloads(rows(*pods), MONDAY, MONDAY + days * DAY)}


def test_hours_and_weekdays_of_two_weeks():
    """Each Tuesday at nine, 100 pods come, and 50 at ten."""
    tuesdays = [DAY, 8 * DAY]
    pods = [(day + 9 * HOUR + i, "60", "batch", "1") for day in tuesdays for i in range(100)]
    pods += [(day + 10 * HOUR + i, "60", "batch", "1") for day in tuesdays for i in range(50)]
    batch = workloads(pods, 14)["ml-batch"]
    assert batch["poisson"] == "300/336h"
    hours = {hour: round(weight, 2) for hour, weight in enumerate(batch["hours"]) if weight}
    assert hours == {9: 14.29, 10: 7.14}
    assert [bool(weight) for weight in batch["weekdays"]] == [False, True, *5 * [False]]


def test_owners_with_few_pods_have_the_profile_of_all():
    many = [(HOUR + i, "60", "many", "1") for i in range(99)]
    found = workloads([*many, (2 * HOUR, "60", "few", "1")], 1)
    assert found["ml-few"]["hours"] == found["ml-many"]["hours"] == [0, 99, 1, *21 * [0]]


def test_a_part_of_a_day_has_no_profile():
    (found,) = arrival_workloads(rows((60, "5", "few", "1")), MONDAY, MONDAY + HOUR)
    assert "hours" not in found


def test_pods_that_were_there_come_at_once_and_sizes_are_workloads():
    found = workloads([(0, "", "web", "1"), (0, "", "web", "1"), (0, "", "web", "2"), (60, "", "web", "1")], 1)
    assert {name: one.get("each") for name, one in found.items()} == {
        "ml-web-before": 2,
        "ml-web": None,
        "ml-web-before-2": 1,
    }
    assert found["ml-web-before-2"]["manifest"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}


def test_run_times_that_stand_for_all():
    pods = [(60 + i, f"{i}", "batch", "1") for i in range(1, 101)]
    choice = workloads(pods, 1)["ml-batch"]["lifetime"]["choice"]
    assert (len(choice), choice[0], choice[-1]) == (20, "3s", "98s")


def test_most_pods_ran_to_the_end():
    assert "lifetime" not in workloads([(60, "", "web", "1"), (70, "5", "web", "1")], 1)["ml-web"]
