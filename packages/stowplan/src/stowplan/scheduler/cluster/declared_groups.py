"""Pod groups that are custom resources: objects of a kind that a plugin declares (`GroupKind`).

They are translated where objects and pods come in. The object is stored as it is, and as a PodGroup with a gang, too;
a pod that names it in its label gets a schedulingGroup. Everything else works as with groups of the API, except that
nothing is written to such a group, and that its pods may have different priorities: the lowest counts for the group.

A PodGroup of the API with the same name takes precedence while it exists.

Upstream: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from msgspec.structs import replace

from stowplan.kube.api.custom_objects import CustomObject
from stowplan.kube.api.pod import PodSchedulingGroup
from stowplan.kube.api.types import Pod, PodGroup
from stowplan.kube.api.workloads import GangSchedulingPolicy, PodGroupSchedulingPolicy, PodGroupSpec
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.objects import ObjectStore
from stowplan.scheduler.cluster.pod_groups import PodGroups
from stowplan.scheduler.cluster.pod_info import group_key, scheduler_name_of

_MAX_COUNT = 2**31 - 1


class GroupKind(PlainStruct, frozen=True, kw_only=True):
    """A custom resource whose objects are groups of pods; see `Plugin.group_kind`."""

    kind: type[CustomObject]
    #: The label of pods with the name of their group, which is in the same namespace.
    label: str
    #: How many pods of a group must be scheduled together.
    min_count: Callable[[CustomObject], int]


class DeclaredGroups:
    def __init__(
        self, objects: ObjectStore, pod_groups: PodGroups, kinds: Mapping[str, GroupKind], *, alone: bool
    ) -> None:
        """`kinds` are by scheduler name. `alone`: they are the only groups, as PodGroups of the API are not read."""
        self._objects = objects
        self._pod_groups = pod_groups
        self.kinds = kinds
        self.alone = alone

    def pod(self, pod: Pod) -> Pod:
        """The pod with the group that its label names."""
        kind, own = self.kinds.get(scheduler_name_of(pod)), pod.spec.scheduling_group
        if own is not None and (not self.alone or is_declared(self._objects.get(PodGroup, group_key(pod)))):
            # Such as a copy of a pod, in a copy of its group.
            return pod
        name = "" if kind is None else pod.metadata.labels.get(kind.label, "")
        group = PodSchedulingGroup(pod_group_name=name) if name else None
        return pod if group == own else replace(pod, spec=replace(pod.spec, scheduling_group=group))

    def changed_with(self, old: Any, new: Any) -> tuple[PodGroup | None, PodGroup | None]:
        """The PodGroup that changes along with an object; (None, None) if none does."""
        if not self.kinds:
            return None, None
        obj = old if new is None else new
        key = f"{obj.metadata.namespace or 'default'}/{obj.metadata.name}"
        stands = self._objects.get(PodGroup, key)
        if isinstance(obj, PodGroup):
            # One of the API that was deleted makes way for the other one.
            return None, self._behind(key) if new is None and stands is None else None
        kind = next((kind for kind in self.kinds.values() if kind.kind is type(obj)), None)
        if kind is None or (stands is not None and not is_declared(stands)):
            return None, None
        group = None if new is None else self._as_group(new, kind, key)
        if group is not None and stands is not None and _same(group, stands):
            # Such as a change of its status.
            return stands, stands
        return stands, group

    def _behind(self, key: str) -> PodGroup | None:
        for kind in self.kinds.values():
            if (found := self._objects.get(kind.kind, key)) is not None:
                return self._as_group(found, kind, key)
        return None

    def _as_group(self, obj: CustomObject, kind: GroupKind, key: str) -> PodGroup:
        least = kind.min_count(obj)
        gang = GangSchedulingPolicy(min_count=min(least, _MAX_COUNT)) if least > 0 else None
        priority = min(self._priorities(key), default=None)
        spec = PodGroupSpec(scheduling_policy=PodGroupSchedulingPolicy(gang=gang), priority=priority)
        return PodGroup(api_version=f"{kind.kind.group}/{kind.kind.version}", metadata=obj.metadata, spec=spec)

    def _priorities(self, key: str) -> Iterator[int]:
        return (info.priority for info in chain(self._pod_groups.placed(key), self._pod_groups.unscheduled(key)))

    def with_lowest_priority(self, pod: Pod, *, has_left: bool) -> PodGroup | None:
        """The pod's group, if its lowest priority is another one since the pod came, or has left."""
        group = self._objects.get(PodGroup, group_key(pod)) if pod.spec.scheduling_group is not None else None
        if group is None or not is_declared(group):
            return None
        key, priority, lowest = group_key(pod), pod.spec.priority or 0, group.spec.priority
        if not has_left:
            lowest = priority if lowest is None else min(priority, lowest)
        elif priority == lowest and lowest not in self._priorities(key):
            lowest = min(self._priorities(key), default=None)
        return None if lowest == group.spec.priority else replace(group, spec=replace(group.spec, priority=lowest))


def _same(one: PodGroup, other: PodGroup) -> bool:
    return one.metadata.uid == other.metadata.uid and one.spec == other.spec


def is_declared(obj: object) -> bool:
    """Whether an object is a PodGroup that stands for a custom resource."""
    return isinstance(obj, PodGroup) and not obj.api_version.startswith("scheduling.k8s.io/")
