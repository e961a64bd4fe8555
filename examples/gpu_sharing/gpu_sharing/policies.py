"""The six policies of "Beware of Fragmentation" as Score plugins.

Each answers with integers in 0…100 for all nodes at once. To repeat the paper exactly, one of them is the profile's
only score plugin, and ties go to the first node in a fixed order: with so coarse scores that order decides often. The
formulas take the largest node of the paper's cluster as their unit (128 cores, 8 GPUs); `args` can name another.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from gpu_sharing.columns import FragmentColumns
from gpu_sharing.devices import devices_of
from gpu_sharing.fragmentation import PodKind, TypicalPods
from gpu_sharing.request import WHOLE, request_of
from stowplan.plugins import (
    CountsPods,
    Nodes,
    PreScorePlugin,
    Reads,
    ReadsNoObjects,
    ScorePlugin,
    SignPlugin,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    import numpy.typing as npt

    from gpu_sharing.columns import Measures
    from gpu_sharing.request import GpuRequest
    from stowplan.plugins import CycleState, Handle, PodInfo

    Ints = npt.NDArray[np.int64]


class RandomArgs(msgspec.Struct, frozen=True):
    seed: int = 0


class RandomScore(PreScorePlugin, ScorePlugin, SignPlugin, ReadsNoObjects, CountsPods):
    """Any feasible node."""

    name = "RandomScore"
    args_type = RandomArgs
    reads = Reads.CLUSTER_PODS

    def __init__(self, args: RandomArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._random = Random(args.seed)

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Hashable]:
        return {}

    def filter_holds(self, state: CycleState, pod: PodInfo) -> bool:
        return True

    def score_holds(self, state: CycleState, pod: PodInfo, feasible_moved: bool) -> bool:
        # Every pod draws.
        return False

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        found = nodes.positions()
        # A question draws on no chance.
        chosen = -1 if state.asking or not found else nodes.row(found[self._random.randrange(len(found))])
        state.write(self.name, chosen)

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        rows = np.arange(len(nodes)) if nodes.rows is None else nodes.rows
        return np.where(rows == state.read(self.name), 100, 0)


class ScaledArgs(msgspec.Struct, frozen=True, rename="camel"):
    """The largest node: what the formulas measure by."""

    cpu_milli: int = 128_000
    gpu_milli: int = 8 * WHOLE

    def validate(self, path: str, features: object) -> Any:
        for name, value in (("cpuMilli", self.cpu_milli), ("gpuMilli", self.gpu_milli)):
            if value < 1:
                yield f"{path}.{name}: {value} is not 1 or more"


class _GpuScore(ScorePlugin, SignPlugin, ReadsNoObjects):
    """What the policies share that look at a node's GPUs."""

    args_type: Any = ScaledArgs
    reads = Reads.NODE_PODS

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._devices = devices_of(handle)
        self._cpu = handle.cluster.table.resources["cpu"]

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Hashable]:
        # GpuSharing has refused requests that make no sense.
        return {"gpu": request_of(pod.annotations)}

    def _free_cpu(self, nodes: Nodes) -> Ints:
        return nodes.allocatable(self._cpu) - nodes.requested(self._cpu)

    def _left(self, nodes: Nodes) -> Ints:
        """Free thousandths of a node's GPUs in sum."""
        found: Ints = self._devices.free(nodes).sum(axis=0)
        return found


class DotProductScore(_GpuScore):
    """Small room for small pods: the less the request points where the node has much, the better."""

    name = "DotProductScore"

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        cpus, gpus = self.args.cpu_milli, self.args.gpu_milli
        cpu, want = _cpu_of(pod), _total(request_of(pod.annotations))
        product = (self._free_cpu(nodes) / cpus) * (cpu / cpus) + (self._left(nodes) / gpus) * (want / gpus)
        return _cut(100 * (1 - product / 2))


class GpuClusteringScore(_GpuScore):
    """Requests of one kind together: parts with parts, pods of two GPUs with pods of two."""

    name = "GpuClusteringScore"

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        request = request_of(pod.annotations)
        if request is None:
            return np.zeros(len(nodes), np.int64)
        kinds, own = self._devices.kinds(nodes), 1 << request.kind
        bonus = np.select([kinds == own, kinds & own != 0, kinds == 0], [75, 50, 25], 0)
        gpus = self.args.gpu_milli
        return 25 * np.maximum(gpus - self._left(nodes), 0) // gpus + bonus


