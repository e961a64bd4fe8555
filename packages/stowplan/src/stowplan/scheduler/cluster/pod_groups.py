"""Members of pod groups, how many are scheduled, and trees of groups.

A group is identified by `namespace/name`, whether or not its PodGroup object exists. Only a group's placed pods are
stored here, updated with every placement, including those in transactions; the others are among the pending pods. An
assumed pod counts as scheduled, like a bound one.

PodGroups are the leaves of trees; CompositePodGroups have groups as children, which name their parent. A pod belongs to
the PodGroup that it names, and is scheduled with everything below the *root* of its tree. In trees a group is known by
a key: `namespace/name` of a PodGroup, `compositepodgroup/namespace/name` of a CompositePodGroup. Without the gate
CompositePodGroup every PodGroup is a root. The objects say all that there is to know of trees, so nothing is stored
here: children are found through an index of the objects by parent. A group without an ancestor that it names, or in a
cycle, has no root.

Upstream: the pod group state in pkg/scheduler/backend/cache, backend/queue/workload_forest.go;
docs/reference/behaviour.md, Pod groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from stowplan.kube.api.types import CompositePodGroup, PodGroup
from stowplan.scheduler.cluster.objects import ObjectIndex, ObjectStore
from stowplan.scheduler.cluster.pending_pods import PendingPods
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key


class PodGroups:
    """The pods of each group, as one scheduler knows them."""

    def __init__(self, pending: PendingPods) -> None:
        self._pending = pending
        #: Group -> its placed pods by UID; groups without any are absent.
        self._placed: dict[str, dict[str, PodInfo]] = {}
        #: UIDs of the pods that are currently on trial, whose placement is hypothetical.
        self.on_trial: frozenset[str] = frozenset()

    # -- updates by the cluster state ----------------------------------------------------------------------------------

    def attached(self, info: PodInfo) -> None:
        """A pod of a group was placed on a node."""
        self._placed.setdefault(group_key(info.pod), {})[info.uid] = info

    def detached(self, info: PodInfo) -> None:
        group = group_key(info.pod)
        members = self._placed[group]
        del members[info.uid]
        if not members:
            del self._placed[group]

    # -- queries -------------------------------------------------------------------------------------------------------

    def known(self, group: str) -> bool:
        """Whether any pod of the group is known."""
        return group in self._placed or bool(self._pending.of_group(group))

    def pods(self, group: str) -> int:
        """The number of pods, with or without a node."""
        placed, pending = self._placed.get(group), self._pending.of_group(group)
        return len(pending) if placed is None else len(placed.keys() | pending.keys())

    def scheduled(self, group: str, *, but_for_trial: bool = False) -> int:
        """The number of assumed or bound pods; `but_for_trial`: without those on trial."""
        placed = self._placed.get(group, {})
        return len(placed.keys() - self.on_trial) if but_for_trial else len(placed)

    def placed(self, group: str) -> Collection[PodInfo]:
        """The pods that are assumed or bound."""
        return self._placed.get(group, {}).values()

    @property
    def any_on_nodes(self) -> bool:
        """Whether any group has assumed or bound pods."""
        return bool(self._placed)

    def on_nodes(self) -> Iterator[tuple[str, Collection[PodInfo]]]:
        """Each group with assumed or bound pods, and these pods."""
        return ((group, members.values()) for group, members in self._placed.items())

    def unscheduled(self, group: str) -> list[PodInfo]:
        """The pods without a node, in order of appearance."""
        placed = self._placed.get(group, {})
        return [info for uid, info in self._pending.of_group(group).items() if uid not in placed]

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self, placed: Collection[PodInfo]) -> Iterator[str]:
        """Violated invariants; `placed`: all placed pods."""
        expected = {info.uid: info for info in placed if info.pod.spec.scheduling_group is not None}
        found = {uid: info for members in self._placed.values() for uid, info in members.items()}
        if expected != found:
            yield f"pods of groups on nodes are {sorted(expected)}, and {sorted(found)} are known"
        for group, members in self._placed.items():
            if not members or any(group_key(info.pod) != group for info in members.values()):
                yield f"pod group {group}: it is empty, or has pods of another group"


AnyGroup = PodGroup | CompositePodGroup

_COMPOSITE = "compositepodgroup/"


def is_composite(key: str) -> bool:
    return key.startswith(_COMPOSITE) and key.count("/") == 2


def key_of_group(group: AnyGroup) -> str:
    return _key(group.metadata.namespace, group.metadata.name, composite=isinstance(group, CompositePodGroup))


def name_of_group(key: str) -> str:
    """The group's name, without its namespace."""
    return key.rpartition("/")[2]


def qualified_name(key: str) -> str:
    """`namespace/name`."""
    return key.removeprefix(_COMPOSITE) if is_composite(key) else key


def not_found(key: str) -> str:
    """What the reference's lister says."""
    return (
        f'{"compositepodgroup" if is_composite(key) else "podgroup"}.scheduling.k8s.io "{name_of_group(key)}" not found'
    )


