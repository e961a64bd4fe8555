"""Owners of the pods in the initial cluster.

Deployments, ReplicaSets, StatefulSets and DaemonSets in the cluster's files are driven by the controllers of the
scenario's workloads, which adopt their pods; an update that is in progress is taken as complete. So are CronJobs, with
their Jobs that have not finished: their schedules count from the start of the simulation, and pods of Jobs begin their
runs then. Other owners, such as Jobs of their own, and those whose object is not known, recreate a lost pod as what-if
questions do: like itself, on any node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from stowplan.ask.loading.workloads import WorkloadName, workload_of
from stowplan.ask.what_if.hypothetical_pods import recreated
from stowplan.kube.api.decode import DecodeError, convert
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.meta import ApiStruct, Int32, ObjectMeta, OwnerReference, controller_of, seconds_of
from stowplan.kube.api.pod import FINISHED, PodCondition
from stowplan.kube.api.types import Pod, PriorityClass
from stowplan_cluster.reconcile.jobs import COMPLETE, JOB_FAILED, Progress
from stowplan_lab.simulation.definition.amounts import Distribution
from stowplan_lab.simulation.definition.scenario_fields import WorkloadSpec
from stowplan_lab.simulation.results.ledger import Entry, Origin
from stowplan_lab.simulation.scenario_errors import Problems, ScenarioError
from stowplan_lab.simulation.simulation_context import SimulationContext
from stowplan_lab.simulation.workloads.cron_jobs import CronJobController
from stowplan_lab.simulation.workloads.daemons import DaemonSetController
from stowplan_lab.simulation.workloads.jobs import JobController
from stowplan_lab.simulation.workloads.owners import HASH, REVISION, Template, WorkloadController, named_pod
from stowplan_lab.simulation.workloads.stateful import StatefulSetController
from stowplan_lab.simulation.workloads.templates import template_of

_KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")

_Controller = WorkloadController | StatefulSetController | DaemonSetController | JobController


class ExistingWorkloads:
    def __init__(
        self,
        context: SimulationContext,
        manifests: Mapping[WorkloadName, Mapping[str, Any]],
        pods: Iterable[Pod],
        folder: Path,
        classes: Sequence[PriorityClass],
        *,
        lifetime: Distribution | None,
        ends: bool,
    ) -> None:
        """`manifests`: of workloads, by kind, namespace and name; raises ScenarioError.

        `lifetime`: how long pods of CronJobs run, if not as long as before; `ends`: whether the duration is known.
        """
        self._context = context
        self._folder, self._classes = folder, classes
        self._others = ExistingOwners(context)
        self._controllers: dict[WorkloadName, _Controller] = {}
        self.cron_jobs: list[CronJobController] = []
        if not context.models.controllers:
            return
        problems = Problems()
        for name, pod in _newest_pods([name for name in manifests if name[0] in _KINDS], pods).items():
            with problems.collected():
                self._controllers[name] = self._controller(manifests[name], pod)
        for name, manifest in manifests.items():
            if name[0] == "CronJob" and not _is_suspended(manifest):
                with problems.collected():
                    self._add_cron_job(name, manifest, _jobs_of(name, manifests), lifetime, ends=ends)
        problems.raise_any()

    def _template(self, name: str, manifest: Mapping[str, Any], lifetime: Distribution | None = None) -> Template:
        """`name`: of the workload whose pods they are."""
        metadata = manifest["metadata"]
        where = f"cluster: {manifest['kind']} {metadata.get('namespace') or 'default'}/{metadata['name']}"
        spec = WorkloadSpec(name=name, manifest=dict(manifest), lifetime=lifetime)
        template, notes = template_of(spec, self._folder, self._classes, where=where)
        for note in notes:
            self._context.note(note)
        return template

    def _add_cron_job(
        self,
        name: WorkloadName,
        manifest: Mapping[str, Any],
        manifests: Sequence[Mapping[str, Any]],
        lifetime: Distribution | None,
        *,
        ends: bool,
    ) -> None:
        _, namespace, own_name = name
        jobs = [_existing_job(one) for one in manifests]
        lifetime = lifetime or _run_time(jobs)
        if lifetime is None or not ends:
            missing = "no Job of it has completed, and there is no cluster.cronJobLifetime" if ends else "no duration"
            self._context.note(f"cluster: CronJob {namespace}/{own_name} is left out: {missing}")
            return
        cron = CronJobController(self._context, self._template(own_name, manifest, lifetime), own_name)
        for one, job in zip(manifests, jobs, strict=True):
            if not job.is_finished:
                job_name, status = job.metadata.name, job.status
                uid = job.metadata.uid or job_name
                owner = OwnerReference(api_version="batch/v1", kind="Job", name=job_name, uid=uid, controller=True)
                template = self._template(own_name, one, lifetime)
                progress = Progress(succeeded=status.succeeded, failed=status.failed)
                controller = JobController(self._context, template, job_name, owner, progress, status.completed_indexes)
                cron.adopt(controller)
                self._controllers["Job", namespace, job_name] = controller
        self.cron_jobs.append(cron)

    def _controller(self, manifest: Mapping[str, Any], pod: Pod) -> _Controller:
        owner = controller_of(pod.metadata)
        assert owner is not None
        template = _like(pod, self._template(owner.name, manifest))
        if template.kind == "DaemonSet":
            return DaemonSetController(self._context, template, owner)
        made = StatefulSetController if template.kind == "StatefulSet" else WorkloadController
        return made(self._context, template, owner.name, self._context.chance(""), owner)

    def arrive(self, pod: Pod) -> None:
        """A pod of the initial cluster."""
        owner = controller_of(pod.metadata)
        origin = Origin(workload="" if owner is None else owner.name)
        name = _workload(pod, self._controllers)
        if name is not None and pod.status.phase not in FINISHED:
            origin = self._controllers[name].adopt(pod)
        elif eviction_outcome(pod) is EvictionOutcome.RECREATED:
            origin.owner = self._others
        self._context.arrive(pod, origin)

    def begin(self) -> None:
        """All pods and nodes are there."""
        for controller in (*self._controllers.values(), *self.cron_jobs):
            controller.begin()


def _workload(pod: Pod, known: Collection[WorkloadName]) -> WorkloadName | None:
    """The pod's workload, if it is known: a Deployment rather than its ReplicaSet."""
    owner, through = controller_of(pod.metadata), workload_of(pod)
    if owner is None or through is None:
        return None
    names = ((kind, pod.metadata.namespace, name) for kind, name in (through, (owner.kind, owner.name)))
    return next((name for name in names if name in known), None)


