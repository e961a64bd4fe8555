"""What pods ask for and may use, as /metrics/resources shows it: the scheduler's own sums, pod by pod.

The page is made from the pods as they are at the scrape; nothing is kept. In a big cluster it has half a million lines,
so it is written pod by pod and not from objects for each number, and it comes in pieces: who serves it lets the event
loop turn between them.

Upstream: pkg/scheduler/metrics/resources/resources.go.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from stowplan.api.pod import FINISHED
from stowplan.api.pod_requests import pod_requests
from stowplan.api.quantity import NANO, parse_quantity
from stowplan.api.resource_names import (
    ATTACHABLE_VOLUMES_PREFIX,
    CPU,
    EPHEMERAL_STORAGE,
    HUGEPAGES_PREFIX,
    MEMORY,
    is_pod_level,
)
from stowplan.metrics.text import escaped, go_float

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from stowplan.api.meta import ResourceList
    from stowplan.api.pod import Pod

_STORAGE = "storage"
#: Pods of a piece of the page: some milliseconds of work.
PIECE = 256

#: Nano-units by resource name.
Amounts = dict[str, int]


def resource_page(pods: Iterable[Pod]) -> Iterator[bytes]:
    """The page for these pods, whoever schedules them, in the Prometheus text (`exposition.TEXT`), piece by piece.

    Pods that are done do not count. A metric that no pod has is left out whole.
    """
    counted = [pod for pod in pods if not is_terminal(pod)]
    for name, help, total in _FAMILIES:
        head = f"# HELP {name} [STABLE] {help}\n# TYPE {name} gauge\n"
        rest = iter(counted)
        while piece := list(islice(rest, PIECE)):
            lines = "".join(line for pod in piece for line in _lines(name, pod, total(pod)))
            if lines:
                yield (head + lines).encode()
                head = ""


def is_terminal(pod: Pod) -> bool:
    """Whether the pod has run and is done; one that was never assigned cannot have."""
    return bool(pod.spec.node_name) and pod.status.phase in FINISHED


def pod_limits(pod: Pod) -> Amounts:
    """The limits of all containers together, by the rule of requests: sidecars add up, init containers take turns.

    Limits of the pod itself come in place of that sum. Overhead is added only to what has a limit.
    """
    limits = _container_limits(pod)
    if pod.spec.resources is not None:
        limits.update({n: amount for n, amount in _parsed(pod.spec.resources.limits).items() if is_pod_level(n)})
    for name, amount in _parsed(pod.spec.overhead).items():
        if limits.get(name):
            limits[name] += amount
    return limits


@lru_cache(maxsize=1024)
def unit_of(resource: str) -> str:
    if resource == CPU:
        return "cores"
    if resource in (MEMORY, EPHEMERAL_STORAGE, _STORAGE) or resource.startswith(HUGEPAGES_PREFIX):
        return "bytes"
    return "integer" if resource.startswith(ATTACHABLE_VOLUMES_PREFIX) else ""


def _container_limits(pod: Pod) -> Amounts:
    total: Amounts = {}
    for container in pod.spec.containers:
        _add(total, _parsed(container.resources.limits))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.spec.init_containers:
        stage = _parsed(container.resources.limits)
        if container.restart_policy == "Always":
            _add(total, stage)
            _add(sidecars, stage)
            stage = sidecars
        else:
            _add(stage, sidecars)
        _raise_to(peak, stage)
    _raise_to(total, peak)
    return total


def _lines(name: str, pod: Pod, totals: Mapping[str, int]) -> Iterator[str]:
    spec, meta = pod.spec, pod.metadata
    of_pod = (
        f'{name}{{namespace="{escaped(meta.namespace)}",node="{escaped(spec.node_name)}",pod="{escaped(meta.name)}",'
        f'priority="{"" if spec.priority is None else spec.priority}",resource="'
    )
    scheduler = f'",scheduler="{escaped(spec.scheduler_name)}",unit="'
    for resource, nano in totals.items():
        if nano:
            yield f'{of_pod}{escaped(resource)}{scheduler}{unit_of(resource)}"}} {go_float(nano / NANO)}\n'


def _parsed(resources: ResourceList) -> Amounts:
    return {name: parse_quantity(amount) for name, amount in resources.items()}


def _add(total: Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = max(total.get(name, amount), amount)


#: Name, help, and the sums of a pod.
_FAMILIES: tuple[tuple[str, str, Callable[[Pod], Mapping[str, int]]], ...] = (
    (
        "kube_pod_resource_limit",
        "What a pod may use of a resource in total, as scheduler and kubelet count it, and the unit if it has one.",
        pod_limits,
    ),
    (
        "kube_pod_resource_request",
        "What a pod requests of a resource in total, as scheduler and kubelet count it, and the unit if it has one.",
        pod_requests,
    ),
)
