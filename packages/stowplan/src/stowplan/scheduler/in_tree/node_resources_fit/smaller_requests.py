"""Compute smaller requests of a pod, as a remedy.

The total is what the scheduler computes: the sum of containers and sidecars, the maximum of init containers, or
pod-level requests instead of both. So more than one number in the manifest may have to change; the largest requests are
reduced first, and no more than needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stowplan.kube.api.pod_requests import pod_requests, to_vector
from stowplan.kube.api.quantity import NANO, Format, format_quantity, parse_quantity, read_quantity
from stowplan.kube.api.types import Container, Pod
from stowplan.scheduler.framework.explanations.changes import Change, with_spec
from stowplan.scheduler.framework.explanations.formatting import amount, joined

replace = msgspec.structs.replace

#: Of all other resources a limit must equal the request.
_MAY_OVERCOMMIT = ("cpu", "memory", "ephemeral-storage")


def smaller_requests(pod: Pod, targets: Mapping[str, int], *, note: str = "", about: str = "") -> Change | None:
    """Reduce the requests to at most these totals (the scheduler's integers); None if that is impossible."""
    now = to_vector(pod_requests(pod))
    try:
        smaller = _shrunk(pod, targets)
    except ValueError:
        return None
    parts = [
        f"{amount(name, total)} {name} instead of {amount(name, now[name])}" if total else f"no {name}"
        for name, total in targets.items()
    ]
    data = {"requests": {name: amount(name, total) for name, total in targets.items()}}

    def edited(changed: Pod) -> Pod:
        # Other changes never modify the values written here.
        spec = smaller.spec
        return with_spec(
            changed,
            resources=spec.resources,
            containers=_requests_from(changed.spec.containers, spec.containers),
            init_containers=_requests_from(changed.spec.init_containers, spec.init_containers),
        )

    text = f"request {joined(parts)}"
    return Change("resources", text, data, edited, note=note, about=about, cost=len(targets), gives_up=True)


def _requests_from(containers: Sequence[Container], smaller: Sequence[Container]) -> tuple[Container, ...]:
    return tuple(replace(c, resources=s.resources) for c, s in zip(containers, smaller, strict=True))


def _shrunk(pod: Pod, targets: Mapping[str, int]) -> Pod:
    for name, total in targets.items():
        limit = total * (NANO // 1000 if name == "cpu" else NANO)
        pod = _with_less(pod, name, limit - parse_quantity(pod.spec.overhead.get(name, 0)))
        if to_vector(pod_requests(pod)).get(name, 0) > total:
            raise ValueError(name)
    return pod


def _with_less(pod: Pod, name: str, limit: int) -> Pod:
    """At most `limit` nano-units in addition to the overhead."""
    if limit < 0:
        raise ValueError(name)
    resources = pod.spec.resources
    if resources is not None and name in resources.requests:
        return with_spec(pod, resources=_set(resources, name, limit))
    containers = list(pod.spec.containers)
    inits = list(pod.spec.init_containers)
    lasting: list[tuple[list[Container], int]] = [(containers, i) for i in range(len(containers))]
    lasting += [(inits, i) for i, c in enumerate(inits) if c.restart_policy == "Always"]
    excess = sum(_request_of(group[i], name) for group, i in lasting) - limit
    for group, i in sorted(lasting, key=lambda at: -_request_of(at[0][at[1]], name)):
        cut = min(excess, _request_of(group[i], name))
        if cut > 0:
            group[i] = _with_request(group[i], name, _request_of(group[i], name) - cut)
            excess -= cut
    beside = 0
    for i, container in enumerate(inits):
        if container.restart_policy == "Always":
            beside += _request_of(container, name)
        elif beside + _request_of(container, name) > limit:
            inits[i] = _with_request(container, name, max(0, limit - beside))
    return with_spec(pod, containers=tuple(containers), init_containers=tuple(inits))


def _request_of(container: Container, name: str) -> int:
    return parse_quantity(container.resources.requests.get(name, 0))


def _with_request(container: Container, name: str, nano: int) -> Container:
    return replace(container, resources=_set(container.resources, name, nano))


def _set(resources: Any, name: str, nano: int) -> Any:
    old = resources.requests.get(name, 0)
    form = read_quantity(old).format if isinstance(old, str) else Format.DECIMAL_SI
    smaller = {name: format_quantity(nano, form)}
    limits = resources.limits
    if name in limits and name not in _MAY_OVERCOMMIT:
        limits = {**limits, **smaller}
    return replace(resources, requests={**resources.requests, **smaller}, limits=limits)
