"""Extender requests as plain values, before encoding.

`calls.call_of` makes the body of a request of one, with the objects whole.
"""

from __future__ import annotations

import msgspec

# Not for type checking only: msgspec reads annotations at run time.
from stowplan.api.types import Node, Pod


class NodesQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which of these nodes, or how good each of them is."""

    pod: Pod
    #: None for an extender that knows the nodes itself: it gets their names.
    nodes: tuple[Node, ...] | None = None
    names: tuple[str, ...] | None = None


class VictimsAsked(msgspec.Struct, frozen=True, kw_only=True):
    pods: tuple[Pod, ...]
    pdb_violations: int = 0


class PreemptQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which of these nodes may be preempted on, and who has to leave there."""

    pod: Pod
    victims: dict[str, VictimsAsked]
    #: Whether the extender gets the victims' UIDs only.
    meta: bool


class BindQuestion(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str
    node: str


Question = NodesQuestion | PreemptQuestion | BindQuestion
