"""AppGroups and NetworkTopologies of Diktyo: which workloads depend on which, and what the network costs.

Upstream: diktyo-io/appgroup-api, diktyo-io/networktopology-api; pkg/networkaware/util in scheduler-plugins.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from stowplan.plugins import CustomObject, Handle, custom_resource

AppGroup = custom_resource("appgroups.v1alpha1.appgroup.diktyo.x-k8s.io")
NetworkTopology = custom_resource("networktopologies.v1alpha1.networktopology.diktyo.x-k8s.io")

#: Labels of pods: the AppGroup, and the workload within it.
APP_GROUP = "appgroup.diktyo.x-k8s.io"
WORKLOAD = "appgroup.diktyo.x-k8s.io.workload"

Fields = Mapping[str, Any]


def first_of(handle: Handle, kind: type[CustomObject], namespaces: Sequence[str], name: str) -> CustomObject | None:
    """The object of this name in the first namespace that has one."""
    found = (handle.cluster.objects.get(kind, f"{namespace}/{name}") for namespace in namespaces)
    return next((obj for obj in found if obj is not None), None)


def searched(entries: Sequence[Fields], key: str, wanted: str) -> Fields | None:
    """Binary search. Parity: entries that are not sorted may be missed."""
    low, high = 0, len(entries) - 1
    while low <= high:
        middle = (low + high) // 2
        found = entries[middle].get(key, "")
        if found == wanted:
            return entries[middle]
        if found < wanted:
            low = middle + 1
        else:
            high = middle - 1
    return None


def selector_of(entry: Fields) -> str:
    return str((entry.get("workload") or {}).get("selector", ""))


def dependencies_of(group: CustomObject, workload: str) -> list[Fields]:
    """What a workload of the group depends on."""
    workloads = (group.content.get("spec") or {}).get("workloads") or ()
    return [one for entry in workloads if selector_of(entry) == workload for one in entry.get("dependencies") or ()]


def order_of(group: CustomObject, workload: str) -> int:
    """The workload's place in the order in which the group starts; -1 if it is not found."""
    order = (group.content.get("status") or {}).get("topologyOrder") or ()
    found = searched([{**entry, "selector": selector_of(entry)} for entry in order], "selector", workload)
    return -1 if found is None else int(found.get("index", 0))
