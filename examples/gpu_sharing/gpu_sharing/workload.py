"""What the experiment makes of a trace: pods in a random order, tuned to a load, and a random order of nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from gpu_sharing.request import WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_sharing.trace import TraceNode, TracePod


@dataclass(frozen=True, slots=True)
class Workload:
    #: In the order that decides between equally good nodes.
    nodes: list[TraceNode]
    #: In the order in which they come.
    pods: list[TracePod]


def workload(nodes: Sequence[TraceNode], pods: Sequence[TracePod], *, ratio: float, seed: int) -> Workload:
    """Both shuffled, and pods copied or left out until they ask for `ratio` times the GPUs that there are."""
    random = Random(seed)
    shuffled = list(pods)
    random.shuffle(shuffled)
    target = ratio * WHOLE * sum(node.gpus for node in nodes)
    tuned = _tuned(shuffled, pods, target, random)
    ranked = list(nodes)
    random.shuffle(ranked)
    return Workload(ranked, tuned)


def _tuned(shuffled: list[TracePod], pods: Sequence[TracePod], target: float, random: Random) -> list[TracePod]:
    asked = sum(pod.total_milli for pod in shuffled)
    if not asked:
        return shuffled
    while asked > target:
        asked -= shuffled.pop(random.randrange(len(shuffled))).total_milli
    copies: list[TracePod] = []
    while not copies or asked <= target:
        pod = pods[random.randrange(len(pods))]
        # As in the paper's simulator: the test takes a pod of several GPUs for one of one.
        if asked + pod.kind.gpu_milli > target:
            break
        asked += pod.total_milli
        copies.append(replace(pod, name=f"{pod.name}-tuned-{len(copies)}"))
    return shuffled + copies
