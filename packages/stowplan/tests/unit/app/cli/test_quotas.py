"""What `fit` and `what-if --scale` say about ResourceQuotas."""

import json

import pytest

from support.what_if.objects import node, owned, pod

CLUSTER = (node("a", "40", pods="100"), owned(pod("web-0", nodeName="a")), owned(pod("web-1", nodeName="a")))
FIT = ("fit", "deployment/web")
SCALE = ("what-if", "--scale")


def quota(hard, used=None, namespace="default", **spec):
    made = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team", "namespace": namespace},
        "spec": {"hard": hard, **spec},
    }
    return made if used is None else {**made, "status": {"hard": hard, "used": used}}


def notes(ran):
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)["notes"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        pytest.param(quota({"requests.cpu": "5"}), "3 of 20 {} (requests.cpu: used 2 of hard 5)", id="counted"),
        pytest.param(quota({"pods": "9"}, {"pods": "8"}), "1 of 20 {} (pods: used 8 of hard 9)", id="status"),
        pytest.param(quota({"pods": "2", "cpu": "4"}), "0 of 20 {} (pods: used 2 of hard 2)", id="the scarcest"),
        pytest.param(quota({"limits.cpu": "9"}), "0 of 20 {} (they must specify limits.cpu for: main)", id="no limits"),
        pytest.param(quota({"pods": "30"}), "", id="enough"),
        pytest.param(quota({"pods": "1"}, namespace="other"), "", id="another namespace"),
        pytest.param(quota({"pods": "1"}, scopes=["BestEffort"]), "", id="another scope"),
        pytest.param(quota({"requests.example.com/gpu": "0"}), "", id="another resource"),
    ],
)
@pytest.mark.parametrize("words", [(*FIT, "--more", "20"), (*SCALE, "deployment/web=22")], ids=" ".join)
def test_a_quota_that_allows_fewer_is_noted(run, files, words, given, why):
    path = files(*CLUSTER, given)
    found = notes(run(*words, "-f", path, "-o", "json"))
    text = f"the quota team of namespace default allows only {why.format('more like Deployment web')}"
    assert [note for note in found if "quota" in note] == ([text] if why else [])
    answer = run(*words, "-f", path, "--exit-code")
    assert answer.code == (3 if why else 0)
    assert (f"note: {text}" in answer.out) == bool(why)


def test_without_a_number_as_many_as_fit_are_compared(run, files):
    path = files(*CLUSTER, quota({"pods": "5"}))
    text = "the quota team of namespace default allows only 3 of 38 more like Deployment web (pods: used 2 of hard 5)"
    assert text in notes(run(*FIT, "-f", path, "-o", "json"))
    assert run(*FIT, "-f", path, "--exit-code").code == 0
    assert run(*FIT, "-f", files(*CLUSTER, quota({"pods": "2"})), "--exit-code").code == 3


def test_workloads_that_are_scaled_together_share_a_quota(run, files):
    """Also with one that nothing keeps from being smaller."""
    others = [owned(pod(name, nodeName="a"), name=f"{name}-abc") for name in ("api", "old-0", "old-1")]
    path = files(*CLUSTER, *others, quota({"pods": "8"}))
    scales = [word for name in ("web=4", "api=3") for word in ("--scale", f"deployment/{name}")]
    found = notes(run("what-if", "-f", path, *scales, "--scale", "deployment/old-0=0", "-o", "json"))
    assert found == [
        "the quota team of namespace default allows only 1 of 2 more like Deployment api (pods: used 7 of hard 8)"
    ]
