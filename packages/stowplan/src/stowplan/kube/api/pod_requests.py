"""Pod resource requests and limits, summed like in kubelet and kube-scheduler.

Containers and sidecars run concurrently, so they are added. Ordinary init containers run one after the other, each next
to the sidecars started before it; the largest such stage is a lower bound. Pod-level requests replace the result for
the resources that they set, and the overhead is added. Limits follow the same rule, but overhead is only added to
resources with a limit.

All amounts are nano-units; rounding to the scheduler's integers happens once, in `to_vector`.

Upstream: k8s.io/component-helpers/resource/helpers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from stowplan.kube.api.meta import ResourceList
from stowplan.kube.api.pod import Container, ContainerStatus, Pod
from stowplan.kube.api.quantity import NANO, milli_value, parse_quantity, value
from stowplan.kube.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, is_pod_level, is_scalar

Requests = dict[str, int]

_NOTHING: Mapping[str, int] = MappingProxyType({})

#: Assumed in scoring for a container without cpu or memory requests: 100m and 200Mi.
NON_ZERO_DEFAULTS: Mapping[str, int] = MappingProxyType({CPU: NANO // 10, MEMORY: 200 * 1024 * 1024 * NANO})


def pod_requests(
    pod: Pod,
    *,
    use_status: bool = False,
    skip_pod_level: bool = False,
    pod_level_resize: bool = False,
    dra_node_allocatable: bool = False,
    defaults: Mapping[str, int] = _NOTHING,
) -> Requests:
    """Nano-units by resource name.

    `use_status` includes a resize in progress; `defaults` apply to resources that a container does not request.
    """
    statuses = _resized(pod) if use_status else {}
    requests = _together(pod, lambda one: _requested(pod, one, statuses.get(one.name), defaults))
    if dra_node_allocatable:
        for claim in pod.status.node_allocatable_resource_claim_statuses:
            _add(requests, _parsed(claim.resources))
    if not skip_pod_level:
        requests.update(_pod_level_requests(pod, resized=use_status and pod_level_resize))
    if pod.spec.overhead:
        _add(requests, _parsed(pod.spec.overhead))
    return requests


def pod_limits(pod: Pod) -> Requests:
    """Nano-units by resource name, for resources with a limit."""
    limits = _together(pod, lambda container: _parsed(container.resources.limits))
    if pod.spec.resources is not None:
        limits.update(
            (name, amount) for name, amount in _parsed(pod.spec.resources.limits).items() if is_pod_level(name)
        )
    for name, amount in _parsed(pod.spec.overhead).items():
        if limits.get(name):
            limits[name] += amount
    return limits


def non_zero_requests(pod: Pod, *, dra_node_allocatable: bool = False) -> tuple[int, int]:
    """Millicores and bytes of memory, with `NON_ZERO_DEFAULTS` for missing requests."""
    missing: Mapping[str, int] = NON_ZERO_DEFAULTS
    requests: Requests | None = None
    if has_pod_level_requests(pod):
        requests = pod_requests(pod, use_status=True, pod_level_resize=True, dra_node_allocatable=dra_node_allocatable)
        missing = {name: amount for name, amount in missing.items() if name not in requests}
    if requests is None or missing:
        requests = pod_requests(
            pod, use_status=True, pod_level_resize=True, dra_node_allocatable=dra_node_allocatable, defaults=missing
        )
    return milli_value(requests.get(CPU, 0)), value(requests.get(MEMORY, 0))


def to_vector(requests: Mapping[str, int], *, counted_only: bool = True) -> dict[str, int]:
    """The scheduler's integers: cpu in millicores, the rest in units; names that it does not count are dropped."""
    vector = {}
    for name, nano in requests.items():
        if name == CPU:
            vector[name] = milli_value(nano)
        elif name in (MEMORY, EPHEMERAL_STORAGE) or is_scalar(name) or not counted_only:
            vector[name] = value(nano)
    return vector


def has_pod_level_requests(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(is_pod_level(name) for name in resources.requests)


def _together(pod: Pod, amounts_of: Callable[[Container], Mapping[str, int]]) -> Requests:
    """The total of all containers."""
    total: Requests = {}
    for container in pod.spec.containers:
        _add(total, amounts_of(container))
    if not pod.spec.init_containers:
        return total
    sidecars: Requests = {}
    peak: Requests = {}
    for container in pod.spec.init_containers:
        if is_sidecar(container):
            amounts = amounts_of(container)
            _add(total, amounts)
            _add(sidecars, amounts)
        else:
            stage = dict(amounts_of(container))
            _add(stage, sidecars)
            _raise_to(peak, stage)
    _raise_to(total, peak)
    return total


def is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _resized(pod: Pod) -> dict[str, ContainerStatus]:
    """Container name -> status with actual resources, for containers that run as long as the pod."""
    stages = {container.name for container in pod.spec.init_containers if not is_sidecar(container)}
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return {status.name: status for status in statuses if status.resources is not None and status.name not in stages}


def _requested(
    pod: Pod, container: Container, status: ContainerStatus | None, defaults: Mapping[str, int]
) -> Mapping[str, int]:
    requests = _parsed(container.resources.requests)
    if status is not None and status.resources is not None:
        requests = _effective(pod, requests, status.resources.requests, status.allocated_resources)
    return {**defaults, **requests} if defaults else requests


def _effective(pod: Pod, spec: Requests, actuated: ResourceList, allocated: ResourceList) -> Requests:
    """The maximum that a resize in progress may need; an infeasible one no longer counts."""
    requests = {} if _resize_is_infeasible(pod) else spec
    _raise_to(requests, _parsed(actuated))
    _raise_to(requests, _parsed(allocated))
    return requests


def _resize_is_infeasible(pod: Pod) -> bool:
    # Parity: only the first such condition counts, and its status is ignored.
    reasons: Iterable[str] = (c.reason for c in pod.status.conditions if c.type == "PodResizePending")
    return next(iter(reasons), "") == "Infeasible"


def _pod_level_requests(pod: Pod, *, resized: bool) -> Requests:
    if pod.spec.resources is None or not pod.spec.resources.requests:
        return {}
    spec = _parsed(pod.spec.resources.requests)
    names = [name for name in spec if is_pod_level(name)]
    if resized and pod.status.resources is not None:
        spec = _effective(pod, spec, pod.status.resources.requests, pod.status.allocated_resources)
    return {name: spec.get(name, 0) for name in names}


def _parsed(resources: ResourceList) -> Requests:
    return {name: parse_quantity(amount) for name, amount in resources.items()}


def _add(total: Requests, requests: Mapping[str, int]) -> None:
    for name, amount in requests.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Requests, requests: Mapping[str, int]) -> None:
    for name, amount in requests.items():
        if name not in total or amount > total[name]:
            total[name] = amount
