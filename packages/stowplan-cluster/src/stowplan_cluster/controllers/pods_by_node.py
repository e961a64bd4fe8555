"""Index of pods by node, maintained from store changes without decoding pods.

Upstream: the `spec.nodeName` index of the pod informer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.reconcile.pods import PODS
from stowplan_cluster.reconcile.views import Key

NODES = "nodes"


class NodeKey(NamedTuple):
    """A node by name."""

    name: str


def node_of(pod: Stored) -> str:
    return pod.field("spec.nodeName")


def key_of(stored: Stored) -> Key:
    return Key(stored.namespace, stored.name, stored.uid)


class PodsByNode:
    def __init__(self) -> None:
        self._keys: dict[str, dict[Key, None]] = {}

    def follow(self, event: Event) -> None:
        """Apply a change; changes of other kinds than pods are ignored."""
        pod = event.stored
        if pod.resource != PODS:
            return
        node = node_of(pod)
        if not node:
            return
        if event.type != "DELETED":
            self._keys.setdefault(node, {})[key_of(pod)] = None
            return
        left = self._keys.get(node, {})
        left.pop(key_of(pod), None)
        if not left:
            self._keys.pop(node, None)

    def on(self, node: str) -> Sequence[Key]:
        """The pods on a node, in the order in which they were bound."""
        return list(self._keys.get(node, ()))
