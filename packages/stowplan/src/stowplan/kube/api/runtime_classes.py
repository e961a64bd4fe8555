"""What a RuntimeClass adds to its pods: overhead, a node selector and tolerations.

Works on JSON, in place, as defaults do.

Upstream: plugin/pkg/admission/runtimeclass, pkg/util/tolerations.
"""

from __future__ import annotations

from stowplan.kube.api.container_totals import JsonObject
from stowplan.kube.api.quantity import parse_quantity


def name_of_class(pod: JsonObject) -> str:
    name: str = pod["spec"].get("runtimeClassName") or ""
    return name


def apply_class(runtime_class: JsonObject | None, pod: JsonObject) -> str:
    """Add what its class defines; why the pod may not be created, or "". None: there is no class of that name."""
    spec, name = pod["spec"], name_of_class(pod)
    if name and runtime_class is None:
        return f'pod rejected: RuntimeClass "{name}" not found'
    of_class = runtime_class or {}
    overhead = (of_class.get("overhead") or {}).get("podFixed") or {}
    given = spec.get("overhead") or {}
    # Negative amounts are left to validation, which comes first.
    if given and not overhead and min(_parsed(given).values()) >= 0:
        return "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    if given and overhead and _parsed(given) != _parsed(overhead):
        return "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    if overhead:
        spec["overhead"] = dict(overhead)
    return _schedule(spec, of_class.get("scheduling") or {})


def _schedule(spec: JsonObject, scheduling: JsonObject) -> str:
    wanted, given = scheduling.get("nodeSelector") or {}, spec.get("nodeSelector") or {}
    for key, value in wanted.items():
        if given.get(key, value) != value:
            of_class = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            return f"conflict: {of_class}; pod.spec.nodeSelector[{key}] = {given[key]}"
    if wanted:
        spec["nodeSelector"] = {**given, **wanted}
    tolerations = spec.get("tolerations") or []
    if added := [one for one in scheduling.get("tolerations") or () if one not in tolerations]:
        spec["tolerations"] = [*tolerations, *added]
    return ""


def _parsed(amounts: JsonObject) -> dict[str, int]:
    return {name: parse_quantity(amount) for name, amount in amounts.items()}
