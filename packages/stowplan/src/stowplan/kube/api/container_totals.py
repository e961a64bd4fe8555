"""Total resources of a pod's containers, and the QoS class.

Works on JSON, as defaults and validation do; `stowplan.kube.api.pod_requests` does the same on the scheduler's structs.

Upstream: k8s.io/component-helpers/resource/helpers.go, pkg/apis/core/helper/qos.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stowplan.kube.api.meta import QuantityValue
from stowplan.kube.api.quantity import Format, format_quantity, parse_quantity, read_quantity

JsonObject = dict[str, Any]
BEST_EFFORT, BURSTABLE, GUARANTEED = "BestEffort", "Burstable", "Guaranteed"


def _named(container: JsonObject, kind: str) -> dict[str, QuantityValue]:
    return (container.get("resources") or {}).get(kind) or {}


def container_totals(spec: JsonObject, kind: str) -> dict[str, int]:
    """Total "requests" or "limits" by name, in nano-units: sidecars are added, other init containers set a minimum."""
    total: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _named(container, kind))
    for container in spec.get("initContainers") or ():
        resources = _named(container, kind)
        if container.get("restartPolicy") == "Always":
            _add(total, resources)
            _add(sidecars, resources)
            _raise_to(peak, sidecars)
        else:
            stage = dict(sidecars)
            _add(stage, resources)
            _raise_to(peak, stage)
    _raise_to(total, peak)
    return total


def total_texts(spec: JsonObject, kind: str) -> dict[str, str]:
    """The totals as quantities, in the format used by the first container that names the resource."""
    formats: dict[str, Format] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for name, value in _named(container, kind).items():
            formats.setdefault(name, read_quantity(value).format)
    return {name: format_quantity(nano, formats[name]) for name, nano in container_totals(spec, kind).items()}


def _add(total: dict[str, int], resources: dict[str, QuantityValue]) -> None:
    for name, value in resources.items():
        total[name] = total.get(name, 0) + parse_quantity(value)


def _raise_to(total: dict[str, int], other: dict[str, int]) -> None:
    for name, nano in other.items():
        if nano > total.get(name, -1):
            total[name] = nano


def qos_class(spec: JsonObject) -> str:
    """Guaranteed if every container's cpu and memory are limited and requested to the same amount."""
    if spec.get("resources") is not None:
        holders: Iterable[JsonObject] = (spec,)
    else:
        holders = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    for holder in holders:
        _add_compute(requests, _named(holder, "requests"))
        own = _named(holder, "limits")
        guaranteed = _add_compute(limits, own) == 2 and guaranteed
    if not requests and not limits:
        return BEST_EFFORT
    return GUARANTEED if guaranteed and requests == limits else BURSTABLE


def _add_compute(total: dict[str, int], resources: dict[str, QuantityValue]) -> int:
    """Add cpu and memory to the total; return how many of the two are set and not zero."""
    found = 0
    for name in ("cpu", "memory"):
        if name in resources and (nano := parse_quantity(resources[name])) > 0:
            total[name] = total.get(name, 0) + nano
            found += 1
    return found
