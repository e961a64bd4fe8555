"""Jobs: create pods until enough have succeeded.

Each pod has a finalizer until it is counted, so that no pod is lost if finished pods are deleted, and none is counted
twice. A reconcile counts the pods that finished since the last one, decides the Job if possible or else creates and
deletes pods, then updates the status and removes the finalizer from counted pods. A decided Job is finished only once
all its pods have terminated.

The backoff after failures doubles from ten seconds to ten minutes, until a pod succeeds. It is kept in memory and does
not survive a restart.

Left out: podFailurePolicy, successPolicy, backoffLimitPerIndex, and pod groups.

Upstream: pkg/controller/job.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

from stowplan.kube.api.whole_numbers import whole_number
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject, condition_of, is_true, set_condition
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.events import NORMAL, WARNING
from stowplan_cluster.controllers.workloads.ownership import Ownership, owner_reference
from stowplan_cluster.controllers.workloads.pod_templates import (
    PodControl,
    generate_name_of,
    pod_from_template,
    subject_of,
)
from stowplan_cluster.reconcile.pods import FAILED, PODS, SUCCEEDED, Pod, by_deletion_order, decode_pod, seconds_of
from stowplan_cluster.reconcile.views import JOBS, Job, Key

# Completion indexes of Indexed Jobs, in status (`0,2-5,9`) and on pods.
#
# Upstream: pkg/controller/job/indexed_job_utils.go.

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"

_MAX_GENERATE_NAME = 58


def index_of(pod: Pod, completions: int) -> int | None:
    """The pod's index; None if it has none, or one that is no longer below completions."""
    return whole_number(pod.metadata.annotations.get(COMPLETION_INDEX, ""), completions - 1)


def parse_indexes(text: str, completions: int) -> set[int]:
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = whole_number(first), whole_number(last or first)
        if low is not None and high is not None:
            indexes.update(range(low, min(high + 1, completions)))
    return indexes


def format_indexes(indexes: Iterable[int]) -> str:
    """Format sorted indexes; runs of three or more become ranges."""
    return ",".join(_run(first, last) for first, last in _runs(indexes))


def _runs(indexes: Iterable[int]) -> Iterator[tuple[int, int]]:
    for _, group in groupby(enumerate(sorted(indexes)), key=lambda pair: pair[1] - pair[0]):
        run = [index for _, index in group]
        yield run[0], run[-1]


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def first_free(taken: Collection[int], completions: int, count: int) -> list[int]:
    return list(islice((index for index in range(completions) if index not in taken), count))


def give_index(pod: JsonObject, job: str, index: int) -> None:
    """Set a pod's completion index: in metadata, hostname and environment."""
    metadata, spec = pod["metadata"], pod["spec"]
    suffix = f"-{index}-"
    metadata["generateName"] = f"{job[: _MAX_GENERATE_NAME - len(suffix)]}{suffix}"
    for field in ("labels", "annotations"):
        metadata[field] = {**(metadata.get(field) or {}), COMPLETION_INDEX: str(index)}
    spec["hostname"] = f"{job}-{index}"
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        variables = container.get("env") or []
        if all(variable.get("name") != INDEX_VARIABLE for variable in variables):
            source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
            container["env"] = [*variables, {"name": INDEX_VARIABLE, "valueFrom": source}]


TRACKING = "batch.kubernetes.io/job-tracking"

#: Maximum number of pods created, and of pods deleted, per reconcile.
BURST = 50

BACKOFF_SECONDS = 10.0
BACKOFF_LIMIT_SECONDS = 600.0

COMPLETE = "Complete"
JOB_FAILED = "Failed"
FAILURE_TARGET = "FailureTarget"
SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"
SUSPENDED = "Suspended"

#: Status fields that are present even if 0 or empty.
_KEPT = ("ready", "terminating", "uncountedTerminatedPods")


def is_finished(job: Job) -> bool:
    return is_true(job.status, COMPLETE) or is_true(job.status, JOB_FAILED)


class _FormerPod(NamedTuple):
    """A pod that was orphaned by its Job."""

    namespace: str
    name: str


