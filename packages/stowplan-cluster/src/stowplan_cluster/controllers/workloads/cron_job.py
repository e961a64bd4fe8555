"""Carry out what `reconcile.cron_jobs` decides.

Upstream: pkg/controller/cronjob.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.kube.api.api_errors import AlreadyExists, ApiError
from stowplan.kube.api.merge_patches import copy_of
from stowplan.kube.api.meta import controller_of, seconds_of, timestamp
from stowplan_cluster.apiserver.objects import JsonObject, is_true
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import WARNING, ControllerClient
from stowplan_cluster.controllers.workloads.ownership import owner_reference
from stowplan_cluster.controllers.workloads.pod_templates import subject_of
from stowplan_cluster.reconcile import cron_jobs
from stowplan_cluster.reconcile.jobs import COMPLETE, JOB_FAILED
from stowplan_cluster.reconcile.views import CRON_JOBS, JOBS, CronJob, Job, Key


class CronJobController:
    def __init__(self, registry: Registry) -> None:
        self.name = "cronjob-controller"
        self.watches = (CRON_JOBS.storage, JOBS.storage)
        self._client = ControllerClient(registry, "cronjob-controller")
        #: uid -> key of each CronJob.
        self._keys: dict[str, Key] = {}

    def keys_of(self, event: Event) -> Sequence[Key]:
        stored = event.stored
        if stored.resource == JOBS.storage:
            return [self._keys[uid] for uid in stored.owners if uid in self._keys]
        key = Key(stored.namespace, stored.name, stored.uid)
        if event.type == "DELETED":
            self._keys.pop(stored.uid, None)
        else:
            self._keys[stored.uid] = key
        return [key]

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.find(CRON_JOBS.storage, key)
        if stored is None:
            return None
        cron = CRON_JOBS.decode(stored)
        jobs = [JOBS.decode(one) for one in self._client.store.dependents(key.uid) if one.resource == JOBS.storage]
        children = [_child(job) for job in jobs if _is_child(job, key.uid)]
        created = seconds_of(cron.metadata.creation_timestamp)
        step = cron_jobs.next_step(cron, created, _history(cron), children, self._client.now)
        self._carry_out(stored, cron, step)
        return step.after

    def _carry_out(self, stored: Stored, cron: CronJob, step: cron_jobs.Step) -> None:
        for event in step.events:
            self._client.events.record(subject_of(cron), *event)
        for job in step.delete:
            self._client.delete(JOBS.storage, stored.namespace, job.name, uid=job.uid)
        history, error = step.history, None
        if step.scheduled is not None:
            try:
                history = cron_jobs.started_now(step, self._create(cron, step.scheduled))
            except ApiError as problem:
                error = problem
                self._client.events.record(subject_of(cron), WARNING, "FailedCreate", f"Error creating job: {error}")
        self._client.update_status(stored, _status(stored, history))
        if error is not None:
            raise error

    def _create(self, cron: CronJob, scheduled: float) -> cron_jobs.Active:
        template, name = cron.spec.job_template, cron_jobs.job_name(cron.metadata.name, scheduled)
        given = template.get("metadata") or {}
        metadata = {
            "name": name,
            "namespace": cron.metadata.namespace,
            "labels": dict(given.get("labels") or {}),
            "annotations": {
                **(given.get("annotations") or {}),
                cron_jobs.SCHEDULED: cron_jobs.scheduled_text(cron, scheduled),
            },
            "ownerReferences": [owner_reference(cron)],
        }
        job = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata}
        try:
            created = self._client.create(JOBS.storage, {**job, "spec": copy_of(template.get("spec") or {})})
        except AlreadyExists:
            # It was created, but not written to the status.
            found = self._client.store.get(JOBS.storage, cron.metadata.namespace, name)
            if found is None or cron.metadata.uid not in found.owners:
                raise
            created = found
        else:
            self._client.events.record(subject_of(cron), "Normal", "SuccessfulCreate", f"Created job {name}")
        return cron_jobs.Active(created.name, created.uid)


def _is_child(job: Job, uid: str) -> bool:
    owner = controller_of(job.metadata)
    return owner is not None and owner.uid == uid


def _child(job: Job) -> cron_jobs.Child:
    outcome = next((type_ for type_ in (COMPLETE, JOB_FAILED) if is_true(job.status, type_)), "")
    started, completed = job.status.get("startTime"), job.status.get("completionTime")
    return cron_jobs.Child(
        name=job.metadata.name,
        uid=job.metadata.uid,
        started=seconds_of(started) if started else None,
        outcome=outcome,
        completed=seconds_of(completed) if completed else None,
    )


def _history(cron: CronJob) -> cron_jobs.History:
    status = cron.status
    last, success = status.get("lastScheduleTime"), status.get("lastSuccessfulTime")
    return cron_jobs.History(
        active=tuple(cron_jobs.Active(one.get("name", ""), one.get("uid", "")) for one in status.get("active") or ()),
        last_schedule=seconds_of(last) if last else None,
        last_success=seconds_of(success) if success else None,
    )


def _status(stored: Stored, history: cron_jobs.History) -> JsonObject:
    status: JsonObject = {
        "active": [
            {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "namespace": stored.namespace, **one._asdict()}
            for one in history.active
        ],
        "lastScheduleTime": None if history.last_schedule is None else timestamp(history.last_schedule),
        "lastSuccessfulTime": None if history.last_success is None else timestamp(history.last_success),
    }
    return {name: value for name, value in status.items() if value}
