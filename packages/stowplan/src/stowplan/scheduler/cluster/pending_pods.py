"""Pods without a node, as last reported by the API server.

An assumed pod stays pending until its binding is confirmed, and is then among both pending and placed pods.
`ClusterState.add_pod` removes a pod that got bound; the event handlers add, update and delete the others. The queue
uses the same `PodInfo` for each pod that waits in it.

A `namespace/name` belongs to one pod at a time, as in the API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, ValuesView
from types import MappingProxyType

from stowplan.kube.api.types import Pod
from stowplan.scheduler.cluster.pod_indexes import IndexedPods, PodIndex
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key
from stowplan.scheduler.cluster.transaction import CopiedBeforeChange

_ByName = dict[str, PodInfo]
_Copy = tuple[_ByName, _ByName, dict[str, _ByName]]

_NONE: Mapping[str, PodInfo] = MappingProxyType({})


class PendingPods(CopiedBeforeChange):
    """`namespace/name` -> pod without a node, in the order in which the names appeared."""

    def __init__(self, compiled: Callable[[Pod], PodInfo]) -> None:
        """`compiled`: compiles a loaded pod."""
        super().__init__()
        self._by_key: dict[str, PodInfo] = {}
        self._by_uid: dict[str, PodInfo] = {}
        #: Group -> its pods by UID; groups without pods are absent.
        self._of_group: dict[str, dict[str, PodInfo]] = {}
        #: Those of plugins.
        self._indexes: dict[PodIndex, IndexedPods] = {}
        self._compiled = compiled
        #: Set that collects the UIDs of changed pods; None if nobody follows (`ClusterState.follow`).
        self.touched: set[str] | None = None

    def __len__(self) -> int:
        return len(self._by_key)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def values(self) -> ValuesView[PodInfo]:
        return self._by_key.values()

    def get(self, key: str) -> PodInfo | None:
        return self._by_key.get(key)

    def by_uid(self, uid: str) -> PodInfo | None:
        return self._by_uid.get(uid)

    def of_group(self, group: str) -> Mapping[str, PodInfo]:
        """UID -> pod of a pod group, in order of appearance."""
        return self._of_group.get(group, _NONE)

    def indexed(self, index: PodIndex) -> IndexedPods:
        """These pods by a value; kept up to date from the first call on."""
        found = self._indexes.get(index)
        if found is None:
            found = self._indexes[index] = IndexedPods(index, self._by_key.values())
        return found

    def put(self, info: PodInfo) -> None:
        """Add or update a pod; another pod of the same name is replaced."""
        if self._uncopied:
            self._copy_now()
        known = self._by_key.get(info.key)
        if self.touched is not None:
            self.touched.update((info.uid,) if known is None else (info.uid, known.uid))
        if known is not None:
            if known.uid != info.uid:
                # A successor of its name: nothing may find the former pod by its UID.
                del self._by_uid[known.uid]
            if known.uid != info.uid or group_key(known.pod) != group_key(info.pod):
                self._leave_group(known)
            for index in self._indexes.values():
                index.discard(known)
        for index in self._indexes.values():
            index.add(info)
        self._by_key[info.key] = self._by_uid[info.uid] = info
        if info.pod.spec.scheduling_group is not None:
            self._of_group.setdefault(group_key(info.pod), {})[info.uid] = info

    def remove(self, key: str) -> PodInfo | None:
        """Remove the pod of this name; no-op if there is none."""
        info = self._by_key.get(key)
        if info is not None:
            if self._uncopied:
                self._copy_now()
            if self.touched is not None:
                self.touched.add(info.uid)
            del self._by_key[key], self._by_uid[info.uid]
            self._leave_group(info)
            for index in self._indexes.values():
                index.discard(info)
        return info

    def _leave_group(self, info: PodInfo) -> None:
        if info.pod.spec.scheduling_group is None:
            return
        group = group_key(info.pod)
        members = self._of_group[group]
        del members[info.uid]
        if not members:
            del self._of_group[group]

    # -- as a participant of transactions -----------------------------------------------------------------------------

    def _copied(self) -> _Copy:
        # One level deeper, as members are added to a group's own mapping.
        of_group = {group: dict(members) for group, members in self._of_group.items()}
        return dict(self._by_key), dict(self._by_uid), of_group

    def _restore(self, copy: _Copy) -> None:
        self._by_key, self._by_uid, self._of_group = copy
        # They are not copied, and may have been added after the copy was made.
        for index in self._indexes.values():
            index.refill(self._by_key.values())

    def changed_nodes(self, mark: object) -> tuple[str, ...]:
        return ()

    def dump(self) -> list[Pod]:
        return [info.pod for info in self._by_key.values()]

    def load(self, dumped: list[Pod]) -> None:
        self._restore(({}, {}, {}))
        for pod in dumped:
            self.put(self._compiled(pod))

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Violated invariants."""
        for key, info in self._by_key.items():
            if info.key != key:
                yield f"pod {info.key}: pending under the name {key}"
            if self._by_uid.get(info.uid) is not info:
                yield f"pod {key}: pending, but it is not what is found by its UID {info.uid}"
        grouped = {info.uid: info for info in self._by_key.values() if info.pod.spec.scheduling_group is not None}
        if grouped != {uid: info for members in self._of_group.values() for uid, info in members.items()}:
            yield f"pending pods of groups are {sorted(grouped)}, and are found by group otherwise"
        for group, members in self._of_group.items():
            if not members or any(group_key(info.pod) != group for info in members.values()):
                yield f"pod group {group}: none of its pods is pending, or pods of another group are among them"
        if len(self._by_uid) != len(self._by_key):
            yield f"{len(self._by_key)} pending pods by name, {len(self._by_uid)} by UID"
        for index in self._indexes.values():
            yield from index.problems(self._by_key.values())