class _Failures(PlainStruct):
    """Failures since the last success."""

    count: int = 0
    last: float = 0.0

    def seconds_left(self, now: float) -> float:
        if not self.count:
            return 0.0
        delay = min(BACKOFF_LIMIT_SECONDS, BACKOFF_SECONDS * 2.0 ** min(self.count - 1, 16))
        return max(0.0, self.last + delay - now)


class JobController:
    def __init__(self, registry: Registry) -> None:
        self.name = "job-controller"
        self.watches = (JOBS.storage, PODS)
        self._client = ControllerClient(registry, "job-controller")
        self._pods: Ownership[Job, Pod] = Ownership(self._client, JOBS, PODS, decode_pod, finalizer=TRACKING)
        self._failures: dict[Key, _Failures] = {}

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
        failures = self._failures.setdefault(key, _Failures())
        return _Sync(self._client, stored, job, self._pods.claim(job), failures).run()

    def _let_go_of_former(self, key: _FormerPod) -> None:
        stored = self._client.store.get(PODS, key.namespace, key.name)
        if stored is not None and not stored.owners:
            release(self._client, stored)

    def _let_go_of_all(self, uid: str) -> None:
        """Release the pods of a deleted Job, which will not be counted."""
        for stored in self._client.store.dependents(uid):
            if stored.resource == PODS:
                release(self._client, stored)


def release(client: ControllerClient, stored: Stored) -> None:
    """Remove the tracking finalizer from a pod."""
    obj = stored.to_dict()
    finalizers = obj["metadata"].get("finalizers") or []
    if TRACKING in finalizers:
        obj["metadata"]["finalizers"] = [name for name in finalizers if name != TRACKING]
        client.update(stored, obj)


