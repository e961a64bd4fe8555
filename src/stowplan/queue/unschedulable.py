"""Pods that sleep until something changes, found by whom they wait for.

Thousands of pods may sleep while events come in hundreds a second. So pods are held in groups of equal profile,
rejecting plugins and gate, groups are found by the plugins whose word can wake them, and within a group pods of one
shape lie together: an event costs what its listeners cost, however many pods sleep.

Upstream: pkg/scheduler/backend/queue/unschedulable_pods.go, a map that is walked for each event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stowplan.cluster.pod_info import PodShape
    from stowplan.queue.queued_pod import QueuedPod


class Rejection(NamedTuple):
    """What decides whose word can wake a pod."""

    profile: str
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    gating_plugin: str

    @classmethod
    def of(cls, queued: QueuedPod) -> Rejection:
        unschedulable, pending = frozenset(queued.unschedulable_plugins), frozenset(queued.pending_plugins)
        return cls(queued.profile, unschedulable, pending, queued.gating_plugin)

    def holds(self, queued: QueuedPod) -> bool:
        """Whether it is this pod's."""
        return (
            self.unschedulable_plugins == queued.unschedulable_plugins
            and self.pending_plugins == queued.pending_plugins
            and self.gating_plugin == queued.gating_plugin
            and self.profile == queued.profile
        )


class Group:
    """Sleeping pods of one `Rejection`: shape -> `namespace/name` -> pod."""

    __slots__ = ("by_shape", "rejection")

    def __init__(self, rejection: Rejection) -> None:
        self.rejection = rejection
        self.by_shape: dict[PodShape, dict[str, QueuedPod]] = {}


class UnschedulablePods:
    """Sleeping pods by `namespace/name`, in order of arrival, and by group."""

    def __init__(self) -> None:
        self._pods: dict[str, QueuedPod] = {}
        self._groups: dict[Rejection, Group] = {}
        #: (profile, plugin) -> groups that it rejected.
        self._rejected_by: dict[tuple[str, str], dict[Rejection, Group]] = {}
        #: `namespace/name` -> where the pod lies.
        self._bucket: dict[str, tuple[Group, PodShape]] = {}
        self.gated = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def groups_of(self, listeners: Iterable[tuple[str, str]]) -> list[Group]:
        """Groups that one of these (profile, plugin) has rejected."""
        found: dict[Rejection, Group] = {}
        for listener in listeners:
            if groups := self._rejected_by.get(listener):
                found.update(groups)
        return list(found.values())

    def put(self, queued: QueuedPod) -> None:
        """Take the pod in, or find its group again after a change."""
        key = queued.pod.key
        known = self._bucket.get(key)
        if known is not None:
            group, shape = known
            if shape is queued.pod.shape and group.rejection.holds(queued):
                self._pods[key] = group.by_shape[shape][key] = queued
                return
            self._take_out(key)
        self._pods[key] = queued
        self._lay_down(key, self._group(Rejection.of(queued)), queued)

    def discard(self, key: str) -> None:
        if self._pods.pop(key, None) is not None:
            self._take_out(key)

    def _lay_down(self, key: str, group: Group, queued: QueuedPod) -> None:
        shape = queued.pod.shape
        group.by_shape.setdefault(shape, {})[key] = queued
        self._bucket[key] = (group, shape)
        if group.rejection.gating_plugin:
            self.gated += 1

    def _take_out(self, key: str) -> None:
        group, shape = self._bucket.pop(key)
        if group.rejection.gating_plugin:
            self.gated -= 1
        bucket = group.by_shape[shape]
        del bucket[key]
        if not bucket:
            del group.by_shape[shape]
            if not group.by_shape:
                self._remove(group.rejection)

    def _group(self, rejection: Rejection) -> Group:
        group = self._groups.get(rejection)
        if group is None:
            group = self._groups[rejection] = Group(rejection)
            for plugin in rejection.unschedulable_plugins | rejection.pending_plugins:
                self._rejected_by.setdefault((rejection.profile, plugin), {})[rejection] = group
        return group

    def _remove(self, rejection: Rejection) -> None:
        del self._groups[rejection]
        for plugin in rejection.unschedulable_plugins | rejection.pending_plugins:
            groups = self._rejected_by[rejection.profile, plugin]
            del groups[rejection]
            if not groups:
                del self._rejected_by[rejection.profile, plugin]
