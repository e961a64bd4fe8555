"""One run of the paper's experiment: pods come one by one until far more was asked for than there is.

Each is placed or refused before the next one comes; nobody leaves. After each, the run notes how much was asked for so
far, how much is allocated, and how much of the rest is a fragment.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

import stowplan
from gpu_sharing.columns import FragmentColumns
from gpu_sharing.fragmentation import TypicalPods, typical_kinds
from gpu_sharing.policies import (
    BestFitScore,
    DotProductScore,
    FGDScore,
    GpuClusteringScore,
    GpuPackingScore,
    RandomScore,
    TypicalPod,
)
from gpu_sharing.request import WHOLE
from gpu_sharing.sharing import GpuSharing
from gpu_sharing.workload import workload
from stowplan.kube.api.decode import decode_object

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_sharing.fragmentation import PodKind
    from gpu_sharing.trace import TraceNode, TracePod
    from stowplan.kube.api.types import Pod


@dataclass(frozen=True, slots=True)
class Policy:
    #: As the paper's figures call it.
    title: str
    score: type[Any]
    #: `select` of GpuSharing.
    select: str = "best"


POLICIES = {
    "random": Policy("Random", RandomScore, "random"),
    "dotprod": Policy("DotProd", DotProductScore),
    "clustering": Policy("Clustering", GpuClusteringScore),
    "packing": Policy("Packing", GpuPackingScore),
    "bestfit": Policy("BestFit", BestFitScore),
    "fgd": Policy("FGD", FGDScore, "fgd"),
}


def configuration(policy: Policy, *, kinds: Sequence[tuple[PodKind, int]], seed: int) -> dict[str, Any]:
    """The scheduler's configuration: one score plugin, all nodes looked at.

    Without PreBind: it writes down for a kubelet which GPUs a pod got, and nobody runs these pods. Without preemption,
    as in the paper: nobody is more important than another, so none could be evicted.
    """
    name = policy.score.name
    points = {point: {"enabled": [{"name": GpuSharing.name}]} for point in ("preFilter", "filter", "reserve")}
    points["postFilter"] = {"disabled": [{"name": "*"}]}
    points["score"] = {"disabled": [{"name": "*"}], "enabled": [{"name": name, "weight": 1}]}
    args: dict[str, Any] = {}
    if policy.score is RandomScore:
        points["preScore"] = {"enabled": [{"name": name}]}
        args = {"seed": seed}
    elif policy.score is FGDScore:
        args = {"typicalPods": [msgspec.to_builtins(TypicalPod.of(kind, count)) for kind, count in kinds]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [
            {
                "plugins": points,
                "pluginConfig": [
                    {"name": GpuSharing.name, "args": {"select": policy.select, "seed": seed}},
                    {"name": name, "args": args},
                ],
            }
        ],
    }


class Run(msgspec.Struct, frozen=True):
    """What one run found, by load: pods of all sizes asked for so many percent of the GPUs so far."""

    policy: str
    seed: int
    pods: int
    refused: int
    #: Percent of all GPUs that are allocated, from load 0 on.
    allocated: tuple[float, ...]
    #: Percent of all GPUs that are fragments.
    fragments: tuple[float, ...]
    #: Fragments in percent of what is free.
    ratio: tuple[float, ...]


def run(
    nodes: Sequence[TraceNode],
    pods: Sequence[TracePod],
    *,
    policy: str,
    seed: int,
    ratio: float = 1.3,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> Run:
    """Place the pods; the same arguments give the same run on any machine."""
    load = workload(nodes, pods, ratio=ratio, seed=seed)
    kinds = typical_kinds(pod.kind for pod in pods)
    # Without chance, ties go to the first node: `nodes` are in the order that is to decide.
    random = Random(seed).randrange(1 << 32)
    chosen = POLICIES[policy]
    config = configuration(chosen, kinds=kinds, seed=random)
    # The plugins are ours: to limit the time of their calls would cost more than most of them take.
    cluster = stowplan.Cluster((), config, plugins=(GpuSharing, chosen.score), plugin_timeout=0)
    for node in load.nodes:
        cluster.add(node.manifest())
    typical = TypicalPods(kinds)
    columns = _columns_of(cluster, typical)
    found = _Records(capacity=WHOLE * sum(node.gpus for node in nodes))
    pods_of, refused = _Pods(), 0
    for i, pod in enumerate(load.pods):
        made = pods_of.make(pod)
        (decision,) = cluster.schedule([made])
        if not decision.node_name:
            refused += 1
            cluster.remove(made)
        found.add(pod.total_milli, placed=bool(decision.node_name), fragments=columns.total / typical.weight)
        if i % 100 == 0:
            progress(i, len(load.pods))
    progress(len(load.pods), len(load.pods))
    return Run(policy, seed, len(load.pods), refused, *found.by_load())


class Job(NamedTuple):
    """One run, as it goes to a worker; the trace goes with it, as a worker may be on another machine."""

    policy: str
    seed: int
    ratio: float
    nodes: Sequence[TraceNode]
    pods: Sequence[TracePod]


def do(job: Job) -> Run:
    return run(job.nodes, job.pods, policy=job.policy, seed=job.seed, ratio=job.ratio)


class _Pods:
    """The trace's pods as objects; those that differ in name alone are decoded once."""

    def __init__(self) -> None:
        self._like: dict[tuple[PodKind, int], Pod] = {}

    def make(self, pod: TracePod) -> Pod:
        key = pod.kind, pod.memory_mib
        like = self._like.get(key)
        if like is None:
            like = self._like[key] = decode_object(pod.manifest())
        return replace(like, metadata=replace(like.metadata, name=pod.name, uid=pod.name))


def _columns_of(cluster: stowplan.Cluster, typical: TypicalPods) -> FragmentColumns:
    """Those of the policy, if it goes by fragments, else columns of the run's own."""
    (framework,) = cluster.algorithm.frameworks.values()
    policy = framework.plugins.get(FGDScore.name)
    return policy.columns if isinstance(policy, FGDScore) else FragmentColumns(framework.handle, typical)


class _Records:
    """One record after each pod, averaged by load as in the paper's tables."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._arrived = self._used = 0
        self._rows: list[tuple[int, float, float, float]] = []

    def add(self, milli: int, *, placed: bool, fragments: float) -> None:
        capacity = self._capacity
        self._arrived += milli
        self._used += milli if placed else 0
        idle = capacity - self._used
        self._rows.append(
            (
                round(100 * self._arrived / capacity),
                round(100 * self._used / capacity, 2),
                100 * round(fragments, 2) / capacity,
                round(100 * fragments / idle, 2) if idle else 0.0,
            )
        )

    def by_load(self) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
        """Means of the records of each load; a load without any takes those of its neighbours."""
        rows = np.array(self._rows)
        loads = rows[:, 0].astype(int)
        counts = np.bincount(loads)
        sums = [np.bincount(loads, weights=rows[:, i]) for i in (1, 2, 3)]
        known = np.flatnonzero(counts)
        every = np.arange(len(counts))
        means = (np.interp(every, known, values[known] / counts[known]) for values in sums)
        allocated, fragments, ratio = (tuple(np.round(values, 2).tolist()) for values in means)
        return allocated, fragments, ratio
