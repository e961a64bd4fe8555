"""A CronJob in virtual time: its controller decides as that of the embedded cluster does, and creates Jobs.

The Jobs of its history are kept without their pods, which leave the cluster when they end. It looks when a Job is
created or finished, but not whenever a Job's status changes. That matters to no schedule but `@every` with a
`startingDeadlineSeconds`, whose times count from that long before each look.

Upstream: pkg/controller/cronjob.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from stowplan_cluster.reconcile.cron_jobs import Active, Child, History, job_name, next_step, started_now
from stowplan_cluster.reconcile.jobs import FAILURE_TARGET, FINAL
from stowplan_cluster.reconcile.views import CronJob
from stowplan_lab.simulation.simulation_context import SimulationContext
from stowplan_lab.simulation.workloads.jobs import JobController, Looks
from stowplan_lab.simulation.workloads.owners import Template


class CronJobController:
    def __init__(self, context: SimulationContext, template: Template, name: str) -> None:
        assert template.cron_job is not None
        self._context = context
        self._template = template
        self._looks = Looks(context, self._reconcile)
        self.cron_job: CronJob = replace(template.cron_job, metadata=replace(template.cron_job.metadata, name=name))
        self._history = History()
        #: By name, including those that are finished and in the history.
        self.jobs: dict[str, JobController] = {}

    def begin(self) -> None:
        # In whole seconds, as in an object.
        self._created = float(int(self._context.now))
        self._reconcile()

    def adopt(self, job: JobController) -> None:
        """A Job that it has created before."""
        self._follow(job)
        self._history = replace(self._history, active=(*self._history.active, Active(job.name, job.name)))

    def change(self, fields: Mapping[str, Any]) -> None:
        """Change fields of its spec."""
        self.cron_job = replace(self.cron_job, spec=replace(self.cron_job.spec, **fields))
        self._reconcile()

    def _reconcile(self) -> None:
        children = [_child(job) for job in self.jobs.values()]
        step = next_step(self.cron_job, self._created, self._history, children, self._context.now)
        for event in step.events:
            if event.reason == "InvalidSchedule":
                self._context.note(f"workloads: {self._template.workload}: {event.message}")
        for job in step.delete:
            self.jobs.pop(job.name).delete()
        self._history = step.history
        if step.scheduled is not None:
            name = job_name(self.cron_job.metadata.name, step.scheduled)
            # Of schedules with several times in a minute, only one Job is created in each.
            created = self.jobs.get(name)
            self._history = started_now(step, Active(name, name))
            if created is None:
                self._start(name)
            self._looks.soon()
        self._looks.after(step.after)

    def _start(self, name: str) -> None:
        job = JobController(self._context, self._template, name)
        self._follow(job)
        job.begin()

    def _follow(self, job: JobController) -> None:
        self.jobs[job.name] = job
        job.on_finish = self._looks.soon
        job.on_expiry = partial(self._expired, job)

    def _expired(self, job: JobController) -> None:
        del self.jobs[job.name]
        self._looks.soon()


def _child(job: JobController) -> Child:
    verdict, finished = job.progress.verdict, job.finished_at
    outcome = "" if verdict is None or finished is None else FINAL[verdict.type]
    return Child(
        name=job.name,
        uid=job.name,
        started=job.progress.started,
        outcome=outcome,
        completed=finished if verdict is None or verdict.type != FAILURE_TARGET else None,
    )
