"""The counters of existing pods that a pod's affinity asks for."""

from __future__ import annotations

from typing import NamedTuple

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.terms import PodTerm


class Pull(NamedTuple):
    """A counter of pods that attract (or repel) the incoming pod, by domain of a key."""

    key: str
    weight: int
    slot: int
    held: bool


class PodTerms(PlainStruct, frozen=True):
    """The counters for an incoming pod's terms."""

    #: All required affinity terms together.
    affinity: PodTerm
    matches_itself: bool
    #: (topology key, term) of each required anti-affinity term.
    anti_affinity: list[tuple[str, PodTerm]]
    #: (topology key, signed weight, term) of each preference.
    preferred: list[tuple[str, int, PodTerm]]


NO_TERMS = PodTerms(PodTerm(()), matches_itself=True, anti_affinity=[], preferred=[])
