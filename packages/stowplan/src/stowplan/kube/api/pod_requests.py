"""Pod resource requests and limits, summed like in kubelet and kube-scheduler.

Containers and sidecars run concurrently, so they are added. Ordinary init containers run one after the other, each next
to the sidecars started before it; the largest such stage is a lower bound. Pod-level requests replace the result for
the resources that they set, and the overhead is added. Limits follow the same rule, but overhead is only added to
resources with a limit.

During a resize, a pod needs the most of what it asks for, what its node reserved for it, and what its containers have,
so that it fits whichever comes next. Until 1.36 this maximum was taken per container; since 1.37 it is that of the
pod's totals, as two containers that trade resources never need both sums.

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
from stowplan.kube.kubernetes_versions import V1_37, KubernetesVersion

Requests = dict[str, int]

_NOTHING: Mapping[str, int] = MappingProxyType({})

#: Assumed in scoring for a container without cpu or memory requests: 100m and 200Mi.
NON_ZERO_DEFAULTS: Mapping[str, int] = MappingProxyType({CPU: NANO // 10, MEMORY: 200 * 1024 * 1024 * NANO})


def pod_requests(
    pod: Pod,
    *,
    resize_rules: KubernetesVersion | None = None,
    skip_pod_level: bool = False,
    pod_level_resize: bool = False,
    dra_node_allocatable: bool = False,
    defaults: Mapping[str, int] = _NOTHING,
) -> Requests:
    """Nano-units by resource name.

    `resize_rules` includes a resize in progress, as this version does; `defaults` apply to resources that a container
    does not request.
    """
    claimed = _claimed(pod) if dra_node_allocatable else {}
    if resize_rules is None:
        requests = _sum(_together(pod, _spec, defaults), claimed)
    elif resize_rules >= V1_37:
        requests = _max_of_sums(pod, claimed, defaults, pod_level_resize=pod_level_resize)
    else:
        requests = _sum(_sum_of_max(pod, defaults), claimed)
    if not skip_pod_level:
        requests.update(_pod_level_requests(pod, resize_rules if pod_level_resize else None))
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


def non_zero_requests(
    pod: Pod, *, resize_rules: KubernetesVersion, dra_node_allocatable: bool = False
) -> tuple[int, int]:
    """Millicores and bytes of memory, with `NON_ZERO_DEFAULTS` for missing requests."""
    missing: Mapping[str, int] = NON_ZERO_DEFAULTS
    requests: Requests | None = None
    if has_pod_level_requests(pod):
        requests = pod_requests(
            pod, resize_rules=resize_rules, pod_level_resize=True, dra_node_allocatable=dra_node_allocatable
        )
        missing = {name: amount for name, amount in missing.items() if name not in requests}
    if requests is None or missing:
        requests = pod_requests(
            pod,
            resize_rules=resize_rules,
            pod_level_resize=True,
            dra_node_allocatable=dra_node_allocatable,
            defaults=missing,
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


def _together(
    pod: Pod, requests_of: Callable[[Container], Requests], defaults: Mapping[str, int] = _NOTHING
) -> Requests:
    """The total of all containers; `defaults` are what a container has otherwise."""
    total: Requests = {}
    for container in pod.spec.containers:
        _add(total, {**defaults, **requests_of(container)})
    if not pod.spec.init_containers:
        return total
    sidecars: Requests = {}
    peak: Requests = {}
    for container in pod.spec.init_containers:
        if is_sidecar(container):
            amounts = {**defaults, **requests_of(container)}
            _add(total, amounts)
            _add(sidecars, amounts)
        else:
            stage = {**defaults, **requests_of(container)}
            _add(stage, sidecars)
            _raise_to(peak, stage)
    _raise_to(total, peak)
    return total


def is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


# -- a resize in progress ----------------------------------------------------------------------------------------------


def _max_of_sums(pod: Pod, claimed: Requests, defaults: Mapping[str, int], *, pod_level_resize: bool) -> Requests:
    """From 1.37 on: the maximum of what the pod asks for, what is reserved for it, and what it has."""
    status, infeasible = pod.status, _resize_is_infeasible(pod)
    if pod_level_resize and status.allocated_resources and status.resources is not None and status.resources.requests:
        # Kubelet has summed up the containers, and added the claims.
        allocated, actuated = _parsed(status.allocated_resources), _parsed(status.resources.requests)
    else:
        statuses = _statuses(pod)
        allocated = _together(pod, lambda one: _allocated(one, statuses, infeasible), defaults)
        actuated = _together(pod, lambda one: _actuated(one, statuses, infeasible), defaults)
        # Parity: only the first of them gets the claims.
        _add(allocated, claimed)
    requests = {} if infeasible else _sum(_together(pod, _spec, defaults), claimed)
    _raise_to(requests, allocated)
    _raise_to(requests, actuated)
    return requests


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    """Container name -> its status."""
    # The first one of a name counts.
    found = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return {status.name: status for status in reversed(found)}


def _allocated(container: Container, statuses: Mapping[str, ContainerStatus], infeasible: bool) -> Requests:
    status = statuses.get(container.name)
    if status is not None and status.allocated_resources:
        return _parsed(status.allocated_resources)
    return {} if infeasible else _spec(container)


def _actuated(container: Container, statuses: Mapping[str, ContainerStatus], infeasible: bool) -> Requests:
    status = statuses.get(container.name)
    if status is not None and status.resources is not None and status.resources.requests:
        return _parsed(status.resources.requests)
    return _allocated(container, statuses, infeasible)


def _sum_of_max(pod: Pod, defaults: Mapping[str, int]) -> Requests:
    """Until 1.36: the sum of what each container may need."""
    statuses = _resized(pod)
    return _together(pod, lambda one: _requested(pod, one, statuses.get(one.name)), defaults)


def _resized(pod: Pod) -> dict[str, ContainerStatus]:
    """Container name -> status with actual resources, for containers that run as long as the pod."""
    stages = {container.name for container in pod.spec.init_containers if not is_sidecar(container)}
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return {status.name: status for status in statuses if status.resources is not None and status.name not in stages}


def _requested(pod: Pod, container: Container, status: ContainerStatus | None) -> Requests:
    requests = _spec(container)
    if status is not None and status.resources is not None:
        requests = _effective(pod, requests, status.resources.requests, status.allocated_resources)
    return requests


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


def _pod_level_requests(pod: Pod, resize_rules: KubernetesVersion | None) -> Requests:
    if pod.spec.resources is None or not pod.spec.resources.requests:
        return {}
    spec = _parsed(pod.spec.resources.requests)
    names = [name for name in spec if is_pod_level(name)]
    if resize_rules is not None and pod.status.resources is not None and names:
        spec = _effective(pod, spec, pod.status.resources.requests, pod.status.allocated_resources)
        if resize_rules >= V1_37:
            names = [name for name in spec if is_pod_level(name)]
    return {name: spec.get(name, 0) for name in names}


def _parsed(resources: ResourceList) -> Requests:
    return {name: parse_quantity(amount) for name, amount in resources.items()}


def _spec(container: Container) -> Requests:
    return _parsed(container.resources.requests)


def _claimed(pod: Pod) -> Requests:
    """What claims take of the node's resources."""
    total: Requests = {}
    for claim in pod.status.node_allocatable_resource_claim_statuses:
        _add(total, _parsed(claim.resources))
        _add(total, {mapped.name: parse_quantity(mapped.quantity or 0) for mapped in claim.mapping})
        for overhead in claim.overhead:
            of_containers = len(claim.containers) * parse_quantity(overhead.per_container or 0)
            _add(total, {overhead.name: parse_quantity(overhead.per_pod or 0) + of_containers})
    return total


def _sum(total: Requests, requests: Mapping[str, int]) -> Requests:
    _add(total, requests)
    return total


def _add(total: Requests, requests: Mapping[str, int]) -> None:
    for name, amount in requests.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Requests, requests: Mapping[str, int]) -> None:
    for name, amount in requests.items():
        if name not in total or amount > total[name]:
            total[name] = amount
