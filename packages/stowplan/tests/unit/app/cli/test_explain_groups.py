"""`stowplan explain podgroup/NAME`, and pods of groups."""

import json

import pytest

from stowplan.testing import a_node, a_pod


def member(name, group="train"):
    return a_pod(name, namespace="lab").requests(cpu="2").spec(schedulingGroup={"podGroupName": group}).obj()


@pytest.fixture
def gang(files):
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "lab"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    nodes = [a_node(name).allocatable(cpu="2", pods="110").obj() for name in "ab"]
    return files(*nodes, group, *(member(f"train-{i}") for i in range(3)))


@pytest.mark.parametrize(
    "question", [("podgroup/lab/train",), ("podgroup", "lab/train"), ("podgroups/train", "-n", "lab")]
)
def test_a_group(run, gang, question):
    out = run("explain", "-f", gang, *question).out
    assert out.startswith("pod group lab/train does not fit: 2 of 3 pods fit together, 1 more pod is needed")
    assert "add 1 node like a: places 3 pods" in out


def test_json_output(run, gang):
    found = json.loads(run("explain", "-f", gang, "podgroup/lab/train", "-o", "json").out)
    assert (found["kind"], found["podGroup"]) == ("ExplainGroup", "lab/train")
    assert found["relief"][0]["text"] == "add 1 node like a"


def test_a_pod_of_a_group_is_explained_with_it(run, gang):
    out = run("explain", "-f", gang, "pod", "lab/train-0").out
    assert out.startswith(
        "lab/train-0 waits for its pod group lab/train, which does not fit; alone it would go to a: 2 of 2 nodes "
    )
    assert "It is scheduled with its group:" in out
    assert "pod group lab/train does not fit" in out
    found = json.loads(run("explain", "-f", gang, "pod", "lab/train-0", "-o", "json").out)
    assert found["podGroup"]["podGroup"] == "lab/train"


def test_pods_that_wait_for_their_group_in_a_summary(run, gang):
    ran = run("explain", "-f", gang, "--exit-code")
    assert ran.out.startswith(
        "lab/train-0 and 2 more like it (lab/train-1, lab/train-2) wait for their pod group lab/train"
    )
    assert ran.code == 3
    told = json.loads(run("explain", "-f", gang, "-o", "json").out)["summary"]
    assert (told["inGroup"], told["placeable"], told["together"]) == (3, 0, 0)
    (cause,) = told["causes"]
    assert cause["reason"].startswith("pod group lab/train does not fit: 2 of 3 pods fit together")


def test_exit_code(run, gang):
    assert run("explain", "-f", gang, "podgroup/lab/train", "--exit-code").code == 3


def test_an_unknown_group(run, gang):
    result = run("explain", "-f", gang, "podgroup/lab/trains")
    assert result.code == 2
    assert 'pod group "lab/trains" not found; did you mean lab/train?' in result.err


def test_options_that_are_about_pods(run, gang):
    result = run("explain", "-f", gang, "podgroup/lab/train", "-l", "app=web")
    assert result.code == 2
    assert "a group is asked about" in result.err


def test_what_if_places_whole_gangs(run, gang):
    out = run("what-if", "-f", gang, "--add-nodes", "1", "--like", "a", "-o", "json").out
    assert json.loads(out)["placed"].keys() == {f"lab/train-{i}" for i in range(3)}


def test_fit(run, gang):
    result = run("fit", "-f", gang, "podgroup/lab/train", "--replicas", "1")
    out = result.out
    # Trying is no error.
    assert "Error scheduling pod" not in result.err
    assert out.startswith("like pod group lab/train: 0 of 1 more groups fit whole with 3 pods each")
    assert "Nodes that would make all of them fit" in out
    assert json.loads(run("fit", "-f", gang, "podgroup/lab/train", "-o", "json").out)["kind"] == "FitGroup"


def test_a_group_of_a_tree_is_judged_with_the_tree(run, files):
    """The first fits; the tree needs both, and the second does not."""
    reference = {"workloadName": "w", "templateName": "t"}

    def group(name, kind, version, policy, **spec):
        header = {"apiVersion": f"scheduling.k8s.io/{version}", "kind": kind}
        metadata = {"name": name, "namespace": "lab"}
        return {**header, "metadata": metadata, "spec": {"schedulingPolicy": policy, "workloadRef": reference, **spec}}

    leaves = [
        group(name, "PodGroup", "v1beta1", {"gang": {"minCount": 1}}, parentCompositePodGroupName="job")
        for name in ("s0", "s1")
    ]
    tree = group("job", "CompositePodGroup", "v1alpha3", {"gang": {"minGroupCount": 2}})
    node = a_node("a").allocatable(cpu="3", pods="110").obj()
    file = files(node, tree, *leaves, member("p0", "s0"), member("p1", "s1"))
    out = run("explain", "-f", file, "podgroup/lab/s0").out
    assert out.startswith("pod group lab/s0 does not fit: 0 of 1 pod fit together, 1 more pod is needed")
    assert "first placement status: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining" in out
    assert "Insufficient cpu" in run("explain", "-f", file, "podgroup/lab/s1").out


def test_the_text_tells_the_version_if_it_is_not_the_newest(run, gang):
    assert "as kube-scheduler" not in run("explain", "-f", gang, "pod", "lab/train-0").out
    out = run("explain", "-f", gang, "--emulated-version", "1.36", "pod", "lab/train-0").out
    assert out.endswith("\nas kube-scheduler 1.36 decides\n")
