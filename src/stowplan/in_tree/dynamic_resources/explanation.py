"""Which request of which claim fails on a node, and why: as data (`RequestProblem`), and as text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stowplan.api.device_claims import ResourceClaimStatus
from stowplan.api.node_selectors import compile_node_selector
from stowplan.api.taints import untolerated
from stowplan.api.types import ResourceClaim
from stowplan.cel.device_selectors import compile_selector
from stowplan.cel.errors import CelError
from stowplan.framework.explanations.changes import Change, move
from stowplan.framework.explanations.explanation import Explanation
from stowplan.framework.explanations.formatting import count, joined, sentence, taint_text
from stowplan.framework.explanations.remedy import Remedy
from stowplan.in_tree.dynamic_resources.allocator.devices import PoolState
from stowplan.in_tree.dynamic_resources.allocator.search import Search, Verdict
from stowplan.in_tree.dynamic_resources.allocator.selectors import Budget, SelectorVerdicts
from stowplan.in_tree.dynamic_resources.answers import NODE_STEPS
from stowplan.in_tree.dynamic_resources.demand import RefusedError, claim_key
from stowplan.in_tree.dynamic_resources.plugin import NOT_ALLOCATABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.cel.device_selectors import Read
    from stowplan.framework.explanations.changes import Way
    from stowplan.framework.explanations.explanation import Mask, Rows
    from stowplan.framework.explanations.inspection import Inspection
    from stowplan.framework.status import Reason
    from stowplan.in_tree.dynamic_resources.allocator.claims import Claim, Wanted
    from stowplan.in_tree.dynamic_resources.allocator.devices import PooledDevice, PoolView, World
    from stowplan.in_tree.dynamic_resources.plugin import DynamicResources

#: Values and names that are spelled out; nodes that remedies are looked for on.
_SHOWN, _TRIED_NODES = 4, 8


class Kind(Enum):
    NO_DEVICES = "NoDevices"
    NONE_MATCHES = "NoDeviceMatches"
    TAINTED = "DevicesTainted"
    TAKEN = "DevicesTaken"
    COUNTERS_SPENT = "CountersSpent"
    NO_CAPACITY = "CapacitySpent"
    CONSTRAINT = "ConstraintNotMet"
    TOO_FEW = "TooFewDevices"


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
            return f"{matching}, and too little is left of counter {_some(self.names)}"
        if self.kind is Kind.NO_CAPACITY:
            return f"{matching}, none with enough capacity left"
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

    def remedy(self, mask: Mask) -> Remedy:
        return _GiveBack(self, mask)

    # -- requests -----------------------------------------------------------------------------------------------------

    def problems(self, row: int) -> list[RequestProblem]:
        """Why the pod's claims cannot be allocated on a node; empty if that is not known."""
        world = self._plugin.inventory.world(row)
        waiting = [claim for claim in self._claims if claim.status.allocation is None]
        found: list[RequestProblem] = []
        for claim in waiting:
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
            return replace(base, kind=Kind.TAINTED, names=_distinct(map(taint_text, tainted)))
        holders = self._holders(matching)
        if holders:
            return replace(base, kind=Kind.TAKEN, holders=holders)
        spent = self._spent(world)
        if spent and any(d.content.consumes for _, d in matching):
            return replace(base, kind=Kind.COUNTERS_SPENT, names=spent)
        if len(matching) >= wanted.amount and any(d.content.capacities for _, d in matching):
            return replace(base, kind=Kind.NO_CAPACITY)
        return base

    def _admits(self, wanted: Wanted, device: PooledDevice) -> bool:
        return self._verdicts.judge(wanted, device.content, Budget(NODE_STEPS)) is True

    def _holders(self, matching: list[tuple[PoolView, PooledDevice]]) -> tuple[str, ...]:
        holders = self._plugin.inventory.holders
        return _distinct(h for view, d in matching for h in holders((view.driver, view.name), d.name))

    def _spent(self, world: World) -> tuple[str, ...]:
        """Counters of which devices want more than is left."""
        found = []
        for view, usage in world.pools:
            left = dict(usage.counters)
            for device in view.devices:
                for counter, amount in device.content.consumes:
                    if left.get(counter, 0) < amount:
                        found.append("/".join(counter))
        return _distinct(iter(found))

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


class _GiveBack(Remedy):
    """Pods leave that have the devices: each of the first refused nodes by itself, one claim at a time."""

    def __init__(self, explanation: DynamicResourcesExplanation, mask: Mask) -> None:
        super().__init__(explanation.inspection, mask)
        self._explanation = explanation
        refused = self.inspection.refused_for("DynamicResources", NOT_ALLOCATABLE) & mask
        for row in np.flatnonzero(refused)[:_TRIED_NODES]:
            self.add_class(np.array([row], np.intp))

    def ways(self, kind: int, rows: Rows) -> list[Way]:
        problems = self._explanation.problems(int(rows[0]))
        if len(problems) != 1:
            return []
        objects = self.inspection.cluster.objects
        claims = (objects.get(ResourceClaim, key) for key in problems[0].holders[:_SHOWN])
        return [(self._given_back(claim),) for claim in claims if claim is not None]

    def _given_back(self, claim: ResourceClaim) -> Change:
        """On a cluster, a controller deallocates a claim when its last user is gone."""
        key, free = claim_key(claim), msgspec.structs.replace(claim, status=ResourceClaimStatus())
        uids = (user.uid for user in claim.status.reserved_for)
        users = [info for uid in uids if (info := self.inspection.cluster.placed(uid)) is not None]
        if users:
            moved = move(users)
            return replace(moved, text=f"{moved.text}, which gives back the devices of claim {key}", objects=(free,))
        return Change("claims", f"deallocate claim {key}, which no placed pod uses", {"claims": [key]}, objects=(free,))


def _value(read: Read, device: PooledDevice) -> str | None:
    """What a device has of an attribute or a capacity."""
    for key in (f"{read.domain}/{read.name}", read.name):
        if read.kind == "attributes" and key in device.content.attributes:
            value = device.content.attributes[key]
            return str(getattr(value, "text", value))
        if read.kind == "capacity" and key in device.device.capacity:
            return str(device.device.capacity[key].value)
    return None


def _distinct(names: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _some(names: tuple[str, ...]) -> str:
    return joined(names) if len(names) <= _SHOWN else f"{', '.join(names[:_SHOWN])}, …"
