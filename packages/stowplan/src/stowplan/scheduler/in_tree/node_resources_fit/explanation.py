"""Explain insufficient resources: the shortage per node, pods too large for any node, smaller requests.

A pod's total is what the scheduler computes: the sum of containers and sidecars, the maximum of init containers, or
pod-level requests instead of both. So more than one number in the manifest may have to change; the largest requests are
reduced first, and no more than needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from stowplan.kube.api.pod_requests import pod_requests, to_vector
from stowplan.kube.api.quantity import NANO, Format, format_quantity, parse_quantity, read_quantity
from stowplan.kube.api.types import Container, Pod
from stowplan.scheduler.cluster.arrays import Ints, Mask, Rows
from stowplan.scheduler.framework.explanations.explanation import Columns, Explanation
from stowplan.scheduler.framework.explanations.formatting import amount, joined, sentence
from stowplan.scheduler.framework.explanations.remedy import Change, Refusal, Remedy, Way, classes, split, with_spec
from stowplan.scheduler.framework.status import Code, Reason
from stowplan.scheduler.in_tree.node_resources_fit.plugin import INSUFFICIENT, TOO_MANY_PODS, NodeResourcesFit

_BASE_RESOURCES = ("cpu", "memory", "ephemeral-storage")


class Shortfall(NamedTuple):
    """The shortage of one resource on one node, in the scheduler's integers."""

    resource: str
    lacking: int
    used: int
    allocatable: int

    def __str__(self) -> str:
        of = f"{amount(self.resource, self.used)} of {amount(self.resource, self.allocatable)} in use"
        if not self.allocatable:
            of = "it has none"
        return f"{amount(self.resource, self.lacking)} {self.resource} ({of})"


class NodeResourcesFitExplanation(Explanation):
    obstacles_first = True

    def detail(self, row: int, reason: Reason) -> str:
        table = self.inspection.table
        if reason.code == TOO_MANY_PODS.code:
            return f"{int(table.pod_count[row])} of {int(table.allowed_pods[row])} pods"
        wanted = dict(reason.detail).get("resource")
        return sentence(f"lacks {short}" for short in self.shortfalls(row) if short.resource == wanted)

    def depends_on(self, reason: Reason) -> Columns:
        return [self.inspection.table.allowed_pods]

    def of_group(self, refusal: Refusal) -> str:
        """Names the node with the smallest shortage instead of every amount."""
        short = any(reason.code == INSUFFICIENT.code for reason in refusal.reasons)
        closest = [self._closest(refusal.rows)] if short else []
        others = (reason for reason in refusal.reasons if reason.code != INSUFFICIENT.code)
        return sentence([*closest, *(self.summary(refusal.rows, reason) for reason in others)])

    def reason_text(self, refusal: Refusal) -> str:
        hopeless = refusal.code == Code.UnschedulableAndUnresolvable
        return f"{refusal.text}, even if empty" if hopeless else refusal.text

    def obstacles(self) -> Iterator[str]:
        if NodeResourcesFit.name not in self.inspection.masks:
            return
        table = self.inspection.table
        for resource, requested in self.inspection.pod.shape.requests.items():
            if not requested:
                continue
            index = table.resources.get(resource)
            offered = table.allocatable[index, : table.n] if index is not None else np.zeros(table.n, np.int64)
            largest = int(offered.argmax()) if len(offered) else -1
            if largest < 0 or not offered[largest]:
                yield f"no node offers {resource}"
            elif offered[largest] < requested:
                wanted, has = amount(resource, requested), amount(resource, int(offered[largest]))
                largest_node = f"the largest node ({self.inspection.names[largest]}) offers {has}"
                yield f"too large for every node: asks for {wanted} {resource}, {largest_node}"

    def remedy(self, mask: Mask) -> Remedy:
        return _AskForLess(self, mask)

    # -- shortages -----------------------------------------------------------------------------------------------------

    def shortfalls(self, row: int) -> list[Shortfall]:
        """Requests of the pod that exceed what is free on a node."""
        found, table = [], self.inspection.table
        for resource, requested in self.inspection.pod.shape.requests.items():
            index = table.resources.get(resource)
            allocatable = int(table.allocatable[index, row]) if index is not None else 0
            used = int(table.requested[index, row]) if index is not None else 0
            if 0 < requested > allocatable - used:
                found.append(Shortfall(resource, requested - allocatable + used, used, allocatable))
        return found

    def free(self, resource: str, rows: Rows) -> Ints:
        table = self.inspection.table
        index = table.resources.get(resource)
        if index is None:
            return np.zeros(len(rows), np.int64)
        free: Ints = table.allocatable[index, rows] - table.requested[index, rows]
        return free

    def closest(self, rows: Rows) -> int:
        """The row with the smallest total shortage, relative to the requests."""
        total = np.zeros(len(rows))
        for resource, requested in self.inspection.pod.shape.requests.items():
            if requested > 0:
                total += np.maximum(requested - self.free(resource, rows), 0) / requested
        return int(rows[int(total.argmin())])

    def _closest(self, rows: Rows) -> str:
        row = self.closest(rows)
        lacking = ", ".join(str(short) for short in self.shortfalls(row))
        name = self.inspection.names[row]
        return f"{name} lacks {lacking}" if len(rows) == 1 else f"closest: {name} lacks {lacking}"


class _AskForLess(Remedy):
    """A class for each set of insufficient resources; the smallest shortage determines the new requests."""

    def __init__(self, explanation: NodeResourcesFitExplanation, mask: Mask) -> None:
        super().__init__(explanation.inspection, mask)
        self._explanation = explanation
        table = self.inspection.table
        rows = np.flatnonzero(mask)
        short, possible = [], np.ones(len(rows), np.bool_)
        for resource, requested in self.inspection.pod.shape.requests.items():
            free = explanation.free(resource, rows)
            short.append((free < requested) & (requested > 0))
            # A pod can do without a device, but not without cpu or memory.
            possible &= ~short[-1] | (free > 0 if resource in _BASE_RESOURCES else free >= 0)
        possible &= table.pod_count[rows] < table.allowed_pods[rows]
        lacking = rows[possible]
        for part in split(np.arange(len(lacking)), classes([s[possible] for s in short], len(lacking))):
            self.add_class(lacking[part])

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        row = self._explanation.closest(rows)
        shortfalls = self._explanation.shortfalls(row)
        pod = self.inspection.pod
        targets = {s.resource: pod.shape.requests[s.resource] - s.lacking for s in shortfalls}
        name = self.inspection.names[row]
        note = f"{name} lacks {' and '.join(str(s) for s in shortfalls)}"
        found = smaller_requests(pod.pod, targets, note=note, about=name)
        return [] if found is None else [(found,)]


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