class _Sync:
    """One reconcile of a Job that is not finished."""

    def __init__(
        self, client: ControllerClient, stored: Stored, job: Job, pods: Sequence[Pod], failures: _Failures
    ) -> None:
        self._client = client
        self._control = PodControl(client)
        self._stored = stored
        self._job = job
        self._pods = pods
        self._failures = failures
        self._now = client.now
        self._status: JsonObject = dict(job.status)
        self._status["conditions"] = [dict(one) for one in job.status.get("conditions") or ()]
        self._indexed = job.spec.completion_mode == "Indexed"
        self._completions = job.spec.completions or 0
        self._active = [pod for pod in pods if pod.active]
        self._counted: list[Pod] = []
        interim = (SUCCESS_CRITERIA_MET, FAILURE_TARGET)
        self._decided = next((type_ for type_ in interim if is_true(job.status, type_)), None)
        self._done: set[int] = set()
        self._wait: float | None = None

    def run(self) -> float | None:
        if not self._job.spec.suspend:
            self._status.setdefault("startTime", self._client.timestamp)
        self._count()
        verdict = self._verdict()
        changes = 0
        if verdict is not None:
            changes = self._delete(self._active)
        elif not self._job.deleting:
            changes = self._manage()
            if not changes and self._has_completed():
                verdict = (SUCCESS_CRITERIA_MET, "CompletionsReached", "Reached expected number of succeeded pods")
        self._finish(verdict, changes)
        for pod in self._counted:
            stored = self._client.find(PODS, Key(pod.metadata.namespace, pod.name, pod.uid))
            if stored is not None:
                release(self._client, stored)
        return self._wait

    # Counting

    def _count(self) -> None:
        """Count finished pods that are not counted yet."""
        fresh = [pod for pod in self._pods if TRACKING in pod.metadata.finalizers]
        succeeded = [pod for pod in fresh if pod.phase == SUCCEEDED]
        failed = [pod for pod in fresh if self._has_failed(pod)]
        self._counted = [*succeeded, *failed]
        if self._job.deleting or self._decided is not None:
            # These do not count as failures.
            self._counted += [pod for pod in fresh if pod.terminating and pod not in self._counted]
        if self._indexed:
            self._count_indexes(succeeded)
            failed = [pod for pod in failed if index_of(pod, self._completions) is not None]
        else:
            self._status["succeeded"] = self._status.get("succeeded", 0) + len(succeeded)
        self._status["failed"] = self._status.get("failed", 0) + len(failed)
        if succeeded:
            self._failures.count = 0
        if failed:
            self._failures.count += len(failed)
            self._failures.last = self._now

    def _count_indexes(self, succeeded: Iterable[Pod]) -> None:
        self._done = parse_indexes(self._status.get("completedIndexes", ""), self._completions)
        found = (index_of(pod, self._completions) for pod in succeeded)
        self._done.update(index for index in found if index is not None)
        self._status["completedIndexes"] = format_indexes(self._done)
        self._status["succeeded"] = len(self._done)

    def _has_failed(self, pod: Pod) -> bool:
        if pod.phase == FAILED:
            return True
        waits_for_failure = self._job.spec.pod_replacement_policy == FAILED and self._decided != FAILURE_TARGET
        return pod.terminating and pod.phase != SUCCEEDED and not waits_for_failure

    # Deciding

    def _verdict(self) -> tuple[str, str, str] | None:
        """The condition (type, reason, message) that decides the Job; None while it runs."""
        if self._decided is not None:
            condition = condition_of(self._status, self._decided) or {}
            return self._decided, condition.get("reason", ""), condition.get("message", "")
        if self._status["failed"] > self._job.spec.backoff_limit or self._restarts_exceed_limit():
            return FAILURE_TARGET, "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        if self._is_past_deadline():
            return FAILURE_TARGET, "DeadlineExceeded", "Job was active longer than specified deadline"
        return None

    def _restarts_exceed_limit(self) -> bool:
        if (self._job.spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
            return False
        statuses = (
            status
            for pod in self._pods
            if pod.phase in ("Running", "Pending")
            for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        )
        return sum(status.restart_count for status in statuses) >= max(self._job.spec.backoff_limit, 1)

    def _is_past_deadline(self) -> bool:
        limit = self._job.spec.active_deadline_seconds
        if limit is None or self._job.spec.suspend:
            return False
        left = seconds_of(self._status.get("startTime")) + limit - self._now
        if left > 0:
            self._look_again_in(left)
        return left <= 0

    def _has_completed(self) -> bool:
        if self._active:
            return False
        if self._job.spec.completions is None:
            return bool(self._status["succeeded"])
        return bool(self._status["succeeded"] >= self._completions)

    # Managing pods

    def _manage(self) -> int:
        """Create or delete pods; return how many."""
        if self._set_suspended():
            self._untrack_and_delete(self._active)
            return len(self._active)
        wanted = self._wanted()
        surplus = self._surplus(wanted)
        if surplus:
            self._untrack_and_delete(surplus[:BURST])
            return len(surplus)
        terminating = self._terminating() if self._job.spec.pod_replacement_policy == FAILED else 0
        missing = wanted - len(self._active) - terminating
        if missing <= 0:
            return 0
        delay = self._failures.seconds_left(self._now)
        if delay > 0:
            self._look_again_in(delay)
            return 0
        return self._create(min(missing, BURST))

    def _wanted(self) -> int:
        parallelism = self._job.spec.parallelism
        succeeded: int = self._status["succeeded"]
        if self._job.spec.completions is None:
            return len(self._active) if succeeded > 0 else parallelism
        return max(0, min(parallelism, self._completions - succeeded))

    def _surplus(self, wanted: int) -> list[Pod]:
        """Excess pods: duplicates of an index, or more than wanted."""
        surplus: list[Pod] = []
        useful = list(self._active)
        if self._indexed:
            # Keep the last in deletion order: the one whose loss costs most.
            keep = {index_of(pod, self._completions): pod for pod in by_deletion_order(useful)}
            keep.pop(None, None)
            useful = [pod for pod in useful if keep.get(index_of(pod, self._completions)) is pod]
            surplus = [pod for pod in self._active if pod not in useful]
        return [*surplus, *by_deletion_order(useful)[: max(0, len(useful) - wanted)]]

    def _create(self, count: int) -> int:
        if not self._indexed:
            for _ in range(count):
                self._control.create(self._job, self._pod())
            return count
        going = self._active
        if self._job.spec.pod_replacement_policy == FAILED:
            going = [*going, *(pod for pod in self._pods if pod.terminating and not pod.finished)]
        taken = self._done | {index for pod in going if (index := index_of(pod, self._completions)) is not None}
        indexes = first_free(taken, self._completions, count)
        for index in indexes:
            pod = self._pod()
            give_index(pod, self._job.metadata.name, index)
            self._control.create(self._job, pod)
        return len(indexes)

    def _pod(self) -> JsonObject:
        pod = pod_from_template(
            self._job.spec.template,
            namespace=self._job.metadata.namespace,
            owner=owner_reference(self._job),
            generate_name=generate_name_of(self._job.metadata.name),
        )
        finalizers = pod["metadata"].get("finalizers") or []
        pod["metadata"]["finalizers"] = [*(name for name in finalizers if name != TRACKING), TRACKING]
        return pod

    def _delete(self, pods: Sequence[Pod]) -> int:
        for pod in pods:
            self._control.delete(self._job, pod)
        return len(pods)

    def _untrack_and_delete(self, pods: Sequence[Pod]) -> None:
        """Delete pods without counting them as failures."""
        for pod in pods:
            key = Key(pod.metadata.namespace, pod.name, pod.uid)
            stored = self._client.find(PODS, key)
            if stored is not None:
                release(self._client, stored)
        self._delete(pods)

    # The status

    def _set_suspended(self) -> bool:
        """Sync the condition and startTime with spec.suspend; return whether the Job is suspended."""
        suspend = self._job.spec.suspend
        condition = condition_of(self._status, SUSPENDED)
        if suspend and (condition is None or condition["status"] != "True"):
            self._set_condition(SUSPENDED, "JobSuspended", "Job suspended")
            self._status.pop("startTime", None)
            self._record(NORMAL, "Suspended", "Job suspended")
        elif not suspend and condition is not None and condition["status"] != "False":
            self._set_condition(SUSPENDED, "JobResumed", "Job resumed", status="False")
            self._status["startTime"] = self._client.timestamp
            self._record(NORMAL, "Resumed", "Job resumed")
        return suspend

    def _finish(self, verdict: tuple[str, str, str] | None, changes: int) -> None:
        """Update the status; if the Job is decided and no pods are left, add the final condition."""
        finished = None
        if verdict is not None:
            type_, reason, message = verdict
            if not is_true(self._status, type_):
                self._set_condition(type_, reason, message)
            if not changes and not self._terminating():
                finished = COMPLETE if type_ == SUCCESS_CRITERIA_MET else JOB_FAILED
                self._set_condition(finished, reason, message)
        if finished == COMPLETE:
            self._status["completionTime"] = self._client.timestamp
        self._status |= {
            "active": 0 if finished else len(self._active),
            "ready": 0 if finished else sum(1 for pod in self._active if pod.ready),
            "terminating": self._terminating(),
            "uncountedTerminatedPods": {},
        }
        status = {name: value for name, value in self._status.items() if value or name in _KEPT}
        self._stored = self._client.update_status(self._stored, status)
        if finished == COMPLETE:
            self._record(NORMAL, "Completed", "Job completed")
        elif finished is not None and verdict is not None:
            self._record(WARNING, verdict[1], verdict[2])

    def _terminating(self) -> int:
        return sum(1 for pod in self._pods if pod.terminating and not pod.finished)

    def _set_condition(self, type_: str, reason: str, message: str, *, status: str = "True") -> None:
        now = self._client.timestamp
        condition = {"type": type_, "status": status, "lastProbeTime": now, "reason": reason, "message": message}
        set_condition(self._status, condition, now=now)

    def _record(self, event_type: str, reason: str, message: str) -> None:
        self._client.events.record(subject_of(self._job), event_type, reason, message)

    def _look_again_in(self, seconds: float) -> None:
        self._wait = seconds if self._wait is None else min(self._wait, seconds)
