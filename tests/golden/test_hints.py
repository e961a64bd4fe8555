"""Every wake-up hint equals the reference's, in all categories and of all plugins."""

import pytest

import stowplan
from golden import compare


@pytest.mark.parametrize("scenario", compare.scenarios(compare.CLAIMED))
def test_hints_equal_the_reference(scenario):
    cluster = stowplan.Cluster(scenario["objects"] + scenario["pods"], config=scenario["config"])
    pods = {compare.key_of(pod): pod for pod in scenario["pods"]}
    found = []
    for answer in scenario["hints"]:
        change = scenario["changes"][answer["change"]]
        assert answer["hints"], "a change that no pod was asked about compares nothing"
        for key, want in answer["hints"].items():
            got = cluster.hints(change.get("old"), change.get("new"), pods[key])
            place = f"change {answer['change']} {key}"
            found += [place + difference for difference in compare.hint_differences(answer["events"], want, got)]
    compare.fail_on(found)
