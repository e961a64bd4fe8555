"""Carry out what `reconcile.jobs` decides, and delete finished Jobs after spec.ttlSecondsAfterFinished.

Each pod has a finalizer until it is counted, so that no pod is lost if finished pods are deleted, and none is counted
twice: the finalizer goes after the status is written. What is known of failures is kept in memory, and does not survive
a restart.

Unlike upstream, which deletes in the foreground, a Job whose time is over is deleted at once and its pods follow.

Upstream: pkg/controller/job, pkg/controller/ttlafterfinished.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.meta import seconds_of, timestamp
from stowplan_cluster.apiserver.objects import JsonObject, condition_of, is_true, set_condition
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.workloads.ownership import Ownership
from stowplan_cluster.controllers.workloads.pod_templates import (
    PodControl,
    new_pod,
    subject_of,
)
from stowplan_cluster.reconcile import jobs
from stowplan_cluster.reconcile.pods import FAILED, PODS, SUCCEEDED, Pod, decode_pod, finished_at
from stowplan_cluster.reconcile.views import JOBS, Job, Key

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"

_MAX_GENERATE_NAME = 58


def give_index(pod: JsonObject, job: str, index: int) -> None:
    """Set a pod's completion index: in metadata, hostname and environment."""
    metadata, spec = pod["metadata"], pod["spec"]
    suffix = f"-{index}-"
    metadata["generateName"] = f"{job[: _MAX_GENERATE_NAME - len(suffix)]}{suffix}"
    for field in ("labels", "annotations"):
        metadata[field] = {**(metadata.get(field) or {}), jobs.COMPLETION_INDEX: str(index)}
    spec["hostname"] = f"{job}-{index}"
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        variables = container.get("env") or []
        if all(variable.get("name") != INDEX_VARIABLE for variable in variables):
            source = {"fieldRef": {"fieldPath": f"metadata.labels['{jobs.COMPLETION_INDEX}']"}}
            container["env"] = [*variables, {"name": INDEX_VARIABLE, "valueFrom": source}]


TRACKING = "batch.kubernetes.io/job-tracking"

#: Maximum number of pods created, and of pods deleted, per reconcile.
BURST = 50

SUSPENDED = "Suspended"

#: Status fields that are present even if 0 or empty.
_KEPT = ("ready", "terminating", "uncountedTerminatedPods")


def is_finished(job: Job) -> bool:
    return is_true(job.status, jobs.COMPLETE) or is_true(job.status, jobs.JOB_FAILED)


class _FormerPod(NamedTuple):
    """A pod that was orphaned by its Job."""

    namespace: str
    name: str


class JobController:
    def __init__(self, registry: Registry) -> None:
        self.name = "job-controller"
        self.watches = (JOBS.storage, PODS)
        self._client = ControllerClient(registry, "job-controller")
        self._pods: Ownership[Job, Pod] = Ownership(self._client, JOBS, PODS, decode_pod, finalizer=TRACKING)
        self._failures: dict[Key, jobs.Failures] = {}

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        keys: Sequence[Hashable] = self._pods.keys_of(event)
        stored = event.stored
        if stored.resource == PODS and event.previous is not None and event.previous.owners and not stored.owners:
            return [*keys, _FormerPod(stored.namespace, stored.name)]
        return keys

    def reconcile(self, key: Any) -> float | None:
        if isinstance(key, _FormerPod):
            self._let_go_of_former(key)
            return None
        stored = self._client.find(JOBS.storage, key)
        if stored is None:
            self._failures.pop(key, None)
            self._let_go_of_all(key.uid)
            return None
        job = JOBS.decode(stored)
        if is_finished(job) or job.spec.managed_by != "kubernetes.io/job-controller":
            self._failures.pop(key, None)
            return None
        sync = _Sync(self._client, stored, job, self._pods.claim(job))
        return sync.run(self._failures)

    def _let_go_of_former(self, key: _FormerPod) -> None:
        stored = self._client.store.get(PODS, key.namespace, key.name)
        if stored is not None and not stored.owners:
            self._client.remove_finalizer(stored, TRACKING)

    def _let_go_of_all(self, uid: str) -> None:
        """Release the pods of a deleted Job, which will not be counted."""
        for stored in self._client.store.dependents(uid):
            if stored.resource == PODS:
                self._client.remove_finalizer(stored, TRACKING)


