"""examples/gpu_sharing: single GPUs are filtered and assigned, and the six policies choose as in the paper."""

from __future__ import annotations

import numpy as np
import pytest

import stowplan
from stowplan.testing import a_node, a_pod

PREFIX = "alibabacloud.com/"


def gpu_node(name, gpus=2, model="T4", cpu="64"):
    return a_node(name).labels({PREFIX + "gpu-card-model": model}).allocatable({PREFIX + "gpu-count": gpus}, cpu=cpu)


def gpu_pod(name, milli, count=1, models=""):
    annotations = {PREFIX + "gpu-milli": str(milli), PREFIX + "gpu-count": str(count)}
    pod = a_pod(name).requests(cpu="1").annotations(annotations)
    return pod.annotations({PREFIX + "gpu-card-model": models}) if models else pod


@pytest.fixture
def make():
    """A cluster with the example's plugins; `policy` scores."""
    from gpu_sharing.experiment import POLICIES, configuration
    from gpu_sharing.fragmentation import PodKind
    from gpu_sharing.sharing import GpuSharing

    def make(*nodes, policy="bestfit"):
        config = configuration(
            POLICIES[policy], kinds=[(PodKind(1000, 500, 1), 3), (PodKind(2000, 1000, 1), 1)], seed=7
        )
        points = config["profiles"][0]["plugins"]
        points["preBind"] = {"enabled": [{"name": "GpuSharing"}]}
        cluster = stowplan.Cluster((), config, plugins=(GpuSharing, POLICIES[policy].score))
        for node in nodes:
            cluster.add(node.obj())
        return cluster

    return make


def places(cluster, *pods):
    decisions = [cluster.schedule([pod.obj()])[0] for pod in pods]
    return [decision.node_name for decision in decisions]


def gpus_of(cluster, name):
    return cluster.pod(name).annotations.get(PREFIX + "gpu-index")


def test_shares_fill_a_gpu_before_the_next(make):
    cluster = make(gpu_node("n"))
    assert places(cluster, *(gpu_pod(f"p{i}", 400) for i in range(5))) == ["n"] * 4 + [""]
    assert [gpus_of(cluster, f"p{i}") for i in range(4)] == ["0", "0", "1", "1"]


def test_several_gpus_are_whole_and_taken_in_order(make):
    cluster = make(gpu_node("n", gpus=4))
    assert places(cluster, gpu_pod("part", 100), gpu_pod("two", 1000, 2), gpu_pod("more", 1000, 2)) == ["n", "n", ""]
    assert gpus_of(cluster, "two") == "1-2"


def test_a_deleted_pod_releases_its_gpus(make):
    cluster = make(gpu_node("n", gpus=1))
    assert places(cluster, gpu_pod("a", 1000), gpu_pod("b", 1000)) == ["n", ""]
    cluster.evict("a")
    assert places(cluster, gpu_pod("b", 1000)) == ["n"]


def test_undoing_a_transaction_releases_them(make):
    cluster = make(gpu_node("n", gpus=1))
    with cluster.transaction():
        assert places(cluster, gpu_pod("a", 1000)) == ["n"]
    assert places(cluster, gpu_pod("b", 1000)) == ["n"]


def test_running_pods_are_known_by_their_annotation(make):
    cluster = make(gpu_node("n"))
    cluster.add(gpu_pod("old", 1000).annotations({PREFIX + "gpu-index": "0"}).on("n").obj())
    places(cluster, gpu_pod("new", 300))
    assert gpus_of(cluster, "new") == "1"


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        pytest.param(gpu_pod("p", 1000, models="V100|A10"), "models that the pod may use", id="another model"),
        pytest.param(gpu_pod("p", 1000, 3), "1 Insufficient GPU", id="too few GPUs"),
        pytest.param(gpu_pod("p", 500, 2), "several GPUs come whole", id="parts of several"),
        pytest.param(gpu_pod("p", "lots"), '"lots" is not a number', id="no number"),
    ],
)
def test_refusals(make, pod, message):
    assert message in make(gpu_node("n")).explain(pod.obj()).message


def test_ties_go_to_the_first_node(make):
    assert places(make(gpu_node("z"), gpu_node("a"), policy="fgd"), gpu_pod("p", 500)) == ["z"]


