"""Refuse a pod of a gang at once if the cluster has no room for the whole gang.

It is what Go plugins do with `handle.SnapshotSharedLister().NodeInfos().List()` in PreFilter: look at all
nodes before any Filter runs. Pods say with the labels `gang` and `gang-size` to which gang they belong and how many
there will be.
"""

from stowplan.plugins import (
    ASSIGNED_POD,
    NODE,
    SKIP,
    Action,
    EnqueueExtensions,
    PreFilterPlugin,
    Reason,
    on,
    unresolvable,
)

NO_ROOM = Reason("NoRoomForGang", "no room for {missing} more pods of gang {gang}")


class GangRoom(PreFilterPlugin, EnqueueExtensions):
    name = "GangRoom"

    def pre_filter(self, state, pod, nodes):
        gang = pod.labels.get("gang")
        if gang is None:
            return SKIP
        snapshot = self.handle.nodes()
        running = sum(1 for node in snapshot for other in node.pods if other.labels.get("gang") == gang)
        missing = int(pod.labels.get("gang-size", "1")) - running
        if missing <= 0 or sum(room(node, pod.shape.requests) for node in snapshot) >= missing:
            return None
        return unresolvable(NO_ROOM.of(missing=missing, gang=gang))

    def events_to_register(self):
        return (on(NODE, Action.Add | Action.UpdateNodeAllocatable), on(ASSIGNED_POD, Action.Delete))


def room(node, requests):
    """How many pods with these requests fit on the node by its resources alone."""
    free = [node.allowed_pods - len(node.pods)]
    for resource, wanted in requests.items():
        if wanted:
            free.append((node.allocatable.get(resource, 0) - node.requested.get(resource, 0)) // wanted)
    return max(0, min(free))
