"""Every verdict of the claimed categories equals the reference's."""

import pytest

import stowplan
from golden import compare


@pytest.mark.parametrize("scenario", compare.scenarios(compare.CLAIMED))
def test_verdicts_equal_the_reference(scenario):
    cluster = stowplan.Cluster(scenario["objects"] + scenario["pods"], config=scenario["config"])
    found = []
    for pod, want in zip(scenario["pods"], scenario["verdicts"], strict=True):
        got = cluster.explain(pod).to_dict()
        found += [want["pod"] + difference for difference in compare.verdict_differences(want, got)]
    compare.fail_on(found)


def test_every_category_of_the_data_is_named():
    files = {path.name.removesuffix(".jsonl.gz") for path in compare.DATA.glob("*.jsonl.gz")}
    assert files - {"config"} == {*compare.CLAIMED}
