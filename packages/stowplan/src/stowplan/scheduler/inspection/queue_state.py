"""The state of pods in the scheduling queue, and of the quotas that plugins keep, as records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec

from stowplan.kube.klog import get_logger
from stowplan.scheduler.framework.boundary import call
from stowplan.scheduler.framework.declarations import Plugin, QuotaUse
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import typed
from stowplan.scheduler.inspection.records import QueuedPodRecord, QuotaRecord, SchedulerRecord
from stowplan.scheduler.inspection.stories import Story, time_text
from stowplan.scheduler.queue.queued_pod import QueuedPod

#: States of a pod that has a node, but is not bound yet.
ON_ITS_WAY = (WAITS_ON_PERMIT, BEING_BOUND) = ("waits on Permit for", "being bound to")
#: The beginning of that of a pod with a volume that is being created for its node.
WAITS_FOR_CLAIM = "waits for claim"
#: A reason may contain commas, and one about the pod as a whole has no number of nodes.
_NEXT_REASON = re.compile(r", (?=\d+ )")
_REASON = re.compile(r"(?:(?P<nodes>\d+) )?(?P<text>.*)", re.DOTALL)
_MAX_QUOTAS = 500

_log = get_logger(__name__)


def queued_pod_record(queued: QueuedPod) -> QueuedPodRecord:
    """The record of a waiting pod."""
    pod = queued.pod.pod
    message = next((one.message for one in pod.status.conditions if one.type == "PodScheduled"), "")
    reason = ""
    if queued.rejectors:
        reason = main_reason(message)
    elif pod.spec.scheduling_group is not None:
        # Of most pods of a group, no plugin says why: their group was rejected.
        reason = message.partition(",")[0]
    return QueuedPodRecord(pod=queued.key, place=queued.place.value, reason=reason, **_state(queued))


def quota_records(frameworks: Iterable[Framework]) -> tuple[QuotaRecord, ...]:
    """How the quotas of these profiles' plugins stand; those that borrow first."""
    found: dict[tuple[str, str], QuotaUse] = {}
    everyone = (plugin for framework in frameworks for plugin in framework.plugins.values())
    # Nearly none has any.
    for plugin in (plugin for plugin in everyone if type(plugin).quota_uses is not Plugin.quota_uses):
        failed, at = partial(_unknown, plugin.name), ("QuotaUses", plugin)
        for use in call(plugin.quota_uses, check=tuple, required=True, failed=failed, at=at):
            found[use.quota, use.resource] = use
    ordered = sorted(found.values(), key=lambda use: (use.used <= use.least, use.quota, use.resource))
    return tuple(QuotaRecord(**msgspec.structs.asdict(use)) for use in ordered[:_MAX_QUOTAS])


def _unknown(plugin: str, why: BaseException, by: Callable[..., Any]) -> tuple[QuotaUse, ...]:
    _log.error(None, "A plugin failed to say how its quotas stand", plugin=plugin, cause=typed(why))
    return ()


def main_reason(message: str) -> str:
    """The reason of most nodes in a scheduler's message: "0/5 nodes are available: 1 Too many pods, 4 Insufficient
    cpu. preemption: …".
    """
    _, found, rest = message.partition(" nodes are available: ")
    if not found:
        return ""
    parts = [_REASON.match(part) for part in _NEXT_REASON.split(rest.partition(". ")[0].removesuffix("."))]
    counted = [(int(part["nodes"] or 0), part["text"]) for part in parts if part is not None]
    return max(counted, key=lambda one: one[0], default=(0, ""))[1]


def scheduler_record(
    place: str = "", *, queued: QueuedPod | None = None, node: str = "", story: Story | None = None
) -> SchedulerRecord:
    """What a running scheduler knows of a pod: its state, in one or two words, and its history."""
    state = {} if queued is None else _state(queued)
    return SchedulerRecord(place=place, node=node, story=None if story is None else story.record(), **state)


def _state(queued: QueuedPod) -> dict[str, Any]:
    until = queued.backoff_expiration
    return {
        "attempts": queued.attempts,
        "since": time_text(queued.timestamp),
        "backoff_until": "" if until is None or "backoff" not in queued.place.value else time_text(until),
        "gated_by": queued.gating_plugin,
        "rejected_by": tuple(sorted(queued.rejectors)),
    }
