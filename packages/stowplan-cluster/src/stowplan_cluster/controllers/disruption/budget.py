"""Per-PodDisruptionBudget pod counts, updated incrementally."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import field

from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from stowplan.kube.api.label_selectors import Selector
    from stowplan.kube.api.meta import OwnerReference


class Member(PlainStruct, frozen=True):
    ready: bool
    terminating: bool
    #: The pod's controller.
    owner: OwnerReference | None

    @property
    def healthy(self) -> bool:
        return self.ready and not self.terminating


class Budget(PlainStruct):
    selector: Selector
    members: dict[str, Member] = field(default_factory=dict)
    healthy: int = 0
    unmanaged: int = 0
    #: Number of pods per owner.
    owners: Counter[OwnerReference] = field(default_factory=Counter)
    #: uids of the objects from which the scale was read.
    scale_sources: set[str] = field(default_factory=set)

    def put(self, name: str, member: Member) -> bool:
        """Update the count of a pod; return whether it changed."""
        if self.members.get(name) == member:
            return False
        self.drop(name)
        self.members[name] = member
        self._count(member, 1)
        return True

    def drop(self, name: str) -> bool:
        member = self.members.pop(name, None)
        if member is not None:
            self._count(member, -1)
        return member is not None

    def _count(self, member: Member, by: int) -> None:
        self.healthy += by if member.healthy else 0
        if member.owner is None:
            self.unmanaged += by
            return
        self.owners[member.owner] += by
        if not self.owners[member.owner]:
            del self.owners[member.owner]
