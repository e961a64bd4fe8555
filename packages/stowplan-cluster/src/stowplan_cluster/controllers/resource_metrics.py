"""What the simulated kubelets measure of pods and nodes, as metrics-server serves it in metrics.k8s.io.

Nothing is stored: usage is computed from the pods and from annotations of pods and workloads when somebody asks
(`reconcile/usage.py`). The annotations of a Deployment count for the pods of all its ReplicaSets; those of a pod come
before those of its workload. An annotation that is wrong leaves its pods without metrics.

Upstream: kubernetes-sigs/metrics-server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from stowplan.kube.api.api_errors import NotFound, not_found
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.meta import ObjectMeta, controller_of, seconds_of, timestamp
from stowplan.kube.api.pod import Container
from stowplan.kube.api.quantity import NANO, Format, format_quantity
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.listing import Page
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.resources import METRICS_GROUP, Resource
from stowplan_cluster.apiserver.store import Store, Stored, stored_of
from stowplan_cluster.reconcile.kubelet import KUBELET, OFF, STOPPED
from stowplan_cluster.reconcile.pods import PODS, RUNNING, Pod, decode_pod
from stowplan_cluster.reconcile.replica_counts import Measured, Requests, ScaledPod
from stowplan_cluster.reconcile.usage import (
    CPU,
    MEMORY,
    NO_LOAD,
    RESOURCES,
    WINDOW_SECONDS,
    Consumer,
    Load,
    UsageError,
    amounts_of,
    is_measured,
    load_of,
    measured,
    requests_of,
    running_containers,
)
from stowplan_cluster.reconcile.views import JOBS, REPLICA_SETS, WORKLOAD_KINDS, AnyObject

API_VERSION = f"{METRICS_GROUP}/v1beta1"
#: Owners of pods that have owners of their own.
_MIDDLE = (REPLICA_SETS.kind, JOBS.kind)
#: Memory is measured in whole Ki.
_KI = 1024 * 1000


class _Workload(PlainStruct):
    """The owner of pods, as far as their usage depends on it."""

    metadata: ObjectMeta
    #: The number of its pods that take a share of its load.
    serving: int


class ResourceMetrics:
    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def measured(self, pods: Iterable[Stored]) -> dict[str, Measured]:
        """The usage of pods, by uid."""
        return {stored.uid: usage for stored, usage in self._usages(pods)}

    # metrics.k8s.io

    def get(self, resource: Resource, namespace: str, name: str) -> Stored:
        """The metrics of a pod or a node; raise NotFound if there are none."""
        about = self._store.get(resource.plural, namespace, name)
        found = [] if about is None else self._metrics(resource, [about])
        if not found:
            raise _no_metrics(resource, namespace, name)
        return found[0]

    def page(self, resource: Resource, page: Page) -> Page:
        """The metrics of a page of pods or nodes."""
        return Page(self._metrics(resource, page.items), page.version, page.continue_, page.remaining)

    def _metrics(self, resource: Resource, about: Sequence[Stored]) -> list[Stored]:
        found: list[tuple[Stored, JsonObject]]
        if resource.plural == PODS:
            found = [(stored, {"containers": _containers(usage)}) for stored, usage in self._usages(about)]
        else:
            totals = self._of_nodes()
            found = [(stored, {"usage": _amounts(totals[stored.name])}) for stored in about]
        return [stored_of(resource.storage, self._object(resource, *one), version=one[0].version) for one in found]

    def _object(self, resource: Resource, about: Stored, usage: JsonObject) -> JsonObject:
        now = timestamp(self._clock())
        metadata: JsonObject = {"name": about.name, "creationTimestamp": now}
        if about.namespace:
            metadata["namespace"] = about.namespace
        if about.labels:
            metadata["labels"] = dict(about.labels)
        head = {"kind": resource.kind, "apiVersion": API_VERSION, "metadata": metadata}
        return {**head, "timestamp": now, "window": f"{WINDOW_SECONDS:g}s", **usage}

    def _of_nodes(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {node.name: Counter() for node in self._store.list("nodes")}
        for stored, usage in self._usages(self._store.list(PODS)):
            total = found.get(stored.field("spec.nodeName"))
            if total is not None:
                for amounts in usage.containers.values():
                    total.update(amounts)
        return found

    # Usage

    def _usages(self, pods: Iterable[Stored]) -> Iterator[tuple[Stored, Measured]]:
        now, workloads, off = self._clock(), dict[str, _Workload | None](), self._nodes_that_are_off()
        for stored in pods:
            if off and stored.field("spec.nodeName") in off:
                continue
            pod = decode_pod(stored)
            since = pod.running_since
            if since is None or not pod.spec.containers:
                continue
            one = Consumer(stored.name, amounts_of(_running_containers(pod)), since, _serves(pod))
            if not is_measured(one, now):
                continue
            workload = self._workload_of(pod.metadata, workloads)
            try:
                load = _load(pod.metadata, workload)
            except UsageError:
                continue
            yield stored, measured(one, load, 1 if workload is None else workload.serving, now)

    def _nodes_that_are_off(self) -> set[str]:
        """Nodes whose kubelets answer nobody."""
        nodes = (decode_json(stored.data, AnyObject).metadata for stored in self._store.list("nodes"))
        return {metadata.name for metadata in nodes if metadata.annotations.get(KUBELET) in (STOPPED, OFF)}

    def _workload_of(self, metadata: ObjectMeta, known: dict[str, _Workload | None]) -> _Workload | None:
        """The workload at the top of the owners of a pod."""
        owner = controller_of(metadata)
        if owner is None:
            return None
        if owner.uid not in known:
            known[owner.uid] = self._top(metadata.namespace, owner.kind, owner.name, owner.uid, known)
        return known[owner.uid]

    def _top(
        self, namespace: str, kind: str, name: str, uid: str, known: dict[str, _Workload | None]
    ) -> _Workload | None:
        about = WORKLOAD_KINDS.get(kind)
        stored = None if about is None else self._store.get(about.storage, namespace, name)
        if stored is None or stored.uid != uid:
            return None
        metadata = decode_json(stored.data, AnyObject).metadata
        above = self._workload_of(metadata, known) if kind in _MIDDLE else None
        return above or _Workload(metadata, sum(_serves(decode_pod(pod)) for pod in self._pods_below(uid)))

    def _pods_below(self, uid: str) -> Iterator[Stored]:
        for one in self._store.dependents(uid):
            if one.resource == PODS:
                yield one
            elif one.resource in (REPLICA_SETS.storage, JOBS.storage):
                yield from self._pods_below(one.uid)


def scaled_pod(stored: Stored) -> ScaledPod:
    """The pod as a HorizontalPodAutoscaler's controller sees it."""
    pod = decode_pod(stored)
    ready, started = pod.ready_condition, pod.status.start_time
    return ScaledPod(
        name=stored.name,
        phase=pod.phase,
        requests=_requests(pod),
        deleting=pod.terminating,
        ready=None if ready is None else ready.status != "False",
        ready_since=0.0 if ready is None else seconds_of(ready.last_transition_time),
        started=None if started is None else seconds_of(started),
    )


