"""Extender requests as plain values, before encoding.

`calls.call_of` makes the body of a request of one, with the objects whole.
"""

from __future__ import annotations

import msgspec

# Not for type checking only: msgspec evaluates annotations at run time.
from stowplan.kube.api.types import Node, Pod


class NodesQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes to filter or to score."""

    pod: Pod
    #: None for a node-cache-capable extender, which only gets names.
    nodes: tuple[Node, ...] | None = None
    names: tuple[str, ...] | None = None


class VictimsAsked(msgspec.Struct, frozen=True, kw_only=True):
    pods: tuple[Pod, ...]
    pdb_violations: int = 0


class PreemptQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Candidate nodes for preemption, and their victims."""

    pod: Pod
    victims: dict[str, VictimsAsked]
    #: Whether the extender only gets the victims' UIDs.
    meta: bool


class BindQuestion(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str
    node: str


Question = NodesQuestion | PreemptQuestion | BindQuestion
