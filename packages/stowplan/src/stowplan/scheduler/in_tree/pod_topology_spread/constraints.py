"""A pod's spread constraints, and the parts that are constant while no node changes."""

from __future__ import annotations

from typing import NamedTuple

from stowplan.kube.api.label_selectors import Selector
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Codes, Ints, Mask
from stowplan.scheduler.cluster.labels import LabelColumn
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.terms import PodTerm

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


class Constraint(PlainStruct, frozen=True):
    """A parsed constraint."""

    max_skew: int
    key: str
    selector: Selector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool

    def counts(self, shape: PodShape) -> bool:
        """Whether the constraint's selector matches the pod itself."""
        return self.selector.matches(shape.labels)


class Domains(PlainStruct, frozen=True, eq=False):
    """The domains of the nodes that count for a constraint; depends on node objects alone."""

    column: LabelColumn
    #: Rows that count; None for all rows (rows without the key have code 0, which is not a domain).
    eligible: Mask | None
    #: Codes of the domains with an eligible node.
    codes: Codes
    #: Whether these are all codes except for 0, so that a slice can be used.
    all_codes: bool
    #: Rows without the key; None: there are none that matter.
    missing: Mask | None

    def of(self, sums: Ints) -> Ints:
        """The sums of the domains with an eligible node."""
        return sums[1:] if self.all_codes else sums[self.codes]


class Prepared(NamedTuple):
    """One constraint with everything that is constant for equal pods while no node changes."""

    constraint: Constraint
    domains: Domains
    #: Which pods it counts; None for none.
    term: PodTerm | None
    #: 1 if the constraint counts the pod itself.
    self_match: int
    #: Whether all keys are required; if not, a missing label is a domain of its own.
    strict: bool


def counted_term(constraint: Constraint, pod: PodInfo) -> PodTerm | None:
    """Which existing pods a constraint counts; None for none."""
    if constraint.selector.empty or constraint.selector.nothing:
        # Parity: an empty selector counts no existing pod, though it matches the incoming one.
        return None
    return PodTerm(((frozenset((pod.namespace,)), constraint.selector),), live_only=True)
