"""A Job in virtual time: its controller decides as that of the embedded cluster does, on counts that are kept.

A pod that ends leaves the cluster at once. A reconcile costs what has changed: pods are listed only if some of them are
to be deleted.

Upstream: pkg/controller/job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from sys import maxsize
from typing import Any

from msgspec.structs import replace

from stowplan.drivers.virtual_time.driver import Call
from stowplan.kube.api.meta import OwnerReference
from stowplan.kube.api.types import Pod
from stowplan_cluster.reconcile.jobs import (
    COMPLETION_INDEX,
    FAILURE_TARGET,
    INDEXED,
    ON_FAILURE,
    Ended,
    Indexes,
    Pods,
    Progress,
    Step,
    counts_when_terminating,
    expires_at,
    next_step,
    parse_indexes,
)
from stowplan_cluster.reconcile.pods import FAILED
from stowplan_cluster.reconcile.pods import Pod as ReportedPod
from stowplan_cluster.reconcile.views import Job
from stowplan_lab.simulation.results.ledger import DELETED, Entry, Origin
from stowplan_lab.simulation.simulation_context import SimulationContext
from stowplan_lab.simulation.workloads.owners import SCALED_DOWN, Template, named_pod
from stowplan_lab.simulation.workloads.runs import Runs

#: Outcomes of Jobs; others are the reasons of those that failed.
RUNNING, COMPLETE = "running", "complete"
#: Why pods are deleted.
SUSPENDED, JOB_FAILED = "suspended", "job failed"


class JobController:
    """An `Owner` of pods."""

    def __init__(
        self,
        context: SimulationContext,
        template: Template,
        name: str,
        owner: OwnerReference | None = None,
        progress: Progress | None = None,
        completed: str = "",
    ) -> None:
        """Of a Job that exists, `owner` is the reference of its pods, and `completed` its completed indexes."""
        assert template.job is not None
        self._context = context
        self._template = template
        self.name = name
        self._runs = Runs(context, template, name)
        self._looks = Looks(context, self._reconcile)
        self.job: Job = template.job
        self.progress = progress or Progress()
        self.finished_at: float | None = None
        self.deleted = False
        #: Called when it is finished, and when its time to live is over.
        self.on_finish: Callable[[], object] | None = None
        self.on_expiry: Callable[[], object] | None = None
        self._owner = owner or OwnerReference(api_version="batch/v1", kind="Job", name=name, uid=name, controller=True)
        self._made = 0
        self.indexes = None
        if self.job.spec.completion_mode == INDEXED:
            completions = self.job.spec.completions or 0
            self.indexes = Indexes(completions, parse_indexes(completed, completions))
        #: UID -> completion index of pods that are neither finished nor terminating, and of terminating ones.
        self._active: dict[str, int | None] = {}
        self._leaving: dict[str, int | None] = {}
        #: Since the last reconcile.
        self._ended: list[Ended] = []
        #: UIDs of leaving pods that were counted, or do not count.
        self._settled: set[str] = set()
        #: UID -> restarts of active pods that were restarted.
        self._restarts: dict[str, int] = {}
        self._strays = 0

    def begin(self) -> None:
        self._context.jobs[RUNNING] += 1
        self._reconcile()

    def change(self, fields: Mapping[str, Any]) -> None:
        """Change fields of its spec."""
        self.job = replace(self.job, spec=replace(self.job.spec, **fields))
        completions = self.job.spec.completions or 0
        if self.indexes is not None and completions != self.indexes.completions:
            self.indexes.resize(completions)
            self._strays = sum(index >= completions for index in self._active.values() if index is not None)
        self._reconcile()

    def delete(self) -> None:
        """It is deleted, and its pods with it."""
        self.deleted = True
        if self.finished_at is None:
            self._end(DELETED)
            for uid in list(self._active):
                self._remove(uid, DELETED)

    # -- pods ---------------------------------------------------------------------------------------------------------

    def finished(self, entry: Entry) -> None:
        uid = entry.pod.metadata.uid
        index = self._active.pop(uid, None)
        self._restarts.pop(uid, None)
        if entry.failed:
            self._release(index)
        if index is not None:
            index = self._counting(index)
        self._ended.append(Ended(not entry.failed, float(int(self._context.time.now)), index))
        self._looks.soon()

    def lost(self, entry: Entry) -> None:
        uid = entry.pod.metadata.uid
        index = self._leaving[uid] = self._active.pop(uid, None)
        self._restarts.pop(uid, None)
        entry.origin.on_change = self._gone
        if self.job.spec.pod_replacement_policy != FAILED:
            self._release(index)
        verdict = self.progress.verdict
        if counts_when_terminating(self.job.spec, None if verdict is None else verdict.type):
            is_starting = bool(entry.node) and entry.starts > self._context.now and not entry.has_run
            self._count(entry, index, at=entry.placed if is_starting else None)
        self._looks.soon()

    def _gone(self, entry: Entry) -> None:
        uid = entry.pod.metadata.uid
        if self._context.ledger.of(uid) is not None:
            return
        index = self._leaving.pop(uid, None)
        self._release(index)
        self._count(entry, index, succeeded=self._context.now >= entry.ends and not entry.failed)
        self._settled.discard(uid)
        self._looks.soon()

    def _count(self, entry: Entry, index: int | None, *, succeeded: bool = False, at: float | None = None) -> None:
        """Count a lost pod; one that is not counted before it is gone may succeed first.

        `at`: when it ended, by `reconcile.pods.finished_at`, if not when it ceased to be Ready, or now.
        """
        uid, at = entry.pod.metadata.uid, entry.unready_since if at is None else at
        if uid not in self._settled:
            self._settled.add(uid)
            ended = self._context.now if at is None else at
            self._ended.append(Ended(succeeded, float(int(ended)), self._counting(index)))

    def _release(self, index: int | None) -> None:
        if self.indexes is not None and index is not None:
            self.indexes.release(index)

    def _counting(self, index: int | None) -> int | None:
        return None if self.indexes is None or index is None or index >= self.indexes.completions else index

    def _restarted(self, entry: Entry) -> None:
        uid = entry.pod.metadata.uid
        if entry.restarts > self._restarts.get(uid, 0) and uid in self._active:
            self._restarts[uid] = entry.restarts
            self._looks.soon()

    # -- the controller ------------------------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        ended, self._ended = self._ended, []
        pods = Pods(
            active=len(self._active),
            terminating=len(self._leaving),
            ended=ended,
            restarts=sum(self._restarts.values()) if self._restarts else 0,
            list_active=self._reported,
            indexes=self.indexes,
            strays=self._strays,
        )
        self._strays = 0
        step = next_step(self.job, self.progress, pods, self._context.time.now, most=maxsize)
        self.progress = step.progress
        if step.delete:
            self._delete(step)
        if step.indexes:
            for index in step.indexes:
                self._make(index)
        else:
            for _ in range(step.create):
                self._make(None)
        if step.finished:
            self._finish()
        else:
            self._looks.after(step.after)

    def _reported(self) -> Sequence[ReportedPod]:
        return [self._context.reported(uid, uid) for uid in self._active]

    def _delete(self, step: Step) -> None:
        why = JOB_FAILED if step.counts_deleted else SUSPENDED if self.job.spec.suspend else SCALED_DOWN
        for pod in step.delete:
            if not step.counts_deleted:
                self._settled.add(pod.uid)
            self._remove(pod.uid, why)
        self._looks.soon()

    def _remove(self, uid: str, why: str) -> None:
        entry = self._context.ledger.of(uid)
        if entry is not None:
            self._context.delete(entry, why)
        else:
            # The API server has refused it so far.
            self._context.refused.drop({uid})
            self._release(self._active.pop(uid))

    def _make(self, index: int | None) -> None:
        template = self._template
        self._made += 1
        name = f"{self.name}-{self._made}" if index is None else f"{self.name}-{index}-{self._made}"
        pod = named_pod(template.pod, template.workload, name, owner=self._owner)
        if index is not None:
            pod = _indexed(pod, index)
        self._context.arrive(pod, self._origin(pod, index))

    def _origin(self, pod: Pod, index: int | None) -> Origin:
        self._active[pod.metadata.uid] = index
        origin = self._runs.origin(index)
        origin.owner = self
        if origin.failures and pod.spec.restart_policy == ON_FAILURE:
            origin.on_change = self._restarted
        return origin

    def adopt(self, pod: Pod) -> Origin:
        """A pod that is to arrive is one of its own."""
        text = pod.metadata.labels.get(COMPLETION_INDEX, "")
        index = int(text) if self.indexes is not None and text.isdecimal() else None
        if self.indexes is not None and index is not None:
            self.indexes.use(index)
        return self._origin(pod, index)

    def _finish(self) -> None:
        verdict = self.progress.verdict
        assert verdict is not None
        self._end(verdict.reason if verdict.type == FAILURE_TARGET else COMPLETE)
        assert self.finished_at is not None
        expires = expires_at(self.job, self.finished_at)
        if expires is not None:
            self._context.later(expires - self._context.now, self._expire)
        if self.on_finish is not None:
            self.on_finish()

    def _expire(self) -> None:
        if not self.deleted:
            self.deleted = True
            if self.on_expiry is not None:
                self.on_expiry()

    def _end(self, outcome: str) -> None:
        self.finished_at = self._context.time.now
        self._looks.end()
        jobs = self._context.jobs
        jobs[RUNNING] -= 1
        jobs[outcome] += 1


def _indexed(pod: Pod, index: int) -> Pod:
    metadata, about = pod.metadata, {COMPLETION_INDEX: str(index)}
    labels, annotations = {**metadata.labels, **about}, {**metadata.annotations, **about}
    return replace(pod, metadata=replace(metadata, labels=labels, annotations=annotations))


#: The shortest wait: the time is in seconds since 1970, and a shorter one would not advance it.
_SHORTEST = 1e-6


class Looks:
    def __init__(self, context: SimulationContext, reconcile: Callable[[], object]) -> None:
        self._context = context
        self._reconcile = reconcile
        self._is_due = self._ended = False
        self._at: float | None = None

    def soon(self) -> None:
        """Something has happened."""
        if not self._is_due and not self._ended:
            self._is_due = True
            time = self._context.time
            time.at(time.now + self._context.models.controller_delay, Call(self._look))

    def after(self, seconds: float | None) -> None:
        """When that much time has passed; None: only after a change."""
        if seconds is None:
            self._at = None
            return
        at = self._context.time.now + max(seconds, _SHORTEST)
        if self._at is None or abs(at - self._at) > _SHORTEST:
            self._at = at
            self._context.time.at(at, Call(partial(self._time_out, at)))

    def end(self) -> None:
        """Never again."""
        self._ended = True

    def _look(self) -> None:
        self._is_due = False
        if not self._ended:
            self._reconcile()

    def _time_out(self, at: float) -> None:
        if self._at == at and not self._ended:
            self._at = None
            self._reconcile()
