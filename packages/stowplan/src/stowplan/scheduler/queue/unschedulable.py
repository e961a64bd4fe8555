"""Unschedulable pods, indexed by the plugins that rejected them.

There may be thousands of them while hundreds of events occur per second. So pods are grouped by profile, rejecting
plugins and gating plugin, and groups are found by their rejecting plugins. Within a group pods are indexed by shape,
and by the objects that they name if a hint is about those. The cost of an event depends on the registrations for it,
not on the number of pods.

A change of a claim matters to the pods that name it. If a thousand pods wait for a claim each, and the claims are
created one by one, calling the hint of each pod for each claim would be a million calls (`PodsByName`).

Upstream: pkg/scheduler/backend/queue/unschedulable_pods.go, a map that is walked for each event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stowplan.scheduler.cluster.pod_info import PodShape
from stowplan.scheduler.framework.events import NamedObjects
from stowplan.scheduler.queue.queued_pod import QueuedPod


class Rejection(NamedTuple):
    """What determines which registrations can requeue a pod."""

    profile: str
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    gating_plugin: str

    @classmethod
    def of(cls, queued: QueuedPod) -> Rejection:
        unschedulable, pending = frozenset(queued.unschedulable_plugins), frozenset(queued.pending_plugins)
        return cls(queued.profile, unschedulable, pending, queued.gating_plugin)

    def holds(self, queued: QueuedPod) -> bool:
        """Whether this is the pod's rejection."""
        return (
            self.unschedulable_plugins == queued.unschedulable_plugins
            and self.pending_plugins == queued.pending_plugins
            and self.gating_plugin == queued.gating_plugin
            and self.profile == queued.profile
        )


class Group:
    """Unschedulable pods of one `Rejection`: shape -> `namespace/name` -> pod."""

    __slots__ = ("_by_name", "by_shape", "rejection")

    def __init__(self, rejection: Rejection) -> None:
        self.rejection = rejection
        self.by_shape: dict[PodShape, dict[str, QueuedPod]] = {}
        #: Created on first use.
        self._by_name: dict[NamedObjects, PodsByName] = {}

    def pods(self) -> dict[str, QueuedPod]:
        return {key: queued for pods in self.by_shape.values() for key, queued in pods.items()}

    def naming(self, named: NamedObjects, name: str) -> dict[str, QueuedPod]:
        """Key -> pod that names this object."""
        found = self._by_name.get(named)
        if found is None:
            found = self._by_name[named] = PodsByName(named)
            for key, queued in self.pods().items():
                found.put(key, queued)
        return found.naming(name)

    def put(self, key: str, queued: QueuedPod) -> None:
        """Add the pod, or another version of it that has the same shape."""
        self.by_shape.setdefault(queued.pod.shape, {})[key] = queued
        for by_name in self._by_name.values():
            by_name.put(key, queued)

    def discard(self, key: str, shape: PodShape) -> None:
        pods = self.by_shape[shape]
        del pods[key]
        if not pods:
            del self.by_shape[shape]
        for by_name in self._by_name.values():
            by_name.discard(key)

    def problems(self) -> Iterator[str]:
        """Invariants that do not hold."""
        for by_name in self._by_name.values():
            yield from by_name.problems(self.pods())


