"""What a group lacks, and what would let its pods start."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from stowplan.plugins import Change, CustomObject, Explanation, Inspection, Nodes, PodInfo, Way
from stowplan_scheduler_plugins.coscheduling import (
    FAILED_RECENTLY,
    GATED,
    NO_ROOM,
    TOO_FEW_PODS,
    Coscheduling,
    group_of,
    min_member,
)
from stowplan_scheduler_plugins.elastic_quotas import amounts, shown
from stowplan_scheduler_plugins.kinds import PodGroup
from stowplan_scheduler_plugins.room_for_groups import gap


class CoschedulingExplanation(Explanation):
    def __init__(self, inspection: Inspection, plugin: Coscheduling) -> None:
        super().__init__(inspection)
        self._plugin = plugin
        self._key = group_of(inspection.pod)
        absent = None if inspection.diagnosis is None else inspection.diagnosis.absent
        own = absent.records if absent is not None and absent.plugin == plugin.name else ()
        self._codes = {reason.code for reason in own}

    @property
    def _group(self) -> CustomObject | None:
        return self.inspection.cluster.objects.get(PodGroup, self._key)

    @property
    def _members(self) -> list[PodInfo]:
        return list(self._plugin.members(self._key))

    def obstacles(self) -> Iterable[str]:
        group, members = self._group, self._members
        if group is None:
            return
        wanted = min_member(group)
        if TOO_FEW_PODS.code in self._codes:
            yield f"PodGroup {self._key} needs {wanted} pods, {len(members)} exist"
        if GATED.code in self._codes:
            gated = [pod.name for pod in members if pod.pod.spec.scheduling_gates]
            first = ", ".join(sorted(gated)[:3]) + (", …" if len(gated) > 3 else "")
            yield f"PodGroup {self._key} needs {wanted} pods, and {len(gated)} of its {len(members)} are gated: {first}"
        if NO_ROOM.code in self._codes:
            missing = ", ".join(self._missing(group))
            yield f"PodGroup {self._key} needs {missing} more than all nodes together have free"
        if FAILED_RECENTLY.code in self._codes:
            yield f"PodGroup {self._key} failed, and waits for its back-off of podGroupBackoffSeconds to end"

    def _missing(self, group: CustomObject) -> list[str]:
        least: Mapping[str, str | int | float] = group.content["spec"].get("minResources") or {}
        lacking = gap(least, Nodes(self.inspection.cluster), self._plugin.placed(self._key))
        return [shown(name, amount) for name, amount in amounts({n: f"{a}n" for n, a in lacking.items()}).items()]

    def ways_for_pod(self) -> Sequence[Way]:
        group, exist = self._group, len(self._members)
        if group is None or TOO_FEW_PODS.code not in self._codes:
            return ()
        spec = group.content["spec"] | {"minMember": exist}
        lowered = replace(group, content=group.content | {"spec": spec})
        text = f"lower minMember of PodGroup {self._key} to {exist}"
        return [(Change("podGroup", text, {"minMember": exist}, objects=(lowered,)),)]
