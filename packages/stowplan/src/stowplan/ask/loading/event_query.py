"""Which Events are read together with a live cluster."""

from __future__ import annotations

from stowplan.kube.structs import PlainStruct

#: Events about running and scheduled pods, which are most of the Events in a cluster.
_OF_NO_INTEREST = ("Scheduled", "Pulling", "Pulled", "Created", "Started")


class EventQuery(PlainStruct, frozen=True):
    """The Events of one pod, or those of all pods that may explain a pending one."""

    #: `name` or `namespace/name` of a single pod.
    pod: str = ""
    #: For all pods: their namespace; "": the context's; None: all.
    namespace: str | None = None
    #: All Events there, also about the workloads of the pods: some of those were named, and may run.
    of_workloads: bool = False

    @property
    def field_selector(self) -> str:
        """For many pods."""
        if self.of_workloads:
            return ""
        return ",".join(["regarding.kind=Pod", *(f"reason!={reason}" for reason in _OF_NO_INTEREST)])