def _is_suspended(manifest: Mapping[str, Any]) -> bool:
    spec = manifest.get("spec")
    return isinstance(spec, dict) and spec.get("suspend") is True


def _jobs_of(cron_job: WorkloadName, manifests: Mapping[WorkloadName, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    _, namespace, name = cron_job
    found = []
    for (kind, of_namespace, _), manifest in manifests.items():
        owners = manifest["metadata"].get("ownerReferences") or ()
        is_owned = any(one.get("kind") == "CronJob" and one.get("name") == name for one in owners)
        if kind == "Job" and of_namespace == namespace and is_owned:
            found.append(manifest)
    return found


class _JobStatus(ApiStruct, frozen=True, kw_only=True):
    start_time: str | None = None
    completion_time: str | None = None
    succeeded: Int32 = 0
    failed: Int32 = 0
    completed_indexes: str = ""
    conditions: tuple[PodCondition, ...] = ()


class _ExistingJob(ApiStruct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    status: _JobStatus = _JobStatus()

    @property
    def is_finished(self) -> bool:
        return any(one.type in (COMPLETE, JOB_FAILED) and one.status == "True" for one in self.status.conditions)

    @property
    def took(self) -> float | None:
        """How many seconds; None: it has not completed. Raises ValueError."""
        started, completed = self.status.start_time, self.status.completion_time
        return max(0.0, seconds_of(completed) - seconds_of(started)) if started and completed else None


def _existing_job(manifest: Mapping[str, Any]) -> _ExistingJob:
    """Raises ScenarioError."""
    try:
        job = convert(manifest, _ExistingJob)
        # Of times that are none.
        _ = job.took
    except (DecodeError, ValueError) as error:
        metadata = manifest["metadata"]
        where = f"cluster: Job {metadata.get('namespace') or 'default'}/{metadata['name']}"
        raise ScenarioError(f"{where}: {error}") from None
    return job


def _run_time(jobs: Iterable[_ExistingJob]) -> Distribution | None:
    """As long as Jobs that have completed took; None: there are none."""
    took = [job.took for job in jobs if job.took is not None]
    return Distribution.read({"choice": took}) if took else None


def _newest_pods(known: Collection[WorkloadName], pods: Iterable[Pod]) -> dict[WorkloadName, Pod]:
    found: dict[WorkloadName, Pod] = {}
    for pod in pods:
        name = _workload(pod, known)
        if name is not None and (name not in found or _created(pod) > _created(found[name])):
            found[name] = pod
    return found


def _created(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or ""


def _like(pod: Pod, template: Template) -> Template:
    """The template with the labels that the pod has from its controller; objects that refer to the pods exist."""
    made = {label: value for label, value in pod.metadata.labels.items() if label in (HASH, REVISION)}
    metadata = template.pod.metadata
    metadata = replace(metadata, labels={**metadata.labels, **made})
    return replace(template, pod=replace(template.pod, metadata=metadata), companion=None)


class ExistingOwners:
    """Owners of which nothing is known but that they recreate their pods."""

    def __init__(self, context: SimulationContext, *, runs_rest: bool = False) -> None:
        """`runs_rest`: a recreated pod runs for the rest of its run time, instead of anew."""
        self._context = context
        self._runs_rest = runs_rest
        self._made = 0

    def lost(self, entry: Entry) -> None:
        if not self._context.models.controllers:
            return
        lifetime = entry.origin.lifetime
        if self._runs_rest and lifetime is not None and entry.starts <= self._context.now:
            lifetime -= min(lifetime, self._context.now - entry.starts)
        self._context.later(self._context.models.controller_delay, partial(self._make, entry, lifetime))

    def finished(self, entry: Entry) -> None:
        """It is not recreated then."""

    def _make(self, entry: Entry, lifetime: float | None) -> None:
        self._made += 1
        owner = controller_of(entry.pod.metadata)
        assert owner is not None, "only pods that have one are given to this"
        name, workload = f"{owner.name}-replacement-{self._made}", entry.origin.workload
        origin = Origin(workload=workload, lifetime=lifetime, owner=self)
        self._context.arrive(named_pod(recreated(entry.pod), workload, name), origin)
