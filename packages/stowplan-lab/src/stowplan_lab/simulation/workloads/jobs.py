"""A Job in virtual time: it runs a number of pods to completion, some at a time.

Upstream: pkg/controller/job.
"""

from __future__ import annotations

from stowplan_lab.simulation.results.ledger import Entry
from stowplan_lab.simulation.workloads.owners import WorkloadController


class JobController(WorkloadController):
    api_version = "batch/v1"
    _completed = 0

    @property
    def _wanted(self) -> int:
        return min(self.replicas, self._template.completions - self._completed)

    def _reconcile(self) -> None:
        while len(self._active) < self._wanted:
            self._make()

    def finished(self, entry: Entry) -> None:
        self._completed += 1
        super().finished(entry)

    def _replace(self) -> None:
        if len(self._active) < self._wanted:
            self._context.later(self._context.models.controller_delay, self._reconcile)