def _key(namespace: str, name: str, *, composite: bool) -> str:
    return f"{_COMPOSITE if composite else ''}{namespace or 'default'}/{name}"


def _parents(group: AnyGroup) -> tuple[str, ...]:
    name = group.spec.parent_composite_pod_group_name
    return (_key(group.metadata.namespace, name, composite=True),) if name else ()


def _came(group: AnyGroup) -> tuple[str, str]:
    return group.metadata.creation_timestamp or "", key_of_group(group)


_BY_PARENT = ObjectIndex("parent of the group", _parents)


class GroupTrees:
    def __init__(self, objects: ObjectStore, pod_groups: PodGroups, *, exist: bool) -> None:
        """`exist`: whether groups may have parents."""
        self._objects = objects
        self._pod_groups = pod_groups
        self.exist = exist

    def get(self, key: str) -> AnyGroup | None:
        if self.exist and is_composite(key):
            return self._objects.get(CompositePodGroup, qualified_name(key))
        return self._objects.get(PodGroup, key)

    def parent(self, key: str) -> str:
        """The key of the group's parent; "" if it has none, or does not exist."""
        group = self.get(key) if self.exist else None
        parents = () if group is None else _parents(group)
        return parents[0] if parents else ""

    def path(self, key: str) -> list[str]:
        """The group and its ancestors, the root last; empty if one of them does not exist, or if there is a cycle."""
        found = self._known_path(key)
        return found if found and not self.parent(found[-1]) else []

    def _known_path(self, key: str) -> list[str]:
        """The group and its ancestors, up to the first one that does not exist, or comes again."""
        found: list[str] = []
        while key and key not in found and self.get(key) is not None:
            found.append(key)
            key = self.parent(key)
        return found

    def root(self, key: str) -> str:
        """The root of the group's tree; "" if there is none."""
        if not self.exist:
            return "" if self._objects.get(PodGroup, key) is None else key
        path = self.path(key)
        return path[-1] if path else ""

    def missing(self, key: str) -> str:
        """The first of the group and its ancestors that does not exist; "" if all do."""
        seen: set[str] = set()
        while key and key not in seen:
            if self.get(key) is None:
                return key
            seen.add(key)
            key = self.parent(key)
        return ""

    def children(self, key: str) -> list[str]:
        """In order of creation; those created in the same second by their keys."""
        if not self.exist or not is_composite(key):
            return []
        found: list[AnyGroup] = [*self._objects.indexed(PodGroup, _BY_PARENT, key)]
        found += self._objects.indexed(CompositePodGroup, _BY_PARENT, key)
        return [key_of_group(one) for one in sorted(found, key=_came)]

    def leaves(self, key: str) -> Iterator[str]:
        """The PodGroups of the tree below this group; a PodGroup is its own."""
        if not is_composite(key):
            yield key
            return
        for child in self.children(key):
            yield from self.leaves(child)

    def disrupted_with(self, group: str) -> str:
        """The highest group, from this PodGroup upwards, whose pods are only evicted together; "" if there is none."""
        found = ""
        for key in self._known_path(group) if self.exist else (group,):
            its = self.get(key)
            if its is not None and its.spec.disrupted_as_a_whole:
                found = key
        return found

    def priority(self, group: str) -> int | None:
        """With which a PodGroup's pods resist: that of the root, or of the last ancestor that exists.

        None if the group does not exist.
        """
        its = self.get(self._known_path(group)[-1] if self.exist and self.get(group) is not None else group)
        return None if its is None else its.spec.priority or 0

    # -- pods ---------------------------------------------------------------------------------------------------------

    def placed(self, key: str) -> list[PodInfo]:
        """The pods of the tree that are assumed or bound."""
        return [info for leaf in self.leaves(key) for info in self._pod_groups.placed(leaf)]

    def unscheduled(self, key: str) -> list[PodInfo]:
        """The pods of the tree without a node."""
        return [info for leaf in self.leaves(key) for info in self._pod_groups.unscheduled(leaf)]

    def is_ready(self, key: str, count: Callable[[str], int]) -> bool:
        """Whether a group has enough pods, or enough children that do; `count`: how many pods of a PodGroup count."""
        group = self.get(key)
        if group is None:
            return False
        if isinstance(group, CompositePodGroup):
            return sum(self.is_ready(child, count) for child in self.children(key)) >= least_of(group)
        return count(key) >= least_of(group)

    def known(self, key: str) -> bool:
        """Whether any pod of the tree is known."""
        return any(self._pod_groups.known(leaf) for leaf in self.leaves(key))


def least_of(group: AnyGroup) -> int:
    """How many pods, or children, must be scheduled."""
    if isinstance(group, CompositePodGroup):
        of_groups = group.spec.scheduling_policy.gang
        return 1 if of_groups is None else of_groups.min_group_count
    of_pods = group.spec.scheduling_policy.gang
    return 1 if of_pods is None else of_pods.min_count
