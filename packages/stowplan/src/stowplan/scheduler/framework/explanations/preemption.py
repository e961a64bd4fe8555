"""The result of a PostFilter plugin as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import field

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo


class Victim(PlainStruct, frozen=True):
    """A pod that would be evicted."""

    key: str
    priority: int


class Eviction(PlainStruct, frozen=True):
    """A node that would fit the pod once the victims have left."""

    node_name: str
    #: Most important first.
    victims: tuple[Victim, ...] = ()
    pdb_violations: int = 0


class Preemption(PlainStruct, frozen=True):
    """What a PostFilter plugin found. `selected` and `plugin` are filled in from its result."""

    #: Why the pod may not preempt; "" when it may.
    ineligible_reason: str = ""
    #: Why the search failed; "" if it did not.
    error: str = ""
    #: Node name -> its victims, for all candidates.
    candidates: Mapping[str, Eviction] = field(default_factory=dict)
    #: The nodes that the selection rules rank equal.
    best: tuple[str, ...] = ()
    #: Why there are no candidates.
    unhelpful: str = ""
    #: The selected candidate; None if preemption does not help.
    selected: Eviction | None = None
    #: Name of the plugin.
    plugin: str = ""


def eviction(node_name: str, victims: Iterable[PodInfo], pdb_violations: int = 0) -> Eviction:
    """An `Eviction` of these pods, most important first."""
    return Eviction(node_name, tuple(Victim(info.key, info.priority) for info in victims), pdb_violations)
