"""The result of a PostFilter plugin as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stowplan.cluster.pod_info import PodInfo


@dataclass(frozen=True)
class Victim:
    """A pod that would be evicted."""

    key: str
    priority: int


@dataclass(frozen=True)
class Eviction:
    """A node that would take the pod once its victims have left."""

    node_name: str
    #: Most important first.
    victims: tuple[Victim, ...] = ()
    pdb_violations: int = 0


@dataclass(frozen=True)
class Preemption:
    """What a PostFilter found. `selected` and `plugin` are read off its answer: they need not be given."""

    #: Why the pod may not preempt; "" when it may.
    ineligible_reason: str = ""
    #: What stopped the search; "" when nothing did.
    error: str = ""
    #: Node name -> what would have to leave there, of all nodes among which the plugin chose.
    candidates: Mapping[str, Eviction] = field(default_factory=dict)
    #: The nodes among which the rules leave the choice.
    best: tuple[str, ...] = ()
    #: Why there is no candidate.
    unhelpful: str = ""
    #: The choice; None when eviction does not help.
    selected: Eviction | None = None
    #: Name of the plugin.
    plugin: str = ""


def eviction(node_name: str, victims: Iterable[PodInfo], pdb_violations: int = 0) -> Eviction:
    """An `Eviction` of these pods, most important first."""
    return Eviction(node_name, tuple(Victim(info.key, info.priority) for info in victims), pdb_violations)
