"""Every verdict of the claimed categories equals the reference's."""

import pytest

from golden import compare


@pytest.mark.parametrize("category", compare.CLAIMED)
def test_verdicts_equal_the_reference(category):
    compare.fail_on([line for scenario in compare.compared(category) for line in verdict_differences(scenario)])


def verdict_differences(scenario):
    cluster = compare.cluster_of(scenario)
    found = []
    for pod, want in zip(scenario["pods"], scenario["verdicts"], strict=True):
        got = cluster.explain(pod).to_dict()
        place = f"{scenario['name']} {want['pod']}"
        found += [place + difference for difference in compare.verdict_differences(want, got)]
    return found


def test_every_category_of_the_data_is_named():
    files = {path.name.removesuffix(".jsonl.gz") for path in compare.DATA.glob("*.jsonl.gz")}
    assert files - {"config"} == {*compare.CLAIMED}
