"""Explain which request of which claim fails on a node, and why.

Each claim is checked alone first, and within it each request. If each can be allocated alone, the last one that cannot
be allocated together with the others is reported. Extended resources backed by devices are reported by their own names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from stowplan.kube.api.device_claims import DeviceSubRequest, ExactDeviceRequest
from stowplan.kube.api.node_selectors import compile_node_selector
from stowplan.kube.api.taints import untolerated
from stowplan.kube.api.types import DeviceClass, ResourceClaim
from stowplan.kube.cel.cel_errors import CelError
from stowplan.kube.cel.device_selectors import Read, compile_selector
from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.explanations.explanation import Explanation
from stowplan.scheduler.framework.explanations.formatting import count, sentence, taint_text
from stowplan.scheduler.framework.explanations.inspection import Inspection
from stowplan.scheduler.framework.explanations.remedy import Remedy
from stowplan.scheduler.framework.status import Reason
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import ClaimDemand, Wanted
from stowplan.scheduler.in_tree.dynamic_resources.allocator.devices import PooledDevice, PoolState, PoolView, World
from stowplan.scheduler.in_tree.dynamic_resources.allocator.search import Search, Verdict
from stowplan.scheduler.in_tree.dynamic_resources.allocator.selectors import Budget, SelectorVerdicts
from stowplan.scheduler.in_tree.dynamic_resources.answers import NODE_STEPS
from stowplan.scheduler.in_tree.dynamic_resources.demand import RefusedError, claim_key
from stowplan.scheduler.in_tree.dynamic_resources.extended_resources import in_memory_claim
from stowplan.scheduler.in_tree.dynamic_resources.plugin import NOT_ALLOCATABLE, DynamicResources
from stowplan.scheduler.in_tree.dynamic_resources.request_problems import (
    Insufficient,
    Kind,
    RequestProblem,
    distinct,
    some,
    together,
)

#: Limits: nodes summarized, and nodes whose devices others are compared with.
_SUMMED_UP, _TRIED_NODES = 64, 8


class _Asked(NamedTuple):
    """An unallocated claim."""

    claim: ResourceClaim
    asked: ClaimDemand
    #: Request -> its extended resource, for a generated claim.
    resources: Mapping[str, str] = {}


class DynamicResourcesExplanation(Explanation):
    def __init__(self, inspection: Inspection, plugin: DynamicResources) -> None:
        super().__init__(inspection)
        self._plugin = plugin
        self._verdicts = SelectorVerdicts(lists=plugin.features.lists_in_selectors)
        plugin.inventory.refresh()
        try:
            self._claims = plugin.demands.claims(inspection.pod)
        except RefusedError:
            self._claims = []

    def detail(self, row: int, reason: Reason) -> str:
        if reason.code == "CannotAllocateClaims":
            return sentence(str(problem) for problem in self.problems(row))
        if reason.code == "ResourceClaimUnavailable":
            return sentence(self._elsewhere(row))
        if reason.code == "InvalidResourcePools":
            return sentence(self._invalid(row))
        return ""

    def _elsewhere(self, row: int) -> Iterator[str]:
        labels, name = self.inspection.node(row).metadata.labels, self.inspection.names[row]
        for claim in self._claims:
            allocation = claim.status.allocation
            if allocation is None or allocation.node_selector is None:
                continue
            if not compile_node_selector(allocation.node_selector).matches(labels, name):
                devices = [f"{r.pool}/{r.device}" for r in allocation.devices.results]
                yield f"claim {claim_key(claim)} has {some(tuple(devices))}, not usable from here"

    def _invalid(self, row: int) -> Iterator[str]:
        for view, _ in self._plugin.inventory.world(row).pools:
            if view.state is PoolState.INVALID:
                yield f"pool {view.driver}/{view.name} is invalid: {view.problem}"

    def summary(self, rows: Rows, reason: Reason) -> str:
        """Summarize nodes with the same problem; listing every node's details would be too long."""
        if reason.code != "CannotAllocateClaims":
            return super().summary(rows, reason)
        alike: dict[tuple[Kind, str, str], list[RequestProblem]] = {}
        for row in rows[:_SUMMED_UP].tolist():
            for problem in self.problems(row):
                alike.setdefault((problem.kind, problem.claim, problem.request), []).append(problem)
        parts = sorted((together(problems) for problems in alike.values()), key=lambda part: -part[0])
        if len(parts) == 1:
            return str(parts[0][1]) + (", …" if len(rows) > _SUMMED_UP else "")
        return sentence(f"{count(number, 'node')}: {problem}" for number, problem in parts)

    def obstacles(self) -> Iterator[str]:
        """The nodes to add, if existing nodes have suitable devices that are in use."""
        refused = np.flatnonzero(self.inspection.refused_for("DynamicResources", NOT_ALLOCATABLE))
        if not len(refused) or len(refused) < self.inspection.cluster.table.count:
            return
        like = next((row for row in refused[:_TRIED_NODES].tolist() if self._would_do(row)), None)
        if like is not None:
            yield f"no node has the devices free; one more node like {self.inspection.names[like]} would have them"
        elif any(problem.kind is Kind.NO_DEVICES for problem in self.problems(int(refused[0]))):
            yield "no node has devices of this kind: a driver has to publish some"

    def _would_do(self, row: int) -> bool:
        """Whether a node with the same devices, all of them free, would satisfy the pod's claims."""
        claims = tuple(one.asked for one in self._asked(row))
        return bool(claims) and self._fits(claims, self._plugin.inventory.unused_world(row))

    def remedy(self, mask: Mask) -> Remedy:
        from stowplan.scheduler.in_tree.dynamic_resources.remedies import DeviceRemedy

        return DeviceRemedy(self, mask)

    @property
    def waiting(self) -> list[ResourceClaim]:
        """The pod's unallocated claims."""
        return [claim for claim in self._claims if claim.status.allocation is None]

    def classes_that_fit(self, claim: ResourceClaim, request: str, row: int) -> Iterator[DeviceClass]:
        """Other device classes with which the request would match devices of a node."""
        world = self._plugin.inventory.world(row)
        for device_class in sorted(self.inspection.cluster.objects.all(DeviceClass), key=lambda c: c.metadata.name):
            changed = with_request(claim, request, device_class_name=device_class.metadata.name)
            asked = self._plugin.demands.compiled(changed).asked if changed is not None else None
            if changed is not claim and asked is not None and self._fits((asked,), world):
                yield device_class

    # -- requests -----------------------------------------------------------------------------------------------------

    def _asked(self, row: int) -> list[_Asked]:
        """The claims to allocate on a node, without those that are invalid on every node."""
        compiled, pod = self._plugin.demands.compiled, self.inspection.pod
        found = [_Asked(claim, asked) for claim in self.waiting if (asked := compiled(claim).asked) is not None]
        try:
            demand = self._plugin.demands.of(pod)
        except (RefusedError, ValueError):
            return found
        if demand.extended is None:
            return found
        view = Nodes(self.inspection.cluster, np.array([row], np.intp))
        served = self._plugin.finding.variant_on(pod, demand, view)
        claim = in_memory_claim(pod, served.devices)
        asked = compiled(claim).asked if served.devices.requests else None
        if asked is not None:
            resources = {mapping.request_name: mapping.resource_name for mapping in served.mappings}
            found.append(_Asked(claim, asked, resources))
        return found

    def problems(self, row: int) -> list[RequestProblem]:
        """Why the pod's claims cannot be allocated on a node; empty if unknown."""
        world, claims = self._plugin.inventory.world(row), self._asked(row)
        found = [self._problem_of(one, (), world) for one in claims if not self._fits((one.asked,), world)]
        if found:
            return found
        for i, one in enumerate(claims):
            if i and not self._fits(tuple(before.asked for before in claims[: i + 1]), world):
                return [self._problem_of(one, claims[:i], world)]
        return []

    def _fits(self, claims: tuple[ClaimDemand, ...], world: World) -> bool:
        search = Search(claims, world, features=self._plugin.features, verdicts=self._verdicts)
        answer = search.run(Budget(NODE_STEPS))
        return answer is not None and answer.verdict is Verdict.FOUND

    def _problem_of(self, one: _Asked, others: Sequence[_Asked], world: World) -> RequestProblem:
        """`others`: claims of the pod in addition to which it cannot be allocated."""
        found = self._problem_beside(one, others, world)
        if not one.resources:
            return found
        return replace(found, claim="", request=one.resources.get(found.request, ""))

    def _problem_beside(self, one: _Asked, others: Sequence[_Asked], world: World) -> RequestProblem:
        key, asked = claim_key(one.claim), one.asked
        beside = tuple(other.asked for other in others)
        free = asked._replace(constraints=())
        if asked.constraints and self._fits((*beside, free), world):
            return RequestProblem(Kind.CONSTRAINT, key, names=tuple(sorted({c.attribute for c in asked.constraints})))
        for request in () if others else asked.requests:
            if not self._fits((free._replace(requests=(request,)),), world):
                *before, last = (self._of_request(key, wanted, world) for wanted in request.alternatives)
                return replace(last, earlier=tuple(before))
        for i, request in enumerate(asked.requests):
            if not self._fits((*beside, free._replace(requests=asked.requests[: i + 1])), world):
                last = self._of_request(key, request.alternatives[-1], world)
                names = tuple(claim_key(other.claim) if not other.resources else "" for other in others)
                return replace(last, kind=Kind.NOT_TOGETHER, names=tuple(filter(None, names)))
        return RequestProblem(Kind.NOT_TOGETHER, key)

    def _of_request(self, claim: str, wanted: Wanted, world: World) -> RequestProblem:
        devices = [(view, device) for view, _ in world.pools for device in view.devices]
        matching = [(view, d) for view, d in devices if d.reachable and self._admits(wanted, d)]

        base = RequestProblem(Kind.TOO_FEW, claim, wanted.full_name, len(devices), len(matching), wanted.amount)
        if not devices:
            return replace(base, kind=Kind.NO_DEVICES)
        if not matching:
            return replace(base, kind=Kind.NONE_MATCHES, values=self._values(wanted, [d for _, d in devices]))
        tainted = [t for _, d in matching if (t := untolerated(d.content.taints, wanted.tolerations))]
        if len(tainted) == len(matching):
            taints = tuple(dict.fromkeys(tainted))
            return replace(base, kind=Kind.TAINTED, names=distinct(map(taint_text, tainted)), taints=taints)
        holders = self._holders(matching)
        if all(d.content.shareable for _, d in matching) and (short := self._without_capacity(wanted, world)):
            return replace(base, kind=Kind.NO_CAPACITY, holders=holders, lacking=short)
        if holders:
            return replace(base, kind=Kind.TAKEN, holders=holders)
        lacking = self._spent(world, [d for _, d in matching])
        if lacking:
            names = tuple(counter.name for counter in lacking)
            holders = self._holders([one for one in devices if _consumes_any(one[1], names)])
            return replace(base, kind=Kind.COUNTERS_SPENT, holders=holders, names=names, lacking=lacking)
        if len(matching) >= wanted.amount and any(d.content.capacities for _, d in matching):
            return replace(base, kind=Kind.NO_CAPACITY, lacking=self._without_capacity(wanted, world))
        return base

    def _admits(self, wanted: Wanted, device: PooledDevice) -> bool:
        return self._verdicts.judge(wanted, device.content, Budget(NODE_STEPS)) is True

    def _holders(self, matching: list[tuple[PoolView, PooledDevice]]) -> tuple[str, ...]:
        holders = self._plugin.inventory.holders
        return distinct(h for view, d in matching for h in holders((view.driver, view.name), d.name))

    def _spent(self, world: World, matching: list[PooledDevice]) -> tuple[Insufficient, ...]:
        """Counters that do not suffice for any matching device: by the smallest consumption."""
        found: dict[str, Insufficient] = {}
        contents = {device.content for device in matching}
        for view, usage in world.pools:
            left = dict(usage.counters)
            for device in view.devices:
                for counter, amount in device.content.consumes if device.content in contents else ():
                    name, rest = "/".join(counter), left.get(counter, 0)
                    if rest < amount and (name not in found or amount < found[name].wanted):
                        found[name] = Insufficient(name, amount, rest)
        return tuple(found.values())

    def _without_capacity(self, wanted: Wanted, world: World) -> tuple[Insufficient, ...]:
        """Capacities of which the request needs more than any matching device has left."""
        most: dict[str, int] = {}
        for view, usage in world.pools:
            shares = {place: dict(consumed) for place, consumed in usage.shares}
            for place, device in enumerate(view.devices):
                if not device.reachable or usage.taken >> place & 1 or not self._admits(wanted, device):
                    continue
                for name, capacity in device.content.capacities.items():
                    left = capacity.value - shares.get(place, {}).get(name, 0)
                    most[name] = max(most.get(name, 0), left)
        asked = dict(wanted.capacity)
        return tuple(
            Insufficient(name, asked[name], left) for name, left in sorted(most.items()) if asked.get(name, 0) > left
        )

    def _values(self, wanted: Wanted, devices: list[PooledDevice]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The devices' values of the attributes that the selectors read."""
        found: dict[str, dict[str, None]] = {}
        for selector in wanted.selectors:
            try:
                reads = compile_selector(selector.expression).reads
            except CelError:
                continue
            for read in sorted(reads, key=lambda r: (r.domain, r.name)):
                for device in devices:
                    value = _value(read, device)
                    if value is not None:
                        found.setdefault(read.name, {})[value] = None
        return tuple((name, tuple(values)) for name, values in found.items())


def _consumes_any(device: PooledDevice, counters: tuple[str, ...]) -> bool:
    return any("/".join(counter) in counters for counter, _ in device.content.consumes)


def _value(read: Read, device: PooledDevice) -> str | None:
    """A device's value of an attribute or a capacity."""
    for key in (f"{read.domain}/{read.name}", read.name):
        if read.kind == "attributes" and key in device.content.attributes:
            value = device.content.attributes[key]
            return str(getattr(value, "text", value))
        if read.kind == "capacity" and key in device.device.capacity:
            return str(device.device.capacity[key].value)
    return None


def request_of(claim: ResourceClaim, name: str) -> ExactDeviceRequest | DeviceSubRequest | None:
    """A request, or an alternative of one (`request/alternative`)."""
    parent, _, alternative = name.partition("/")
    for request in claim.spec.devices.requests:
        if request.name == parent:
            if not alternative:
                return request.exactly
            return next((one for one in request.first_available if one.name == alternative), None)
    return None


def with_request(claim: ResourceClaim, name: str, **fields: Any) -> ResourceClaim | None:
    """The claim with changes in one of its requests or alternatives; None if it has no such request."""
    found = request_of(claim, name)
    if found is None:
        return None
    changed, devices = msgspec.structs.replace(found, **fields), claim.spec.devices
    requests = tuple(
        msgspec.structs.replace(
            request,
            exactly=changed if request.exactly is found else request.exactly,
            first_available=tuple(changed if one is found else one for one in request.first_available),
        )
        for request in devices.requests
    )
    spec = msgspec.structs.replace(claim.spec, devices=msgspec.structs.replace(devices, requests=requests))
    return msgspec.structs.replace(claim, spec=spec)
