"""Which Events are read together with a live cluster."""

from __future__ import annotations

from dataclasses import dataclass

#: What a kubelet says of pods that run, and a scheduler of those it has placed: most of the Events that a cluster has.
_OF_NO_INTEREST = ("Scheduled", "Pulling", "Pulled", "Created", "Started")


@dataclass(frozen=True)
class EventsWanted:
    """Those of one pod, or those of all pods that may say why one of them waits."""

    #: `name` or `namespace/name` of the one pod.
    pod: str = ""
    #: Of all pods: their namespace; "": the context's; None: all.
    namespace: str | None = None

    @property
    def field_selector(self) -> str:
        """Of many pods."""
        return ",".join(["regarding.kind=Pod", *(f"reason!={reason}" for reason in _OF_NO_INTEREST)])
