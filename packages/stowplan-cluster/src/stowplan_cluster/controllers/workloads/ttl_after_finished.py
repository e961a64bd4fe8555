"""Delete finished Jobs after spec.ttlSecondsAfterFinished.

Unlike upstream, which deletes in the foreground, the Job is deleted at once and its pods follow.

Upstream: pkg/controller/ttlafterfinished.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.kube.api.timestamps import seconds_of
from stowplan_cluster.apiserver.objects import condition_of, is_true
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.workloads.job import is_finished
from stowplan_cluster.reconcile.jobs import COMPLETE, JOB_FAILED
from stowplan_cluster.reconcile.views import JOBS, Job, Key


class TTLAfterFinishedController:
    def __init__(self, registry: Registry) -> None:
        self.name = "ttl-after-finished-controller"
        self.watches = (JOBS.storage,)
        self._client = ControllerClient(registry, "ttl-after-finished-controller")

    def keys_of(self, event: Event) -> Sequence[Key]:
        return [Key(event.stored.namespace, event.stored.name, event.stored.uid)]

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.find(JOBS.storage, key)
        if stored is None:
            return None
        job = JOBS.decode(stored)
        seconds = job.spec.ttl_seconds_after_finished
        if seconds is None or job.deleting or not is_finished(job):
            return None
        left = _finished_at(job) + seconds - self._client.now
        if left > 0:
            return left
        self._client.delete(JOBS.storage, key.namespace, key.name, uid=key.uid)
        return None


def _finished_at(job: Job) -> float:
    type_ = COMPLETE if is_true(job.status, COMPLETE) else JOB_FAILED
    condition = condition_of(job.status, type_) or {}
    return seconds_of(condition.get("lastTransitionTime"))
