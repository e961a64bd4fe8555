"""Members of pod groups, and how many are scheduled.

A group is identified by `namespace/name`, whether or not its PodGroup object exists. Only a group's placed pods are
stored here, updated with every placement, including those in transactions; the others are among the pending pods. An
assumed pod counts as scheduled, like a bound one.

Upstream: the pod group state in pkg/scheduler/backend/cache; docs/reference/behaviour.md, Pod groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

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
