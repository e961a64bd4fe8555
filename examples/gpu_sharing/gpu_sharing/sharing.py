"""Fit pods to single GPUs, and say which ones they get.

A pod that asks for a part of a GPU shares it with others; one that asks for several gets whole ones. Filter knows what
each GPU has free, Reserve chooses GPUs on the node that won, and PreBind writes them into an annotation, from which
they are known after a restart. CPU, memory and the number of pods are NodeResourcesFit's.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from gpu_sharing.devices import devices_of
from gpu_sharing.policies import FGDScore
from gpu_sharing.request import GPU_INDEX, GpuRequestError, index_text, indexes_of, request_of
from stowplan.plugins import (
    ASSIGNED_POD,
    NODE,
    SKIP,
    Action,
    Done,
    EnqueueExtensions,
    Entry,
    FilterPlugin,
    Patch,
    PreBindPlugin,
    PreFilterPlugin,
    Reads,
    ReadsNoObjects,
    Reason,
    Rejections,
    ReservePlugin,
    SignPlugin,
    error,
    on,
    queue_if,
    unresolvable,
    unschedulable,
)
from stowplan.plugins import Code as StatusCode
from stowplan.plugins import Nodes as NodesView

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from gpu_sharing.request import GpuRequest
    from stowplan.kube.api.types import Pod
    from stowplan.plugins import (
        ClusterEventWithHint,
        CycleState,
        Handle,
        Hint,
        Nodes,
        PodInfo,
        Status,
        Steps,
    )

NO_ROOM = Reason("InsufficientGPU", "Insufficient GPU")
OTHER_MODEL = Reason("OtherGPUModel", "node(s) had no GPU of the models that the pod may use")
BAD_REQUEST = Reason("BadGPURequest", "{problem}")


class GpuSharingArgs(msgspec.Struct, frozen=True):
    #: Which GPU a part of one comes from: the fullest that has room, any, or the one for which FGDScore scored.
    select: Literal["best", "random", "fgd"] = "best"
    #: Of the chance that "random" draws on.
    seed: int = 0


class GpuSharing(
    PreFilterPlugin, FilterPlugin, ReservePlugin, PreBindPlugin, SignPlugin, ReadsNoObjects, EnqueueExtensions
):
    name = "GpuSharing"
    args_type = GpuSharingArgs
    reads = Reads.NODE_PODS

    def __init__(self, args: GpuSharingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._devices = devices_of(handle)
        self._random = Random(args.seed)
        handle.register_participant(self.name, self._devices.participant())

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Hashable] | Status:
        try:
            return {"gpu": request_of(pod.annotations)}
        except GpuRequestError as e:
            return unresolvable(BAD_REQUEST.of(problem=e))

    # -- which nodes --------------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        try:
            request = request_of(pod.annotations)
        except GpuRequestError as e:
            return unresolvable(BAD_REQUEST.of(problem=e))
        if request is None:
            return SKIP
        state.write(self.name, request)
        return None

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        request: GpuRequest = state.read(self.name)
        full = np.add.reduce(self._devices.free(nodes) >= request.milli, axis=0) < request.count
        other = ~self._devices.allowed(nodes, request.models) if request.models else None
        refused = full if other is None else full | other
        if not refused.any():
            return None
        return Rejections(refused, lambda: self._reasons(request, nodes, full.copy(), other))

    def _reasons(self, request: GpuRequest, nodes: Nodes, full: Any, other: Any) -> list[Entry]:
        too_small = full & (self._devices.count(nodes) < request.count)
        # Pods that leave help neither a node with too few GPUs nor one with others.
        entries = [
            Entry(too_small, StatusCode.UnschedulableAndUnresolvable, NO_ROOM),
            Entry(full & ~too_small, StatusCode.Unschedulable, NO_ROOM),
        ]
        if other is not None:
            entries.append(Entry(other, StatusCode.UnschedulableAndUnresolvable, OTHER_MODEL))
        return [entry for entry in entries if entry.mask.any()]

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            on(NODE, Action.Add | Action.UpdateNodeAllocatable | Action.UpdateNodeLabel),
            on(ASSIGNED_POD, Action.Delete, self._after_pod_deleted),
        )

    def _after_pod_deleted(self, pod: PodInfo, old: Pod, new: None) -> Hint:
        try:
            return queue_if(request_of(old.metadata.annotations) is not None)
        except GpuRequestError:
            return queue_if(False)

    # -- which GPUs ---------------------------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        request = request_of(pod.annotations)
        if request is None or indexes_of(pod.annotations) is not None:
            return None
        cluster = self.handle.cluster
        # The pod is on the node already, without GPUs.
        node = NodesView(cluster, np.array([cluster.table.row_of[node_name]], np.intp))
        free: list[int] = self._devices.free(node)[:, 0].tolist()
        rooms = [i for i, milli in enumerate(free) if milli >= request.milli]
        if len(rooms) < request.count:
            return unschedulable(NO_ROOM)
        if not request.is_share:
            chosen = tuple(rooms[: request.count])
        elif self.args.select == "random":
            chosen = (self._random.choice(rooms),)
        elif self.args.select == "best":
            chosen = (min(rooms, key=lambda i: free[i]),)
        else:
            fgd = self.handle.framework.plugins.get(FGDScore.name)
            if not isinstance(fgd, FGDScore):
                return error(f"{self.name}: args.select is fgd, and the profile has no {FGDScore.name}")
            chosen = (fgd.best_gpu(pod, request, node),)
        self._devices.hold(pod, node_name, chosen)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._devices.release(pod, node_name)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None if self._devices.held(pod, node_name) else SKIP

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Steps:
        text = index_text(self._devices.held(pod, node_name))
        body = {"metadata": {"uid": pod.uid, "annotations": {GPU_INDEX: text}}}
        outcome = yield Patch(kind=type(pod.pod), namespace=pod.namespace, name=pod.name, body=body, type_="merge")
        return None if isinstance(outcome, Done) else error(outcome.error)
