"""Find devices for claims on one node: the first solution in the reference's order.

Claims are satisfied one after the other, their requests one after the other, with devices in the order of pools, slices
and devices. On failure, the last choice is undone and the next one tried. The search is a state machine with an
explicit stack: it stops when its budget is spent and can be continued with another one.

Repeated attempts of the reference are skipped if their outcome is known: if the rest had no solution with a device, it
has none with any device that is equal for these claims.

Upstream: allocateOne and allocateDevice of allocator_incubating.go. Differences (defects there): `distinctAttribute`
applies to all devices of a request, and a rejected device releases what it took.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, NamedTuple

from stowplan.kube.api.taints import untolerated
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import (
    MAX_DEVICES,
    AttributeConstraint,
    ClaimDemand,
    DerivedAttribute,
    Features,
    Wanted,
)
from stowplan.scheduler.in_tree.dynamic_resources.allocator.devices import (
    Amount,
    CounterId,
    PooledDevice,
    PoolState,
    Values,
    World,
    consumption,
)
from stowplan.scheduler.in_tree.dynamic_resources.allocator.selectors import (
    LOOK,
    Budget,
    BudgetSpentError,
    SelectorError,
    SelectorVerdicts,
)


class DevicePick(NamedTuple):
    """A device for a request."""

    request: int
    alternative: int
    #: Index of the device among all of the node.
    device: int
    #: None: not a share, or of a device without capacities.
    consumed: tuple[tuple[str, Amount], ...] | None


class Verdict(Enum):
    FOUND = auto()
    NONE = auto()
    #: No solution, and some pool of the node is invalid.
    INVALID_POOL = auto()
    #: The attempt has to end.
    ERROR = auto()
    #: The search exceeded its time limit.
    TIMED_OUT = auto()
    #: The search continues with the next portion.
    UNFINISHED = auto()


class Problem(NamedTuple):
    """Why an attempt has to end; names are inserted on access."""

    #: `{claim}`, `{device}` and `{pool}` are placeholders for names.
    template: str
    claim: int = 0
    device: int | None = None
    pool: int | None = None


class SearchResult(NamedTuple):
    verdict: Verdict
    #: For each claim, in the order in which devices were chosen.
    picks: tuple[tuple[DevicePick, ...], ...] = ()
    problem: Problem | None = None


class _Signal(Enum):
    ENTER = auto()
    ADVANCE = auto()
    FAILED = auto()
    #: Too many devices for one claim.
    EXCEEDED = auto()
    SOLVED = auto()


class _Position(NamedTuple):
    claim: int
    request: int = 0
    #: None: no alternative is chosen yet.
    alternative: int | None = None
    #: Number of devices that the request already has.
    taken: int = 0
    #: Index of the first device to try.
    start: int = 0


class _Prepared(NamedTuple):
    wanted: Wanted
    amount: int
    #: For "all devices": these.
    devices: tuple[int, ...]


class _NextClaim:
    """A claim is complete; continue with the next one."""


class _Alternatives:
    """Try one alternative after the other."""

    __slots__ = ("all_exceeded", "position")

    def __init__(self, position: _Position) -> None:
        self.position = position
        self.all_exceeded = True


class _Choice:
    """A device is chosen; try one candidate after the other."""

    __slots__ = ("candidate", "failed", "position", "prepared", "undo")

    def __init__(self, position: _Position, prepared: _Prepared) -> None:
        self.position = position
        self.prepared = prepared
        self.candidate = position.start
        self.undo: _Undo | None = None
        #: Kinds of devices without a solution.
        self.failed: set[Any] | None = None


class _Undo(NamedTuple):
    device: int
    constraints: tuple[Any, ...]
    counted: bool
    held: bool
    #: What its shares consumed in this search before; None: there was none.
    shares: dict[str, Amount] | None


class _BrokenError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.template)
        self.problem = problem


_UNSET: Any = None


class Search:
    """The search for one set of claims in one world."""

    def __init__(
        self, claims: tuple[ClaimDemand, ...], world: World, *, features: Features, verdicts: SelectorVerdicts
    ) -> None:
        self._claims = claims
        self._world = world
        self._features = features
        self._verdicts = verdicts
        self._lay_out()
        self._prepared: list[list[list[_Prepared]]] | None = None
        self._signal = _Signal.ENTER
        self._position = _Position(0)
        self._stack: list[_NextClaim | _Alternatives | _Choice] = []
        self._picks: list[list[DevicePick]] = [[] for _ in claims]
        #: For each claim the states of its constraints: common values, or values taken.
        self._constraints: list[tuple[Any, ...]] = [(_UNSET,) * len(claim.constraints) for claim in claims]
        #: Device -> claims that have it as a whole.
        self._held: dict[int, list[int]] = {}
        #: Device -> consumption by shares chosen in this search.
        self._shares: dict[int, dict[str, Amount]] = {}
        self._needs: dict[Any, dict[str, Amount] | None] = {}
        self._kinds: dict[int, Any] = {}
        #: Steps taken so far.
        self.spent = 0

    def _lay_out(self) -> None:
        self._devices: list[PooledDevice] = []
        self._pool_of: list[int] = []
        self._taken: list[bool] = []
        self._shared: dict[int, dict[str, Amount]] = {}
        self._free: list[dict[CounterId, Amount]] = []
        #: Per pool: counter set -> the groups of each of its devices that is allocated.
        self._groups: list[dict[str, list[frozenset[str]]]] = []
        self._has_groups = self._features.emulated_version >= V1_37
        for i, (view, usage) in enumerate(self._world.pools):
            first = len(self._devices)
            self._devices += view.devices
            self._pool_of += [i] * len(view.devices)
            self._taken += [bool(usage.taken >> k & 1) for k in range(len(view.devices))]
            self._shared.update({first + k: dict(consumed) for k, consumed in usage.shares})
            self._free.append(dict(usage.counters))
            self._groups.append({counter_set: list(groups) for counter_set, groups in usage.groups})
        #: Pools with overcommitted counters: none of their devices that consume counters is available.
        self._overdrawn = [any(amount < 0 for amount in free.values()) for free in self._free]

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, budget: Budget) -> SearchResult | None:
        """The answer; None: the budget is spent, call again to continue."""
        before = budget.left
        self._budget = budget
        try:
            if self._prepared is None:
                self._prepared = [self._prepare(i) for i in range(len(self._claims))]
            while self._signal is not _Signal.SOLVED:
                if self._signal in (_Signal.FAILED, _Signal.EXCEEDED) and not self._stack:
                    invalid = any(view.state is PoolState.INVALID for view, _ in self._world.pools)
                    return SearchResult(Verdict.INVALID_POOL if invalid else Verdict.NONE)
                self._signal = self._step()
            return SearchResult(Verdict.FOUND, tuple(tuple(picks) for picks in self._picks))
        except BudgetSpentError:
            return None
        except _BrokenError as e:
            return SearchResult(Verdict.ERROR, problem=e.problem)
        finally:
            self.spent += before - budget.left

    def _step(self) -> _Signal:
        if self._signal is _Signal.ENTER:
            return self._enter(self._position)
        top = self._stack[-1]
        if self._signal is _Signal.ADVANCE:
            assert isinstance(top, _Choice)
            return self._advance(top)
        exceeded = self._signal is _Signal.EXCEEDED
        if isinstance(top, _Choice):
            return self._take_back(top, exceeded)
        if isinstance(top, _Alternatives):
            return self._next_alternative(top, exceeded)
        # Another choice for this claim may leave the next one an alternative with fewer devices.
        self._stack.pop()
        return _Signal.FAILED

    def _go_to(self, position: _Position) -> _Signal:
        self._position = position
        return _Signal.ENTER

    # -- preparation --------------------------------------------------------------------------------------------------

    def _prepare(self, claim: int) -> list[list[_Prepared]]:
        found = []
        least = 0
        for request in self._claims[claim].requests:
            prepared = [self._prepare_request(claim, wanted) for wanted in request.alternatives]
            least += min(p.amount for p in prepared)
            found.append(prepared)
        if least > MAX_DEVICES:
            text = f"claim {{claim}}: number of requested devices {least} exceeds the claim limit of {MAX_DEVICES}"
            raise _BrokenError(Problem(text, claim))
        return found

    def _prepare_request(self, claim: int, wanted: Wanted) -> _Prepared:
        if not wanted.everything:
            return _Prepared(wanted, wanted.amount, ())
        found = []
        states = [view.state for view, _ in self._world.pools]
        unusable = next((i for i, state in enumerate(states) if state is not PoolState.COMPLETE), len(states))
        for i, device in enumerate(self._devices):
            if self._pool_of[i] > unusable:
                break
            self._budget.require()
            self._budget.spend(LOOK)
            if self._is_selectable(claim, wanted, i) and self._has_capacity(wanted, i, device):
                found.append(i)
        if unusable < len(states):
            what = "currently being updated" if states[unusable] is PoolState.INCOMPLETE else "currently invalid"
            text = f"claim {{claim}}, request {wanted.name}: asks for all devices, but resource pool {{pool}} is {what}"
            raise _BrokenError(Problem(text, claim, pool=unusable))
        return _Prepared(wanted, len(found), tuple(found))

    # -- state machine -------------------------------------------------------------------------------------------------

    def _enter(self, position: _Position) -> _Signal:
        assert self._prepared is not None
        claim = position.claim
        if claim == len(self._claims):
            return _Signal.SOLVED
        requests = self._claims[claim].requests
        if position.request == len(requests):
            self._stack.append(_NextClaim())
            return self._go_to(_Position(claim + 1))
        if position.alternative is None:
            position = position._replace(alternative=0)
            if requests[position.request].prioritized:
                self._stack.append(_Alternatives(position))
        prepared = self._prepared[claim][position.request][position.alternative or 0]
        if prepared.wanted.everything and not prepared.devices:
            return _Signal.FAILED
        if position.taken >= prepared.amount:
            return self._go_to(_Position(claim, position.request + 1))
        if len(self._picks[claim]) + prepared.amount - position.taken > MAX_DEVICES:
            return _Signal.EXCEEDED
        self._stack.append(_Choice(position, prepared))
        return _Signal.ADVANCE

    def _next_alternative(self, frame: _Alternatives, exceeded: bool) -> _Signal:
        frame.all_exceeded = frame.all_exceeded and exceeded
        position = frame.position
        request = self._claims[position.claim].requests[position.request]
        following = (position.alternative or 0) + 1
        if following == len(request.alternatives):
            self._stack.pop()
            return _Signal.EXCEEDED if frame.all_exceeded else _Signal.FAILED
        frame.position = position._replace(alternative=following)
        return self._go_to(frame.position)

    def _advance(self, frame: _Choice) -> _Signal:
        """Choose the next available device, and continue."""
        position, wanted = frame.position, frame.prepared.wanted
        budget = self._budget
        if wanted.everything:
            device = frame.prepared.devices[position.taken]
            budget.require()
            budget.spend(LOOK)
            frame.undo = self._take(position, wanted, device, must=True)
            if frame.undo is not None:
                return self._go_to(position._replace(taken=position.taken + 1, start=0))
        else:
            while frame.candidate < len(self._devices):
                device = frame.candidate
                budget.require()
                budget.spend(LOOK)
                if self._may_do(frame, device):
                    frame.undo = self._take(position, wanted, device, must=False)
                frame.candidate += 1
                if frame.undo is not None:
                    return self._go_to(position._replace(taken=position.taken + 1, start=device + 1))
        self._stack.pop()
        return _Signal.FAILED

    def _may_do(self, frame: _Choice, device: int) -> bool:
        claim, wanted = frame.position.claim, frame.prepared.wanted
        if self._in_use(claim, wanted, device):
            return False
        if frame.failed is not None and self._is_untouched(device) and self._kind(device) in frame.failed:
            return False
        return self._is_selectable(claim, wanted, device) and self._has_capacity(wanted, device, self._devices[device])

    def _take_back(self, frame: _Choice, exceeded: bool) -> _Signal:
        """Undo a choice after which there is no solution."""
        undo = frame.undo
        assert undo is not None
        final = exceeded or frame.prepared.wanted.everything
        # Must precede any change: the budget may be spent here, too.
        kind = None if final else self._kind(undo.device)
        frame.undo = None
        self._undo(frame.position.claim, undo)
        if final:
            self._stack.pop()
            return _Signal.EXCEEDED if exceeded else _Signal.FAILED
        if self._is_untouched(undo.device):
            if frame.failed is None:
                frame.failed = set()
            frame.failed.add(kind)
        return _Signal.ADVANCE

    # -- devices ------------------------------------------------------------------------------------------------------

    def _in_use(self, claim: int, wanted: Wanted, device: int) -> bool:
        holders = self._held.get(device)
        if wanted.admin:
            return holders is not None and claim in holders
        return self._taken[device] or bool(holders)

    def _is_selectable(self, claim: int, wanted: Wanted, device: int) -> bool:
        pooled = self._devices[device]
        if pooled.content.conditional and not self._features.binding_conditions:
            return False
        verdict = self._verdicts.judge(wanted, pooled.content, self._budget)
        if isinstance(verdict, SelectorError):
            whose = f"class {verdict.class_name}" if verdict.class_name else "claim {claim}"
            raise _BrokenError(Problem(f"{whose}: {verdict.text(self._features.emulated_version)}", claim, device))
        # All of a candidate's attributes, so that whether one fails does not depend on what else is chosen.
        for attribute in wanted.derived if verdict and pooled.reachable else ():
            self._derived(claim, wanted, attribute, device)
        return verdict and pooled.reachable

    def _derived(self, claim: int, wanted: Wanted, attribute: DerivedAttribute, device: int) -> Values:
        found = self._verdicts.derive(attribute, self._devices[device].content, self._budget)
        if isinstance(found, SelectorError):
            what = found.text(self._features.emulated_version, f"derived attribute {attribute.name}")
            raise _BrokenError(Problem(f"claim {{claim}}, request {wanted.name}: {what}", claim, device))
        return found

    def _values(self, claim: int, wanted: Wanted, name: str, device: int) -> Values | None:
        """The value of an attribute for constraints; a request's own attributes come before the device's."""
        for attribute in wanted.derived:
            if attribute.name == name:
                return self._derived(claim, wanted, attribute, device)
        return self._devices[device].content.values(name)

    def _has_capacity(self, wanted: Wanted, device: int, pooled: PooledDevice) -> bool:
        return not self._features.consumable_capacity or self._need(wanted, device, pooled) is not None

    def _need(self, wanted: Wanted, device: int, pooled: PooledDevice) -> dict[str, Amount] | None:
        """What the request would consume; None: it is not available."""
        content = pooled.content
        if not content.capacities:
            return None if wanted.capacity else {}
        key = wanted.capacity, content
        if key not in self._needs:
            self._needs[key] = consumption(dict(wanted.capacity), content.capacities)
        need = self._needs[key]
        if need is None:
            return None
        others = [consumed for known in (self._shared, self._shares) if (consumed := known.get(device)) is not None]
        for name, amount in need.items():
            if sum((consumed.get(name, 0) for consumed in others), amount) > content.capacities[name].value:
                return None
        return need

    def _take(self, position: _Position, wanted: Wanted, device: int, *, must: bool) -> _Undo | None:
        """Choose the device and return how to undo that; None: it is not available."""
        claim, pooled = position.claim, self._devices[device]
        content = pooled.content
        if self._in_use(claim, wanted, device):
            return None
        shared = self._features.consumable_capacity and content.shareable
        counted = bool(content.consumes) and not (shared and (device in self._shared or device in self._shares))
        if content.consumes and not self._features.partitionable_devices:
            return None
        if content.skips_operations and not self._features.optional_node_operations:
            return None
        if counted and not self._has_counters(device):
            return None
        if self._features.device_taints and content.taints and untolerated(content.taints, wanted.tolerations):
            return None
        constraints = self._satisfied(claim, wanted, device)
        if constraints is None:
            if must:
                text = "cannot add device {device} because a claim constraint would not be satisfied"
                raise _BrokenError(Problem(f"claim {{claim}}, request {wanted.name}: {text}", claim, device))
            return None
        need = self._need(wanted, device, pooled) if self._features.consumable_capacity else {}
        if need is None:
            return None
        undo = _Undo(device, self._constraints[claim], counted, not shared, self._shares.get(device))
        self._constraints[claim] = constraints
        if counted:
            self._count(device, 1)
        if shared:
            before = undo.shares or {}
            self._shares[device] = {name: before.get(name, 0) + amount for name, amount in need.items()}
        else:
            self._held.setdefault(device, []).append(claim)
        consumed = tuple(sorted(need.items())) if shared and need else None
        self._picks[claim].append(DevicePick(position.request, position.alternative or 0, device, consumed))
        return undo

    def _undo(self, claim: int, undo: _Undo) -> None:
        self._picks[claim].pop()
        self._constraints[claim] = undo.constraints
        if undo.counted:
            self._count(undo.device, -1)
        if undo.held:
            self._held[undo.device].remove(claim)
        elif undo.shares is None:
            del self._shares[undo.device]
        else:
            self._shares[undo.device] = undo.shares

    def _has_counters(self, device: int) -> bool:
        pool = self._pool_of[device]
        free = self._free[pool]
        if self._overdrawn[pool] or (self._has_groups and not self._is_compatible(device)):
            return False
        return all(
            free.get(counter, 0) >= amount for counter, amount in _summed(self._devices[device].content.consumes)
        )

    def _is_compatible(self, device: int) -> bool:
        """Whether it has a group in common with all devices on each of its counter sets, or like them none."""
        pool = self._pool_of[device]
        for counter_set, groups in self._devices[device].content.groups:
            others = self._groups[pool].get(counter_set, [])
            if not self._features.compatibility_groups:
                # What is meant cannot be known to fit.
                if groups or any(others):
                    return False
            elif not groups.intersection(*others) if groups else any(others):
                return False
        return True

    def _count(self, device: int, sign: int) -> None:
        free = self._free[self._pool_of[device]]
        for counter, amount in self._devices[device].content.consumes:
            free[counter] -= sign * amount
        for counter_set, groups in self._devices[device].content.groups:
            there = self._groups[self._pool_of[device]].setdefault(counter_set, [])
            if sign > 0:
                there.append(groups)
            else:
                there.remove(groups)

    def _satisfied(self, claim: int, wanted: Wanted, device: int) -> tuple[Any, ...] | None:
        """The states of the claim's constraints with the device added; None: one of them rejects it."""
        states = self._constraints[claim]
        if not states:
            return states
        found = []
        for constraint, state in zip(self._claims[claim].constraints, states, strict=True):
            after = state
            if constraint.concerns(wanted):
                after = _with(constraint, state, self._values(claim, wanted, constraint.attribute, device))
            if after is _REFUSED:
                return None
            found.append(after)
        return tuple(found)

    # -- equal devices ------------------------------------------------------------------------------------------------

    def _is_untouched(self, device: int) -> bool:
        return not self._held.get(device) and device not in self._shares

    def _kind(self, device: int) -> Any:
        """Everything that these claims can observe of a device that is not used in this search."""
        found = self._kinds.get(device)
        if found is None:
            found = self._kinds[device] = self._kind_of(device)
        return found

    def _kind_of(self, device: int) -> Any:
        pooled = self._devices[device]
        content = pooled.content
        admitted: list[Any] = []
        for claim in self._claims:
            for request in claim.requests:
                for wanted in request.alternatives:
                    verdict = self._verdicts.judge(wanted, content, self._budget)
                    if isinstance(verdict, SelectorError):
                        # Unique: whether the error occurs depends on the order.
                        return device
                    admitted.append(verdict)
                    for attribute in wanted.derived if verdict else ():
                        value = self._verdicts.derive(attribute, content, self._budget)
                        if isinstance(value, SelectorError):
                            return device
                        admitted.append(value)
        return (
            tuple(admitted),
            tuple(content.values(c.attribute) for claim in self._claims for c in claim.constraints),
            (self._pool_of[device], content.consumes, content.groups) if content.consumes else (),
            content.taints,
            tuple(sorted(content.capacities.items())),
            content.shareable,
            content.conditional,
            content.skips_operations,
            pooled.reachable,
            self._taken[device],
            tuple(sorted(self._shared[device].items())) if device in self._shared else None,
        )


class _Refused:
    pass


_REFUSED: Any = _Refused()


def _with(constraint: AttributeConstraint, state: Any, values: Values | None) -> Any:
    """The constraint's state with one more device.

    For equal values: those common to all devices so far. For distinct ones: those taken so far.
    """
    if values is None:
        return _REFUSED
    if state is _UNSET:
        # Parity: the first device is accepted even if its value is of an unknown type.
        return values
    if not values:
        return _REFUSED
    if constraint.distinct:
        return state | values if state.isdisjoint(values) else _REFUSED
    return state & values or _REFUSED


def _summed(consumes: tuple[tuple[CounterId, Amount], ...]) -> list[tuple[CounterId, Amount]]:
    """A device may name a counter set twice."""
    totals: dict[CounterId, Amount] = {}
    for counter, amount in consumes:
        totals[counter] = totals.get(counter, 0) + amount
    return list(totals.items())
