"""Why a request for devices cannot be satisfied on a node: as data, and as text."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from msgspec.structs import replace

from stowplan.kube.api.affinity import Taint
from stowplan.kube.api.quantity import Format, format_quantity
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.explanations.formatting import count, joined

#: Maximum number of values and names listed.
SHOWN = 4


class Kind(Enum):
    NO_DEVICES = "NoDevices"
    NONE_MATCHES = "NoDeviceMatches"
    TAINTED = "DevicesTainted"
    TAKEN = "DevicesTaken"
    COUNTERS_SPENT = "CountersSpent"
    NO_CAPACITY = "CapacitySpent"
    CONSTRAINT = "ConstraintNotMet"
    TOO_FEW = "TooFewDevices"
    #: There are matching devices, but other requests of the pod need them, too.
    NOT_TOGETHER = "RequestsNotTogether"


def amount_text(amount: int) -> str:
    """An amount as a quantity, with a power of 1024 if that is shorter."""
    return min((format_quantity(amount, format_) for format_ in (Format.DECIMAL_SI, Format.BINARY_SI)), key=len)


class Insufficient(NamedTuple):
    """An insufficient counter or capacity, in units of 10^-9."""

    name: str
    wanted: int
    left: int

    def __str__(self) -> str:
        return f"{self.name} ({amount_text(self.wanted)} wanted, {amount_text(max(0, self.left))} left)"


class RequestProblem(PlainStruct, frozen=True):
    """Why a request cannot be satisfied on a node."""

    kind: Kind
    #: "" if the request is an extended resource.
    claim: str
    #: "" if it is not about one request.
    request: str = ""
    #: Number of devices that the node reaches; those of them that the selectors match; and the requested number.
    devices: int = 0
    matching: int = 0
    wanted: int = 0
    #: Attribute or capacity in the selectors -> the values of the devices.
    values: tuple[tuple[str, tuple[str, ...]], ...] = ()
    #: Claims that have matching devices.
    holders: tuple[str, ...] = ()
    #: Taints, counters, attributes or other claims of the pod that prevent the allocation.
    names: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    #: Insufficient counters or capacities.
    lacking: tuple[Insufficient, ...] = ()
    #: For a prioritized list: the problems of the alternatives before this one, which is the last.
    earlier: tuple[RequestProblem, ...] = ()

    def __str__(self) -> str:
        if not self.claim:
            where = f"extended resource {self.request}"
        else:
            where = f"request {self.request} of claim {self.claim}" if self.request else f"claim {self.claim}"
        earlier = "; ".join(f"{problem.request}: {problem.what}" for problem in self.earlier[:SHOWN])
        return f"{where}: {self.what}" + (f" (the last alternative; before it, {earlier})" if earlier else "")

    @property
    def what(self) -> str:
        matching = count(self.matching, "matching device")
        if self.kind is Kind.NO_DEVICES:
            return "the node has no devices"
        if self.kind is Kind.NONE_MATCHES:
            seen = "; ".join(f"{name} is {some(values)}" for name, values in self.values)
            return f"none of {count(self.devices, 'device')} matches" + (f" ({seen})" if seen else "")
        if self.kind is Kind.TAINTED:
            return f"{matching}, all with taints that are not tolerated: {some(self.names)}"
        if self.kind is Kind.TAKEN:
            return f"{self.wanted} wanted, and of {matching} too many are allocated to {some(self.holders)}"
        if self.kind is Kind.COUNTERS_SPENT:
            return f"{matching}, and too little is left of counter {some(tuple(map(str, self.lacking)))}"
        if self.kind is Kind.NO_CAPACITY:
            short = f": {some(tuple(map(str, self.lacking)))}" if self.lacking else ""
            return f"{matching}, none with enough capacity left{short}"
        if self.kind is Kind.CONSTRAINT:
            return f"no devices together meet the constraint on {some(self.names)}"
        if not self.request:
            return "its requests cannot all be met at once"
        if self.kind is Kind.NOT_TOGETHER:
            others = f"claim {some(self.names)} of the pod" if self.names else "other requests"
            held = f"; others are allocated to {some(self.holders)}" if self.holders else ""
            return f"{self.wanted} wanted beside what {others} would get, and there are {matching}{held}"
        return f"{self.wanted} wanted, {matching}"


def together(problems: list[RequestProblem]) -> tuple[int, RequestProblem]:
    """Merge problems of the same kind with the same request on several nodes."""
    values: dict[str, dict[str, None]] = {}
    for problem in problems:
        for name, of_node in problem.values:
            values.setdefault(name, {}).update(dict.fromkeys(of_node))
    merged = replace(
        problems[0],
        devices=max(problem.devices for problem in problems),
        matching=max(problem.matching for problem in problems),
        values=tuple((name, tuple(found)) for name, found in values.items()),
        holders=distinct(holder for problem in problems for holder in problem.holders),
        names=distinct(name for problem in problems for name in problem.names),
    )
    return len(problems), merged


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def some(names: tuple[str, ...]) -> str:
    return joined(names) if len(names) <= SHOWN else f"{', '.join(names[:SHOWN])}, …"