class UnschedulablePods:
    """Unschedulable pods by `namespace/name`, in order of arrival, and by group."""

    def __init__(self) -> None:
        self.by_key: dict[str, QueuedPod] = {}
        self._groups: dict[Rejection, Group] = {}
        #: (profile, plugin) -> groups of pods that it rejected.
        self._rejected_by: dict[tuple[str, str], dict[Rejection, Group]] = {}
        #: `namespace/name` -> the pod's group, and its shape there.
        self._bucket: dict[str, tuple[Group, PodShape]] = {}
        self.gated = 0

    def __len__(self) -> int:
        return len(self.by_key)

    def __bool__(self) -> bool:
        return bool(self.by_key)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self.by_key.values())

    def groups_of(self, listeners: Iterable[tuple[str, str]]) -> list[Group]:
        """Groups of pods that one of these (profile, plugin) rejected."""
        found: dict[Rejection, Group] = {}
        for listener in listeners:
            if groups := self._rejected_by.get(listener):
                found.update(groups)
        return list(found.values())

    def put(self, queued: QueuedPod) -> None:
        """Add the pod, or regroup it after a change."""
        key = queued.pod.key
        known = self._bucket.get(key)
        if known is not None:
            group, shape = known
            if shape is queued.pod.shape and group.rejection.holds(queued):
                self.by_key[key] = queued
                group.put(key, queued)
                return
            self._take_out(key)
        self.by_key[key] = queued
        self._add_to_group(key, self._group(Rejection.of(queued)), queued)

    def discard(self, key: str) -> None:
        if self.by_key.pop(key, None) is not None:
            self._take_out(key)

    def _add_to_group(self, key: str, group: Group, queued: QueuedPod) -> None:
        group.put(key, queued)
        self._bucket[key] = (group, queued.pod.shape)
        if group.rejection.gating_plugin:
            self.gated += 1

    def _take_out(self, key: str) -> None:
        group, shape = self._bucket.pop(key)
        if group.rejection.gating_plugin:
            self.gated -= 1
        group.discard(key, shape)
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

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Invariants that do not hold."""
        for key, queued in self.by_key.items():
            if queued.pod.key != key:
                yield f"pod {queued.pod.key}: unschedulable under the name {key}"
        for key in sorted(self.by_key.keys() - self._bucket.keys()):
            yield f"pod {key}: unschedulable, but in no group"
        for key in sorted(self._bucket.keys() - self.by_key.keys()):
            yield f"pod {key}: in a group, but not unschedulable"
        for key in self.by_key.keys() & self._bucket.keys():
            yield from self._problems_of_group(key, self.by_key[key])
        for group in self._groups.values():
            yield from group.problems()
        yield from self._problems_of_sums()

    def _problems_of_group(self, key: str, queued: QueuedPod) -> Iterator[str]:
        group, shape = self._bucket[key]
        if group.by_shape.get(shape, {}).get(key) is not queued:
            yield f"pod {key}: not in its group {_named(group.rejection)}"
        if self._groups.get(group.rejection) is not group:
            yield f"pod {key}: its group {_named(group.rejection)} is not known"
        if shape is not queued.pod.shape:
            yield f"pod {key}: in its group among pods of another shape"
        if not group.rejection.holds(queued):
            yield f"pod {key}: rejected by {_named(Rejection.of(queued))}, in the group {_named(group.rejection)}"

    def _problems_of_sums(self) -> Iterator[str]:
        gated = sum(bool(group.rejection.gating_plugin) for group, _ in self._bucket.values())
        if gated != self.gated:
            yield f"{self.gated} pods are counted as gated, {gated} are"
        grouped = sum(len(pods) for group in self._groups.values() for pods in group.by_shape.values())
        if grouped != len(self._bucket):
            yield f"{grouped} pods are in groups, {len(self._bucket)} have one"
        found = {(*key, rejection) for key, groups in self._rejected_by.items() for rejection in groups}
        wanted = {
            (rejection.profile, plugin, rejection)
            for rejection in self._groups
            for plugin in rejection.unschedulable_plugins | rejection.pending_plugins
        }
        for profile, plugin, rejection in sorted(found ^ wanted, key=lambda one: one[:2]):
            how = "does not find" if (profile, plugin, rejection) in wanted else "finds"
            yield f"plugin {plugin} of {profile} {how} the group {_named(rejection)}"


def _named(rejection: Rejection) -> str:
    plugins = ", ".join(sorted(rejection.unschedulable_plugins | rejection.pending_plugins)) or "no plugin"
    return f"{plugins}, gated by {rejection.gating_plugin}" if rejection.gating_plugin else plugins


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
