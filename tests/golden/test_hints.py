"""Every queueing hint equals the reference's, in all categories and for all plugins."""

import pytest

from golden import compare


@pytest.mark.parametrize("category", compare.CLAIMED)
def test_hints_equal_the_reference(category):
    compare.fail_on([line for scenario in compare.compared(category) for line in hint_differences(scenario)])


def hint_differences(scenario):
    cluster = compare.cluster_of(scenario)
    pods = {compare.key_of(pod): pod for pod in scenario["pods"]}
    found = []
    for answer in scenario["hints"]:
        change = scenario["changes"][answer["change"]]
        assert answer["hints"], "a change without hints compares nothing"
        for key, want in answer["hints"].items():
            got = cluster.hints(change.get("old"), change.get("new"), pods[key])
            place = f"{scenario['name']} change {answer['change']} {key}"
            found += [place + difference for difference in compare.hint_differences(answer["events"], want, got)]
    return found
