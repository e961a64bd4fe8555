"""Pods by values that plugins choose, such as their group or their quota, with sums per value.

A plugin that visits all pods for each pod that it decides about makes a cluster of N pods cost N². An index is built at
its first use, from all pods, and updated with every pod from then on. Value and amounts depend on the pod's shape
alone, so they are computed once for all equal pods, and a pod leaves the index as it came. Undoing a transaction places
pods and takes them off like anything else, so there is nothing to restore here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.changes import ChangeLog
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape

_NO_PODS: Mapping[str, PodInfo] = MappingProxyType({})
_NO_SUMS: Mapping[str, int] = MappingProxyType({})


def _nothing(shape: PodShape) -> Mapping[str, int]:
    return _NO_SUMS


class PodIndex(PlainStruct, frozen=True, eq=False):
    """Finds pods by a value. Create one per purpose, not one per query.

    Both functions get a pod's shape: its namespace, labels and spec. They must depend on nothing else.
    """

    name: str
    #: The value; "": such pods are not in the index.
    value: Callable[[PodShape], str]
    #: What is summed up per value, by name.
    amounts: Callable[[PodShape], Mapping[str, int]] = _nothing


class IndexedPods:
    """The pods of a set by their values."""

    def __init__(self, index: PodIndex, pods: Iterable[PodInfo]) -> None:
        self._index = index
        self._pods: dict[str, dict[str, PodInfo]] = {}
        self._sums: dict[str, dict[str, int]] = {}
        #: Values whose pods changed.
        self.changes: ChangeLog[str] = ChangeLog()
        self._failed: BaseException | None = None
        self.refill(pods)

    def refill(self, pods: Iterable[PodInfo]) -> None:
        """Replace the whole set."""
        self._pods, self._sums = {}, {}
        self.changes.forget()
        for info in pods:
            self.add(info)

    def add(self, info: PodInfo) -> None:
        value, amounts = self._entry(info.shape)
        if value:
            self.changes.append(value)
            self._pods.setdefault(value, {})[info.uid] = info
            sums = self._sums.setdefault(value, {})
            for name, amount in amounts.items():
                sums[name] = sums.get(name, 0) + amount

    def discard(self, info: PodInfo) -> None:
        value, amounts = self._entry(info.shape)
        if value:
            self.changes.append(value)
            pods, sums = self._pods[value], self._sums[value]
            del pods[info.uid]
            for name, amount in amounts.items():
                sums[name] -= amount
            if not pods:
                del self._pods[value], self._sums[value]

    def _entry(self, shape: PodShape) -> tuple[str, Mapping[str, int]]:
        found: tuple[str, Mapping[str, int]] | None = shape.memo(self._index, None)
        if found is None:
            try:
                found = self._index.value(shape), dict(self._index.amounts(shape))
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                # A plugin's function. Whoever looks something up is told; counting of pods goes on.
                self._failed, found = error, ("", _NO_SUMS)
            shape.remember(self._index, None, found)
        return found

    def _checked(self) -> None:
        if self._failed is not None:
            raise self._failed

    def values(self) -> Iterator[str]:
        """The values of which there are pods."""
        self._checked()
        return iter(self._pods)

    def of(self, value: str) -> Mapping[str, PodInfo]:
        """UID -> pod, in order of appearance; read-only."""
        self._checked()
        return self._pods.get(value, _NO_PODS)

    def sums(self, value: str) -> Mapping[str, int]:
        """The sums of the amounts; read-only, and updated in place."""
        self._checked()
        return self._sums.get(value, _NO_SUMS)

    def problems(self, pods: Iterable[PodInfo]) -> Iterator[str]:
        """Differences from an index that is built anew."""
        fresh = IndexedPods(self._index, pods)
        for value in {*self._pods, *fresh._pods}:
            if self._pods.get(value) != fresh._pods.get(value):
                yield f"index {self._index.name}: {value} has other pods than {sorted(fresh._pods.get(value, ()))}"
            sums, expected = self._sums.get(value, {}), fresh._sums.get(value, {})
            if {name: amount for name, amount in sums.items() if amount or name in expected} != expected:
                yield f"index {self._index.name}: the sums of {value} are {sums}, and should be {expected}"


class PodsByValue:
    """All pods by their values. An assumed pod may be among both the placed and the pending ones."""

    def __init__(self, placed: IndexedPods, pending: IndexedPods) -> None:
        #: Pods with a node, bound or assumed.
        self.placed = placed
        #: Pods without a node, as last reported by the API server.
        self.pending = pending

    def all(self, value: str) -> Collection[PodInfo]:
        """Pending pods first."""
        return {**self.pending.of(value), **self.placed.of(value)}.values()

    def count(self, value: str) -> int:
        pending, placed = self.pending.of(value), self.placed.of(value)
        return len(pending.keys() | placed.keys()) if pending and placed else len(pending) + len(placed)