def _requests(pod: Pod) -> Requests:
    return requests_of(amounts_of(_running_containers(pod)), pod.spec.resources)


def _serves(pod: Pod) -> bool:
    """Whether it takes a share of its workload's load."""
    return pod.ready and pod.phase == RUNNING and not pod.terminating


def _running_containers(pod: Pod) -> list[Container]:
    return running_containers(pod.spec.containers, pod.spec.init_containers)


def _load(metadata: ObjectMeta, workload: _Workload | None) -> Load:
    above = metadata if workload is None else workload.metadata
    start = seconds_of(above.creation_timestamp)
    own = load_of(metadata.annotations, start) if metadata.annotations else NO_LOAD
    if len(own) == len(RESOURCES) or workload is None:
        return own
    return {**load_of(workload.metadata.annotations, start), **own}


def _containers(usage: Measured) -> list[JsonObject]:
    return [{"name": name, "usage": _amounts(amounts)} for name, amounts in usage.containers.items()]


def _amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {
        CPU: format_quantity(amounts.get(CPU, 0) * (NANO // 1000)),
        MEMORY: format_quantity(amounts.get(MEMORY, 0) // _KI * 1024 * NANO, Format.BINARY_SI),
    }


def _no_metrics(resource: Resource, namespace: str, name: str) -> NotFound:
    kind = f"{resource.kind[0].lower()}{resource.kind[1:]}"
    return not_found(kind, METRICS_GROUP, f"{namespace}/{name}" if namespace else name)
