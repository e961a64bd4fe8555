"""/metrics/resources: requests and limits of every pod.

The page is generated from the current pods at each scrape; nothing is cached. In a large cluster it has half a million
lines, so it is written per pod without an object per value, and in pieces between which the server lets the event loop
run.

Upstream: pkg/scheduler/metrics/resources/resources.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice

from stowplan.kube.api.pod import FINISHED, Pod
from stowplan.kube.api.pod_requests import pod_limits, pod_requests
from stowplan.kube.api.quantity import NANO
from stowplan.kube.api.resource_names import ATTACHABLE_VOLUMES_PREFIX, CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY
from stowplan.kube.metrics.registry import escaped, go_float

_STORAGE = "storage"
#: Pods per piece of the page: a few milliseconds of work.
PIECE = 256


def resource_page(pods: Iterable[Pod]) -> Iterator[bytes]:
    """The page for these pods, of all schedulers, in the Prometheus text format (`exposition.TEXT`), piece by piece.

    Finished pods are excluded. A metric without any pod is omitted.
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
    """Whether the pod has finished; one that was never assigned cannot have."""
    return bool(pod.spec.node_name) and pod.status.phase in FINISHED


@lru_cache(maxsize=1024)
def unit_of(resource: str) -> str:
    if resource == CPU:
        return "cores"
    if resource in (MEMORY, EPHEMERAL_STORAGE, _STORAGE) or resource.startswith(HUGEPAGES_PREFIX):
        return "bytes"
    return "integer" if resource.startswith(ATTACHABLE_VOLUMES_PREFIX) else ""


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


#: Name, help, and the function for a pod's sums.
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
