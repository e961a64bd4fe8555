"""Unschedulable pods by the objects that they name, such as their claims.

A change of a claim matters to the pods that name it. If a thousand pods wait for a claim each, and the claims are
created one by one, calling the hint of each pod for each claim would be a million calls.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.scheduler.framework.events import NamedObjects
from stowplan.scheduler.queue.queued_pod import QueuedPod


class PodsByName:
    """The pods of one group, indexed by the names that `named` returns."""

    def __init__(self, named: NamedObjects) -> None:
        self._named = named
        #: `namespace/name` of an object -> key -> pod that names it.
        self._pods: dict[str, dict[str, QueuedPod]] = {}
        #: Key of a pod -> the objects that it named when it was put here.
        self._names: dict[str, tuple[str, ...]] = {}

    def put(self, key: str, queued: QueuedPod) -> None:
        """Add the pod, or another version of it."""
        self.discard(key)
        names = self._names[key] = self._of(queued)
        for name in names:
            self._pods.setdefault(name, {})[key] = queued

    def discard(self, key: str) -> None:
        for name in self._names.pop(key, ()):
            pods = self._pods[name]
            del pods[key]
            if not pods:
                del self._pods[name]

    def naming(self, name: str) -> dict[str, QueuedPod]:
        """Key -> pod that names the object; a copy."""
        return dict(self._pods.get(name, ()))

    def _of(self, queued: QueuedPod) -> tuple[str, ...]:
        # Without duplicates, as a pod may mount a claim twice.
        return tuple(dict.fromkeys(self._named.of_pod(queued.pod)))

    def problems(self, pods: dict[str, QueuedPod]) -> Iterator[str]:
        """Invariants that do not hold, if these are the pods of the group."""
        for key in sorted(pods.keys() ^ self._names.keys()):
            yield f"pod {key}: in its group, but not by the objects that it names, or the reverse"
        for key in sorted(pods.keys() & self._names.keys()):
            names = self._of(pods[key])
            if self._names[key] != names or any(self._pods.get(n, {}).get(key) is not pods[key] for n in names):
                yield f"pod {key}: found by the objects that an earlier version of it named"
        found = {(name, key) for name, keys in self._pods.items() for key in keys}
        if found != {(name, key) for key, names in self._names.items() for name in names}:
            yield "pods are not found by just the objects that they name"