class _Sync:
    """One reconcile of a Job that is not finished."""

    def __init__(self, client: ControllerClient, stored: Stored, job: Job, pods: Sequence[Pod]) -> None:
        self._client = client
        self._control = PodControl(client)
        self._stored = stored
        self._job = job
        self._pods = pods
        self._status: JsonObject = dict(job.status)
        self._status["conditions"] = [dict(one) for one in job.status.get("conditions") or ()]
        self._completions = job.spec.completions or 0
        self._indexed = job.spec.completion_mode == jobs.INDEXED
        self._decided = next((type_ for type_ in jobs.FINAL if is_true(job.status, type_)), None)
        self._active = [pod for pod in pods if pod.active]
        self._fresh = [pod for pod in pods if TRACKING in pod.metadata.finalizers]
        self._ended = [pod for pod in self._fresh if pod.phase == SUCCEEDED or self._has_failed(pod)]
        self._terminating = sum(1 for pod in pods if pod.terminating and not pod.finished)

    def run(self, failures: dict[Key, jobs.Failures]) -> float | None:
        before = self._progress(failures.get(self._job.key, jobs.NO_FAILURES))
        pods = self._seen()
        step = jobs.next_step(self._job, before, pods, self._client.now, most=BURST)
        error = self._carry_out(step)
        self._write_status(before, step, pods.indexes)
        failures[self._job.key] = step.progress.failures
        for pod in self._ended:
            self._release(pod)
        if self._job.deleting or self._decided is not None:
            # Those that are not counted any more.
            for pod in self._fresh:
                if pod.terminating:
                    self._release(pod)
        if error is not None:
            raise error
        return step.after

    # What there is

    def _progress(self, failures: jobs.Failures) -> jobs.Progress:
        status = self._status
        started, suspended = status.get("startTime"), condition_of(status, SUSPENDED)
        verdict = None
        if self._decided is not None:
            condition = condition_of(status, self._decided) or {}
            verdict = jobs.Verdict(self._decided, condition.get("reason", ""), condition.get("message", ""))
        return jobs.Progress(
            succeeded=status.get("succeeded", 0),
            failed=status.get("failed", 0),
            started=seconds_of(started) if started else None,
            suspended=None if suspended is None else suspended["status"] == "True",
            verdict=verdict,
            failures=failures,
        )

    def _seen(self) -> jobs.Pods:
        indexes, strays = self._indexes() if self._indexed else (None, 0)
        return jobs.Pods(
            active=len(self._active),
            terminating=self._terminating,
            ended=[jobs.Ended(pod.phase == SUCCEEDED, finished_at(pod), self._index_of(pod)) for pod in self._ended],
            restarts=sum(pod.restarts for pod in self._pods if pod.phase in ("Running", "Pending")),
            list_active=lambda: self._active,
            indexes=indexes,
            strays=strays,
        )

    def _indexes(self) -> tuple[jobs.Indexes, int]:
        used = {self._index_of(pod) for pod in self._active} - {None}
        strays = len(self._active) - len(used)
        if self._job.spec.pod_replacement_policy == FAILED:
            used |= {self._index_of(pod) for pod in self._pods if pod.terminating and not pod.finished}
        completed = jobs.parse_indexes(self._status.get("completedIndexes", ""), self._completions)
        return jobs.Indexes(self._completions, completed, (index for index in used if index is not None)), strays

    def _index_of(self, pod: Pod) -> int | None:
        return jobs.index_of(pod, self._completions) if self._indexed else None

    def _has_failed(self, pod: Pod) -> bool:
        if pod.phase == FAILED:
            return True
        return (
            pod.terminating and pod.phase != SUCCEEDED and jobs.counts_when_terminating(self._job.spec, self._decided)
        )

    # Pods

    def _carry_out(self, step: jobs.Step) -> ApiError | None:
        """Delete and create pods; return what went wrong."""
        try:
            for pod in step.delete:
                if not step.counts_deleted:
                    self._release(pod)
                self._control.delete(self._job, pod)
            for new in self._new_pods(step):
                self._control.create(self._job, new)
        except ApiError as error:
            return error
        return None

    def _new_pods(self, step: jobs.Step) -> Iterator[JsonObject]:
        if not self._indexed:
            for _ in range(step.create):
                yield self._new_pod()
        for index in step.indexes:
            pod = self._new_pod()
            give_index(pod, self._job.metadata.name, index)
            yield pod

    def _new_pod(self) -> JsonObject:
        pod = new_pod(self._job, self._job.spec.template)
        finalizers = pod["metadata"].get("finalizers") or []
        pod["metadata"]["finalizers"] = [*(name for name in finalizers if name != TRACKING), TRACKING]
        return pod

    def _release(self, pod: Pod) -> None:
        stored = self._client.find(PODS, Key(pod.metadata.namespace, pod.name, pod.uid))
        if stored is not None:
            self._client.remove_finalizer(stored, TRACKING)

    # The status

    def _write_status(self, before: jobs.Progress, step: jobs.Step, indexes: jobs.Indexes | None) -> None:
        status, progress = self._status, step.progress
        if indexes is not None:
            status["completedIndexes"] = jobs.format_indexes(indexes.completed)
        status["startTime"] = None if progress.started is None else timestamp(progress.started)
        self._set_conditions(before, step)
        if step.finished and is_true(status, jobs.COMPLETE):
            status["completionTime"] = self._client.timestamp
        status |= {
            "succeeded": progress.succeeded,
            "failed": progress.failed,
            # Parity: during the backoff, the reference reports none, although others are running.
            "active": 0 if step.finished or step.backs_off else len(self._active),
            "ready": 0 if step.finished else sum(1 for pod in self._active if pod.ready),
            "terminating": self._terminating,
            "uncountedTerminatedPods": {},
        }
        self._client.update_status(self._stored, status, kept=_KEPT)
        self._record(before, step)

    def _set_conditions(self, before: jobs.Progress, step: jobs.Step) -> None:
        progress, verdict = step.progress, step.progress.verdict
        if progress.suspended != before.suspended:
            what = "suspended" if progress.suspended else "resumed"
            self._set_condition(SUSPENDED, f"Job{what.title()}", f"Job {what}", status=str(progress.suspended))
        if verdict is not None:
            if self._decided is None:
                self._set_condition(*verdict)
            if step.finished:
                self._set_condition(jobs.FINAL[verdict.type], verdict.reason, verdict.message)

    def _set_condition(self, type_: str, reason: str, message: str, *, status: str = "True") -> None:
        now = self._client.timestamp
        condition = {"type": type_, "status": status, "lastProbeTime": now, "reason": reason, "message": message}
        set_condition(self._status, condition, now=now)

    def _record(self, before: jobs.Progress, step: jobs.Step) -> None:
        for event in jobs.events_of(self._job, before, step):
            self._client.events.record(subject_of(self._job), *event)


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
        expires = jobs.expires_at(job, _finished_at(job)) if is_finished(job) else None
        if expires is None or job.deleting:
            return None
        if expires > self._client.now:
            return expires - self._client.now
        self._client.delete(JOBS.storage, key.namespace, key.name, uid=key.uid)
        return None


def _finished_at(job: Job) -> float:
    type_ = jobs.COMPLETE if is_true(job.status, jobs.COMPLETE) else jobs.JOB_FAILED
    condition = condition_of(job.status, type_) or {}
    return seconds_of(condition.get("lastTransitionTime"))
