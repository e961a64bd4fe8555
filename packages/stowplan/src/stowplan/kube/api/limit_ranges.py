"""What a LimitRange adds to the pods of its namespace, and which pods and claims it does not allow.

Works on JSON, in place, as defaults do.

Left out: resources of pods as a whole (`spec.resources`), updates.

Upstream: plugin/pkg/admission/limitranger, pkg/apis/core/v1/defaults.go (SetDefaults_LimitRangeItem).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stowplan.kube.api.container_totals import JsonObject, container_totals
from stowplan.kube.api.meta import QuantityValue
from stowplan.kube.api.quantity import NANO, Format, format_quantity, parse_quantity

_CONTAINER, _POD, _CLAIM = "Container", "Pod", "PersistentVolumeClaim"
_ANNOTATION = "kubernetes.io/limit-ranger"
#: Decimals of a ratio in messages.
_DECIMALS = 6

Amounts = Mapping[str, QuantityValue]


def default_limit_range(obj: JsonObject) -> None:
    """Defaults of the LimitRange itself: of containers, each amount follows from the one that is larger."""
    for item in (obj.get("spec") or {}).get("limits") or ():
        if item.get("type") != _CONTAINER:
            continue
        default, request = dict(item.get("default") or {}), dict(item.get("defaultRequest") or {})
        for name, amount in (item.get("max") or {}).items():
            default.setdefault(name, amount)
        for name, amount in (*default.items(), *(item.get("min") or {}).items()):
            request.setdefault(name, amount)
        item |= {key: value for key, value in (("default", default), ("defaultRequest", request)) if value}


def add_defaults(limit_ranges: Sequence[JsonObject], pod: JsonObject) -> None:
    """Requests and limits that containers do not have; the pod's annotation says which."""
    for limit_range in limit_ranges:
        limits = _merged(limit_range, "default")
        requests = _merged(limit_range, "defaultRequest")
        notes = []
        for kind, name in (("container", "containers"), ("init container", "initContainers")):
            for container in pod["spec"].get(name) or ():
                notes += _add(container, "requests", requests, f"request for {kind}")
                notes += _add(container, "limits", limits, f"limit for {kind}")
        if notes:
            annotations = pod.setdefault("metadata", {}).setdefault("annotations", {})
            annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _merged(limit_range: JsonObject, field: str) -> dict[str, QuantityValue]:
    found: dict[str, QuantityValue] = {}
    for item in _items(limit_range, _CONTAINER):
        found |= item.get(field) or {}
    return found


def _add(container: JsonObject, field: str, defaults: Amounts, what: str) -> list[str]:
    resources = container.get("resources") or {}
    known = resources.get(field) or {}
    missing = {name: amount for name, amount in defaults.items() if name not in known}
    if not missing:
        return []
    container["resources"] = {**resources, field: {**known, **missing}}
    return [f"{', '.join(sorted(missing))} {what} {container.get('name', '')}"]


def problems_of_pod(limit_ranges: Sequence[JsonObject], pod: JsonObject) -> str:
    """Why the pod may not be created; "": it may."""
    spec = pod["spec"]
    found: list[str] = []
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    for limit_range in limit_ranges:
        for item in _items(limit_range, _CONTAINER):
            for container in containers:
                resources = container.get("resources") or {}
                found += _problems(item, _parsed(resources.get("requests")), _parsed(resources.get("limits")))
        for item in _items(limit_range, _POD):
            found += _problems(item, container_totals(spec, "requests"), container_totals(spec, "limits"))
    return _joined(found)


def problems_of_claim(limit_ranges: Sequence[JsonObject], claim: JsonObject) -> str:
    requests = _parsed(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
    found: list[str] = []
    for limit_range in limit_ranges:
        for item in _items(limit_range, _CLAIM):
            found += [
                problem for name, least in _named(item, "min") if (problem := _below(item, name, least, requests))
            ]
            for name, most in _named(item, "max"):
                found += _above(item, name, most, "request", requests)
    return _joined(found)


def _items(limit_range: JsonObject, type_: str) -> list[JsonObject]:
    return [item for item in (limit_range.get("spec") or {}).get("limits") or () if item.get("type") == type_]


def _problems(item: JsonObject, requests: Mapping[str, int], limits: Mapping[str, int]) -> Iterator[str]:
    for name, least in _named(item, "min"):
        if problem := _below(item, name, least, requests):
            yield problem
        elif name in limits and limits[name] < least:
            yield f"minimum {_of(item, name, least)}, but limit is {_text(name, limits[name])}"
    for name, most in _named(item, "max"):
        over = [*_above(item, name, most, "limit", limits)]
        yield from over or (_above(item, name, most, "request", requests) if name in requests else ())
    for name, ratio in _named(item, "maxLimitRequestRatio"):
        yield from _over_ratio(item, name, ratio, requests.get(name, 0), limits.get(name, 0))


def _below(item: JsonObject, name: str, least: int, requests: Mapping[str, int]) -> str:
    if name not in requests:
        return f"minimum {_of(item, name, least)}.  No request is specified"
    below = requests[name] < least
    return f"minimum {_of(item, name, least)}, but request is {_text(name, requests[name])}" if below else ""


def _above(item: JsonObject, name: str, most: int, what: str, amounts: Mapping[str, int]) -> Iterator[str]:
    if name not in amounts:
        yield f"maximum {_of(item, name, most)}.  No {what} is specified"
    elif amounts[name] > most:
        yield f"maximum {_of(item, name, most)}, but {what} is {_text(name, amounts[name])}"


def _over_ratio(item: JsonObject, name: str, ratio: int, request: int, limit: int) -> Iterator[str]:
    about = f"{name} max limit to request ratio per {item['type']} is {format_quantity(ratio, Format.DECIMAL_SI)}"
    if not request:
        yield f"{about}, but no request is specified or request is 0"
    elif not limit:
        yield f"{about}, but no limit is specified or limit is 0"
    elif limit * NANO > request * ratio:
        yield f"{about}, but provided ratio is {limit / request:.{_DECIMALS}f}"


def _of(item: JsonObject, name: str, amount: int) -> str:
    return f"{name} usage per {item['type']} is {_text(name, amount)}"


def _named(item: JsonObject, field: str) -> list[tuple[str, int]]:
    return sorted(_parsed(item.get(field)).items())


def _parsed(amounts: Any) -> dict[str, int]:
    return {name: parse_quantity(amount) for name, amount in (amounts or {}).items()}


def _text(name: str, nano: int) -> str:
    binary = name in ("memory", "ephemeral-storage", "storage") or name.startswith("hugepages-")
    return format_quantity(nano, Format.BINARY_SI if binary else Format.DECIMAL_SI)


def _joined(problems: Sequence[str]) -> str:
    """As an aggregate of errors: in brackets, if there are several."""
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""
