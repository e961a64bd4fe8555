"""The condition of a pod group: PodGroupScheduled, or PodGroupInitiallyScheduled from 1.37 on.

A condition is only written if it changes, and one that is True stays: pods that are added later may fail, but the group
has been scheduled. If the API server cannot process a patch now, it is retried a few times, then logged and dropped:
the next attempt writes the next condition.

Upstream: updatePodGroupCondition in pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

from typing import Any

from stowplan.kube.api.api_errors import NotFound
from stowplan.kube.api.meta import timestamp
from stowplan.kube.api.types import PodGroup, PodGroupCondition
from stowplan.kube.klog import get_logger
from stowplan.kube.kubernetes_versions import V1_37, KubernetesVersion
from stowplan.scheduler.cluster.declared_groups import is_declared
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.outbox import Outbox
from stowplan.scheduler.engine.statuses import MAX_TRIES
from stowplan.scheduler.framework.requests import Done, Outcome, Patch, is_retriable
from stowplan.scheduler.framework.status import Code, Status

SCHEDULED, INITIALLY_SCHEDULED = "PodGroupScheduled", "PodGroupInitiallyScheduled"
#: Seconds before the first retry; each further delay is twice the previous one.
FIRST_PAUSE = 0.2

_log = get_logger(__name__)


class GroupPatch:
    """A condition being written, and the waiter for the result."""

    def __init__(self, owner: GroupStatuses, group: str, request: Patch) -> None:
        self.owner = owner
        self.group = group
        self.request = request
        self.tries = 0

    def __str__(self) -> str:
        return f"status of pod group {self.group}"

    def answered(self, number: int, outcome: Outcome) -> None:
        self.owner.answered(self, outcome)

    def on_wake(self) -> None:
        """The delay before the retry is over."""
        self.owner.send(self)


class GroupStatuses:
    def __init__(self, outbox: Outbox, state: ClusterState, *, version: KubernetesVersion) -> None:
        self._condition = INITIALLY_SCHEDULED if version >= V1_37 else SCHEDULED
        self._outbox = outbox
        self._state = state
        #: Unfinished patches, by group: the newest one.
        self._under_way: dict[str, GroupPatch] = {}

    def write(self, group: str, status: Status) -> None:
        """Write the outcome of an attempt to the group's condition."""
        found = self._state.objects.get(PodGroup, group)
        if is_declared(found):
            # Its own controller writes its status.
            return
        if found is None:
            _log.error(None, "Pod group not found, its condition is not written", podGroup=group)
            return
        condition = self._changed(found, status)
        if condition is None:
            return
        request = Patch(
            kind=PodGroup,
            namespace=found.metadata.namespace,
            name=found.metadata.name,
            body={"metadata": {"uid": found.metadata.uid}, "status": {"conditions": [condition]}},
            subresource="status",
            lane="status",
        )
        # In place of an older one, whose answer and retry no longer count (`send`, `answered`).
        patch = self._under_way[group] = GroupPatch(self, group, request)
        self.send(patch)

    def _changed(self, group: PodGroup, status: Status) -> dict[str, Any] | None:
        """The condition to write; None if it is unchanged, or must stay."""
        reason, message = "SchedulerError", status.message
        if status.code == Code.Success:
            reason, message = "Scheduled", ""
        elif status.rejected:
            reason = "Unschedulable"
        state = "True" if status.code == Code.Success else "False"
        old = next((c for c in group.status.conditions if c.type == self._condition), PodGroupCondition())
        generation = group.metadata.generation
        if old.status == "True" and state == "False":
            return None
        if (old.status, old.reason, old.message, old.observed_generation) == (state, reason, message, generation):
            return None
        moved = old.last_transition_time if old.status == state else timestamp(self._outbox.wall_clock())
        return {
            "type": self._condition,
            "status": state,
            "reason": reason,
            "message": message,
            "lastTransitionTime": moved,
            "observedGeneration": generation,
        }

    # -- patches -------------------------------------------------------------------------------------------------------

    def send(self, patch: GroupPatch) -> None:
        if self._under_way.get(patch.group) is patch:
            patch.tries += 1
            self._outbox.ask(patch.request, patch)

    def answered(self, patch: GroupPatch, outcome: Outcome) -> None:
        if self._under_way.get(patch.group) is not patch:
            return
        if is_retriable(outcome) and patch.tries < MAX_TRIES:
            self._outbox.wake(self._outbox.now + FIRST_PAUSE * 2 ** (patch.tries - 1), patch)
            return
        del self._under_way[patch.group]
        if not isinstance(outcome, Done) and not isinstance(outcome.error, NotFound):
            _log.error(outcome.error, "Failed to update the condition of a pod group", podGroup=patch.group)

    @property
    def unfinished(self) -> list[str]:
        """Conditions that have yet to be written."""
        return [str(patch) for patch in self._under_way.values()]
