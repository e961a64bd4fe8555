"""Order pods of an AppGroup by its topology order, all others by priority and time.

Parity: of two pods with equal places, each is less than the other; priority and time are not compared then.

Upstream: pkg/networkaware/topologicalsort in scheduler-plugins.
"""

from typing import Any, ClassVar

import msgspec

from stowplan.plugins import QueueSortPlugin
from stowplan.plugins.arguments import STRING, Args, FeatureGates, Slice, Struct, documented, kind
from stowplan_scheduler_plugins.app_groups import APP_GROUP, WORKLOAD, AppGroup, first_of, order_of

DEFAULT_NAMESPACES = ("default",)


class TopologicalSortArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "TopologicalSortArgs", namespaces=documented(Slice(STRING), "Where AppGroups are looked for, in this order.")
    )

    namespaces: tuple[str, ...] = ()

    def completed(self, features: FeatureGates) -> "TopologicalSortArgs":
        return msgspec.structs.replace(self, namespaces=self.namespaces or DEFAULT_NAMESPACES)


class TopologicalSort(QueueSortPlugin):
    name = "TopologicalSort"
    args_type = TopologicalSortArgs
    reads_kinds = (AppGroup,)

    def less(self, a: Any, b: Any) -> bool:
        name = a.pod.labels.get(APP_GROUP, "")
        if name and name == b.pod.labels.get(APP_GROUP):
            group = first_of(self.handle, AppGroup, self.args.namespaces, name)
            # The reference panics without the group.
            if group is not None:
                first, second = (order_of(group, queued.pod.labels.get(WORKLOAD, "")) for queued in (a, b))
                return first <= second
        if a.pod.priority != b.pod.priority:
            return bool(a.pod.priority > b.pod.priority)
        return bool(a.timestamp < b.timestamp)