class GpuPackingScore(_GpuScore):
    """GPUs in use first, then idle GPUs of nodes in use, then idle nodes."""

    name = "GpuPackingScore"

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        request = request_of(pod.annotations)
        if request is None:
            return np.zeros(len(nodes), np.int64)
        free, number = self._devices.free(nodes), self._devices.count(nodes)
        idle = (free == WHOLE).sum(axis=0)
        # The fullest GPUs with room: what has none goes last.
        ordered = np.sort(np.where(free >= request.milli, free, WHOLE + 1), axis=0)[: request.count]
        taken = (ordered == WHOLE).sum(axis=0)
        shared = np.where(ordered < WHOLE, ordered * 100 // WHOLE, 0).sum(axis=0)
        scores = np.where(taken > 0, np.maximum(50 - taken, 33), np.maximum(100 - shared // 10, 50))
        return np.where(idle == number, np.maximum(33 - number, number), scores)


class BestFitScore(_GpuScore):
    """The node with the least left over, in CPU and in GPUs."""

    name = "BestFitScore"
    normalizes = True

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        cpus, gpus = self.args.cpu_milli, self.args.gpu_milli
        cpu = self._free_cpu(nodes) - _cpu_of(pod)
        gpu = self._left(nodes) - _total(request_of(pod.annotations))
        return _cut(100 * (1 - (0.5 * cpu / cpus + 0.5 * gpu / gpus)))

    def normalize(self, state: CycleState, pod: PodInfo, scores: Ints, feasible: npt.NDArray[np.bool_]) -> Ints:
        lowest, highest = int(scores[feasible].min()), int(scores[feasible].max())
        if lowest == highest:
            return np.zeros(len(scores), np.int64)
        return np.clip((scores - lowest) * 100 // (highest - lowest), 0, 100)


class TypicalPod(msgspec.Struct, frozen=True, rename="camel"):
    cpu_milli: int
    #: How often such pods come, compared with the others.
    count: int
    gpu_milli: int = 0
    gpu_count: int = 0
    models: str = ""

    @classmethod
    def of(cls, kind: PodKind, count: int) -> TypicalPod:
        return cls(kind.cpu_milli, count, kind.gpu_milli, kind.gpu_count, kind.models)

    @property
    def kind(self) -> PodKind:
        return PodKind(self.cpu_milli, self.gpu_milli, self.gpu_count, self.models)


class FGDArgs(msgspec.Struct, frozen=True, rename="camel"):
    typical_pods: tuple[TypicalPod, ...] = ()

    def validate(self, path: str, features: object) -> Any:
        if not self.typical_pods:
            yield f"{path}.typicalPods: name the pods that usually come; fragmentation is measured by them"
        for i, pod in enumerate(self.typical_pods):
            if pod.count < 1 or min(pod.cpu_milli, pod.gpu_milli, pod.gpu_count) < 0:
                yield f"{path}.typicalPods[{i}]: want a count of 1 or more, and no negative request"


class FGDScore(_GpuScore):
    """Fragmentation gradient descent: where the fragmentation grows least, or falls most."""

    name = "FGDScore"
    args_type = FGDArgs

    def __init__(self, args: FGDArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._typical = TypicalPods([(pod.kind, pod.count) for pod in args.typical_pods])
        self.columns = FragmentColumns(handle, self._typical)

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        request, now = request_of(pod.annotations), self.columns.of(nodes)
        left = now.free_cpu - _cpu_of(pod)
        if request is not None and request.is_share:
            by_gpu = self._share_scores(request, left, self._devices.free(nodes), now)
            return np.maximum.reduce(by_gpu, axis=0, initial=0)
        taken = np.zeros(len(nodes), np.int64)
        if request is not None:
            idle = np.add.reduce(self._devices.free(nodes) == WHOLE, axis=0)
            taken = np.minimum(idle, request.count)
        typical = self._typical
        after = typical.useful_after_whole(left, now.rooms, taken)
        return typical.scores(typical.weight * WHOLE * taken - now.useful + after)

    def best_gpu(self, pod: PodInfo, request: GpuRequest, node: Nodes) -> int:
        """The GPU that gave the node its score, when the pod's CPU is taken from it already."""
        free = self._devices.free(node)
        rooms = (free[:, 0] >= request.milli).nonzero()[0]
        if (free[rooms] == free[rooms[0]]).all():
            # None is better than the first.
            return int(rooms[0])
        now = self.columns.of(node)
        before = now._replace(useful=self._typical.useful(now.free_cpu + _cpu_of(pod), now.rooms))
        return int(self._share_scores(request, now.free_cpu, free, before).argmax())

    def _share_scores(self, request: GpuRequest, left: Ints, free: Ints, before: Measures) -> Ints:
        """The score by each GPU; -1 where it has no room."""
        typical = self._typical
        gpus, nodes, after = typical.useful_after_share(left, before.rooms, free, request.milli)
        found = np.full(free.shape, -1)
        found[gpus, nodes] = typical.scores(typical.weight * request.milli - before.useful.take(nodes) + after)
        return found


def _cpu_of(pod: PodInfo) -> int:
    return pod.shape.requests.get("cpu", 0)


def _total(request: GpuRequest | None) -> int:
    return 0 if request is None else request.total


def _cut(scores: npt.NDArray[np.float64]) -> Ints:
    """Toward zero, and for nodes that are not feasible into the range."""
    return np.clip(scores, 0, 100).astype(np.int64)