@pytest.mark.parametrize("policy", ["random", "dotprod", "clustering", "packing", "bestfit", "fgd"])
def test_reuse_decides_as_a_full_evaluation_does(policy):
    """What the plugins declare to read must be complete: decisions are the same with and without reuse."""
    from gpu_sharing import experiment
    from gpu_sharing.fragmentation import PodKind
    from gpu_sharing.trace import TraceNode, TracePod

    kinds = [PodKind(1000, 500, 1), PodKind(2000, 1000, 1), PodKind(4000, 1000, 2), PodKind(8000, 0, 0)]
    nodes = [TraceNode(f"n{i}", 16_000, 65_536, 1 + i % 4, "T4") for i in range(12)]
    pods = [TracePod(f"p{i:02}", 100, kinds[i % 4 if i % 3 else 0]) for i in range(60)]
    found = experiment.run(nodes, pods, policy=policy, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        plain = stowplan.Cluster
        patch.setattr(stowplan, "Cluster", lambda *args, **options: plain(*args, reuse=False, **options))
        assert experiment.run(nodes, pods, policy=policy, seed=1) == found
    assert found.refused
    assert len(found.allocated) == len(found.ratio) >= 120


class TestFragmentation:
    """Computed by hand: two kinds of pods, of half a GPU (three of four) and of a whole one."""

    @pytest.fixture
    def typical(self):
        from gpu_sharing.fragmentation import PodKind, TypicalPods

        return TypicalPods([(PodKind(1000, 500, 1), 3), (PodKind(2000, 1000, 1), 1)])

    def measured(self, typical, cpu, *free):
        rooms = typical.rooms(np.array(free)[:, None], typical.allowed(["T4"]))
        return typical.weight * sum(free) - int(typical.useful(np.array([cpu]), rooms)[0])

    @pytest.mark.parametrize(
        ("cpu", "free", "scaled"),
        [
            pytest.param(4000, (1000, 1000), 0, id="room for all"),
            pytest.param(4000, (400, 1000), 4 * 400, id="a GPU too full for any"),
            pytest.param(4000, (600, 0), 600, id="of use to the small ones only"),
            pytest.param(1500, (1000, 0), 1000, id="too little CPU for the large ones"),
            pytest.param(500, (1000, 600), 4 * 1600, id="too little CPU for any"),
        ],
    )
    def test_fragments(self, typical, cpu, free, scaled):
        assert self.measured(typical, cpu, *free) == scaled

    def test_useful_after_a_share_is_useful_once_it_is_gone(self, typical):
        free, cpu, allowed = np.array([[1000], [700], [500]]), np.array([2500]), typical.allowed(["T4"])
        gpus, nodes, after = typical.useful_after_share(cpu, typical.rooms(free, allowed), free, 500)
        assert (gpus.tolist(), nodes.tolist()) == ([0, 1, 2], [0, 0, 0])
        for gpu in range(3):
            taken = free.copy()
            taken[gpu] -= 500
            assert after[gpu] == typical.useful(cpu, typical.rooms(taken, allowed))[0]

    def test_useful_after_whole_gpus_is_useful_once_they_are_gone(self, typical):
        free, cpu, allowed = np.array([[1000], [700], [1000]]), np.array([2500]), typical.allowed(["T4"])
        for taken in range(3):
            left = np.array([[1000 if taken == 0 else 0], [700], [1000 if taken < 2 else 0]])
            after = typical.useful_after_whole(cpu, typical.rooms(free, allowed), np.array([taken]))
            assert after[0] == typical.useful(cpu, typical.rooms(left, allowed))[0]

    def test_scores_are_the_formula_cut_to_an_integer(self, typical):
        gains = np.arange(-40_000, 40_000, 37)
        assert typical.scores(gains).tolist() == [int(100 / (1 + np.exp(-gain / 4000))) for gain in gains]
        assert typical.scores(np.array([0])).tolist() == [50]


def test_typical_kinds_cover_their_share():
    from gpu_sharing.fragmentation import PodKind, typical_kinds

    often, small, large = PodKind(1, 1, 1), PodKind(2, 0, 0), PodKind(3, 0, 0)
    pods = [often] * 18 + [small, large]
    assert typical_kinds(pods) == [(often, 18), (large, 1)]


def test_the_command(tmp_path):
    from click.testing import CliRunner
    from gpu_sharing.__main__ import main

    from support.page.saved import data_of

    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,16000,65536,2,T4\nn2,16000,65536,4,G2\nn3,8000,1,0,\n")
    rows = [f"p{i},500,100,1,{300 + 100 * (i % 8)}\n" for i in range(12)]
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" + "".join(rows))
    arguments = ["--nodes", str(nodes), "--pods", str(pods), "--seeds", "1-2", "--policy", "fgd", "--jobs", "1"]
    with pytest.MonkeyPatch.context() as patch:
        # Worker processes would not find the example.
        patch.setattr("gpu_sharing.__main__.Processes", lambda number: Here())
        found = CliRunner().invoke(main, [*arguments, "--output", str(tmp_path / "out")])
    assert found.exit_code == 0, found.output
    assert "Allocated, % of all GPUs" in found.output
    report = data_of((tmp_path / "out" / "figure.html").read_text())["report"]
    assert [section["name"] for section in report["sections"]] == ["allocated", "fragments"]
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,500,100,1,none\n")
    broken = CliRunner().invoke(main, arguments)
    assert broken.exit_code == 1
    assert 'pods.csv:2: column gpu_milli: "none" is not a number' in broken.output


class Here:
    """Runs workers in this process."""

    def executor(self):
        from concurrent.futures import ThreadPoolExecutor

        return ThreadPoolExecutor(1)

    def parallel(self, executor):
        return 1
