"""Which request of which claim fails on a node, and why: as data (`RequestProblem`), and as text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from stowplan.api.node_selectors import compile_node_selector
from stowplan.api.quantity import Format, format_quantity
from stowplan.api.taints import untolerated
from stowplan.api.types import DeviceClass, ResourceClaim
from stowplan.cel.device_selectors import compile_selector
from stowplan.cel.errors import CelError
from stowplan.framework.explanations.explanation import Explanation
from stowplan.framework.explanations.formatting import count, joined, sentence, taint_text
from stowplan.in_tree.dynamic_resources.allocator.devices import PoolState
from stowplan.in_tree.dynamic_resources.allocator.search import Search, Verdict
from stowplan.in_tree.dynamic_resources.allocator.selectors import Budget, SelectorVerdicts
from stowplan.in_tree.dynamic_resources.answers import NODE_STEPS
from stowplan.in_tree.dynamic_resources.demand import RefusedError, claim_key
from stowplan.in_tree.dynamic_resources.plugin import NOT_ALLOCATABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.api.affinity import Taint
    from stowplan.cel.device_selectors import Read
    from stowplan.framework.explanations.explanation import Mask, Rows
    from stowplan.framework.explanations.inspection import Inspection
    from stowplan.framework.explanations.remedy import Remedy
    from stowplan.framework.status import Reason
    from stowplan.in_tree.dynamic_resources.allocator.claims import Claim, Wanted
    from stowplan.in_tree.dynamic_resources.allocator.devices import PooledDevice, PoolView, World
    from stowplan.in_tree.dynamic_resources.plugin import DynamicResources

#: Values and names that are spelled out; nodes that are summed up, and that other nodes' devices are compared with.
_SHOWN, _SUMMED_UP, _TRIED_NODES = 4, 64, 8


class Kind(Enum):
    NO_DEVICES = "NoDevices"
    NONE_MATCHES = "NoDeviceMatches"
    TAINTED = "DevicesTainted"
    TAKEN = "DevicesTaken"
    COUNTERS_SPENT = "CountersSpent"
    NO_CAPACITY = "CapacitySpent"
    CONSTRAINT = "ConstraintNotMet"
    TOO_FEW = "TooFewDevices"


def amount_text(amount: int) -> str:
    """An amount as a quantity, by powers of 1024 where that is shorter."""
    return min((format_quantity(amount, format_) for format_ in (Format.DECIMAL_SI, Format.BINARY_SI)), key=len)


class Lacking(NamedTuple):
    """A counter or capacity that does not suffice, in units of 10^-9."""

    name: str
    wanted: int
    left: int

    def __str__(self) -> str:
        return f"{self.name} ({amount_text(self.wanted)} wanted, {amount_text(max(0, self.left))} left)"


@dataclass(frozen=True, slots=True)
class RequestProblem:
    """Why a request cannot be satisfied on a node."""

    kind: Kind
    claim: str
    #: "": it is not about one request.
    request: str = ""
    #: Devices that the node reaches; those of them that the selectors admit; and how many are wanted.
    devices: int = 0
    matching: int = 0
    wanted: int = 0
    #: Attribute or capacity that selectors ask about -> the values that devices have.
    values: tuple[tuple[str, tuple[str, ...]], ...] = ()
    #: Claims that have matching devices.
    holders: tuple[str, ...] = ()
    #: Taints, counters or attributes that are in the way.
    names: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    #: Counters or capacities of which there is too little.
    lacking: tuple[Lacking, ...] = ()

    def __str__(self) -> str:
        where = f"request {self.request} of claim {self.claim}" if self.request else f"claim {self.claim}"
        return f"{where}: {self._what()}"

    def _what(self) -> str:
        matching = count(self.matching, "matching device")
        if self.kind is Kind.NO_DEVICES:
            return "the node has no devices"
        if self.kind is Kind.NONE_MATCHES:
            seen = "; ".join(f"{name} is {_some(values)}" for name, values in self.values)
            return f"none of {count(self.devices, 'device')} matches" + (f" ({seen})" if seen else "")
        if self.kind is Kind.TAINTED:
            return f"{matching}, all with taints that are not tolerated: {_some(self.names)}"
        if self.kind is Kind.TAKEN:
            return f"{self.wanted} wanted, and of {matching} too many are allocated to {_some(self.holders)}"
        if self.kind is Kind.COUNTERS_SPENT:
            return f"{matching}, and too little is left of counter {_some(tuple(map(str, self.lacking)))}"
        if self.kind is Kind.NO_CAPACITY:
            short = f": {_some(tuple(map(str, self.lacking)))}" if self.lacking else ""
            return f"{matching}, none with enough capacity left{short}"
        if self.kind is Kind.CONSTRAINT:
            return f"no devices together meet the constraint on {_some(self.names)}"
        return f"{self.wanted} wanted, {matching}" if self.request else "its requests cannot all be met at once"


class DynamicResourcesExplanation(Explanation):
    def __init__(self, inspection: Inspection, plugin: DynamicResources) -> None:
        super().__init__(inspection)
        self._plugin = plugin
        self._verdicts = SelectorVerdicts(list_attributes=plugin.features.list_attributes)
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
                yield f"claim {claim_key(claim)} has {_some(tuple(devices))}, not usable from here"

    def _invalid(self, row: int) -> Iterator[str]:
        for view, _ in self._plugin.inventory.world(row).pools:
            if view.state is PoolState.INVALID:
                yield f"pool {view.driver}/{view.name} is invalid: {view.problem}"

    def summary(self, rows: Rows, reason: Reason) -> str:
        """Nodes that fail alike are told of together: with every node's own words a line would have no end."""
        if reason.code != "CannotAllocateClaims":
            return super().summary(rows, reason)
        alike: dict[tuple[Kind, str, str], list[RequestProblem]] = {}
        for row in rows[:_SUMMED_UP].tolist():
            for problem in self.problems(row):
                alike.setdefault((problem.kind, problem.claim, problem.request), []).append(problem)
        parts = sorted((_together(problems) for problems in alike.values()), key=lambda part: -part[0])
        if len(parts) == 1:
            return str(parts[0][1]) + (", …" if len(rows) > _SUMMED_UP else "")
        return sentence(f"{count(number, 'node')}: {problem}" for number, problem in parts)

    def obstacles(self) -> Iterator[str]:
        """What nodes would have to be added, where those that are there have what is wanted and it is taken."""
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
        asked = [self._plugin.demands.compiled(claim).asked for claim in self.waiting]
        claims = tuple(claim for claim in asked if claim is not None)
        if not claims or len(claims) < len(asked):
            return False
        return self._fits(claims, self._plugin.inventory.unused_world(row))

    def remedy(self, mask: Mask) -> Remedy:
        from stowplan.in_tree.dynamic_resources.remedies import DeviceRemedy

        return DeviceRemedy(self, mask)

    @property
    def waiting(self) -> list[ResourceClaim]:
        """The pod's claims that have no devices."""
        return [claim for claim in self._claims if claim.status.allocation is None]

    def classes_that_fit(self, claim: ResourceClaim, request: str, row: int) -> Iterator[DeviceClass]:
        """Other classes of which a node has devices that the request would take."""
        world = self._plugin.inventory.world(row)
        for device_class in sorted(self.inspection.cluster.objects.all(DeviceClass), key=lambda c: c.metadata.name):
            changed = with_request(claim, request, device_class_name=device_class.metadata.name)
            asked = self._plugin.demands.compiled(changed).asked if changed is not None else None
            if changed is not claim and asked is not None and self._fits((asked,), world):
                yield device_class

    # -- requests -----------------------------------------------------------------------------------------------------

    def problems(self, row: int) -> list[RequestProblem]:
        """Why the pod's claims cannot be allocated on a node; empty if that is not known."""
        world = self._plugin.inventory.world(row)
        found: list[RequestProblem] = []
        for claim in self.waiting:
            asked = self._plugin.demands.compiled(claim).asked
            if asked is not None and not self._fits((asked,), world):
                found.append(self._problem_of(claim, asked, world))
        return found

    def _fits(self, claims: tuple[Claim, ...], world: World) -> bool:
        search = Search(claims, world, features=self._plugin.features, verdicts=self._verdicts)
        answer = search.run(Budget(NODE_STEPS))
        return answer is not None and answer.verdict is Verdict.FOUND

    def _problem_of(self, claim: ResourceClaim, asked: Claim, world: World) -> RequestProblem:
        key = claim_key(claim)
        for request in asked.requests:
            alone = asked._replace(requests=(request,), constraints=())
            if not self._fits((alone,), world):
                return self._of_request(key, request.alternatives[-1], world)
        if self._fits((asked._replace(constraints=()),), world):
            return RequestProblem(Kind.CONSTRAINT, key, names=tuple(sorted({c.attribute for c in asked.constraints})))
        return RequestProblem(Kind.TOO_FEW, key)

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
            return replace(base, kind=Kind.TAINTED, names=_distinct(map(taint_text, tainted)), taints=taints)
        holders = self._holders(matching)
        if holders:
            return replace(base, kind=Kind.TAKEN, holders=holders)
        lacking = self._spent(world, [d for _, d in matching])
        if lacking:
            names = tuple(counter.name for counter in lacking)
            return replace(base, kind=Kind.COUNTERS_SPENT, names=names, lacking=lacking)
        if len(matching) >= wanted.amount and any(d.content.capacities for _, d in matching):
            return replace(base, kind=Kind.NO_CAPACITY, lacking=self._without_capacity(wanted, world))
        return base

    def _admits(self, wanted: Wanted, device: PooledDevice) -> bool:
        return self._verdicts.judge(wanted, device.content, Budget(NODE_STEPS)) is True

    def _holders(self, matching: list[tuple[PoolView, PooledDevice]]) -> tuple[str, ...]:
        holders = self._plugin.inventory.holders
        return _distinct(h for view, d in matching for h in holders((view.driver, view.name), d.name))

    def _spent(self, world: World, matching: list[PooledDevice]) -> tuple[Lacking, ...]:
        """Counters of which matching devices want more than is left: by what the least of them wants."""
        found: dict[str, Lacking] = {}
        contents = {device.content for device in matching}
        for view, usage in world.pools:
            left = dict(usage.counters)
            for device in view.devices:
                for counter, amount in device.content.consumes if device.content in contents else ():
                    name, rest = "/".join(counter), left.get(counter, 0)
                    if rest < amount and (name not in found or amount < found[name].wanted):
                        found[name] = Lacking(name, amount, rest)
        return tuple(found.values())

    def _without_capacity(self, wanted: Wanted, world: World) -> tuple[Lacking, ...]:
        """Capacities of which the request wants more than any matching device has left."""
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
            Lacking(name, asked[name], left) for name, left in sorted(most.items()) if asked.get(name, 0) > left
        )

    def _values(self, wanted: Wanted, devices: list[PooledDevice]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """What devices have of the attributes that the selectors read."""
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


def _value(read: Read, device: PooledDevice) -> str | None:
    """What a device has of an attribute or a capacity."""
    for key in (f"{read.domain}/{read.name}", read.name):
        if read.kind == "attributes" and key in device.content.attributes:
            value = device.content.attributes[key]
            return str(getattr(value, "text", value))
        if read.kind == "capacity" and key in device.device.capacity:
            return str(device.device.capacity[key].value)
    return None


def _together(problems: list[RequestProblem]) -> tuple[int, RequestProblem]:
    """Problems of the same kind with the same request on several nodes, as one."""
    values: dict[str, dict[str, None]] = {}
    for problem in problems:
        for name, of_node in problem.values:
            values.setdefault(name, {}).update(dict.fromkeys(of_node))
    merged = replace(
        problems[0],
        devices=max(problem.devices for problem in problems),
        matching=max(problem.matching for problem in problems),
        values=tuple((name, tuple(found)) for name, found in values.items()),
        holders=_distinct(holder for problem in problems for holder in problem.holders),
        names=_distinct(name for problem in problems for name in problem.names),
    )
    return len(problems), merged


def with_request(claim: ResourceClaim, request: str, **fields: Any) -> ResourceClaim | None:
    """The claim with other values in one of its exact requests; None if it has no such request."""
    devices = claim.spec.devices
    found = next((r for r in devices.requests if r.name == request), None)
    if found is None or found.exactly is None:
        return None
    changed = msgspec.structs.replace(found, exactly=msgspec.structs.replace(found.exactly, **fields))
    requests = tuple(changed if r is found else r for r in devices.requests)
    spec = msgspec.structs.replace(claim.spec, devices=msgspec.structs.replace(devices, requests=requests))
    return msgspec.structs.replace(claim, spec=spec)


def _distinct(names: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _some(names: tuple[str, ...]) -> str:
    return joined(names) if len(names) <= _SHOWN else f"{', '.join(names[:_SHOWN])}, …"
