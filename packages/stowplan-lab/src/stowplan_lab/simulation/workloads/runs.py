"""How long the pods of a workload run, and how often they fail: drawn when a pod is created.

Draws of failures have a random stream of their own, so that they do not change run times.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from stowplan_lab.simulation.definition.scenario_fields import FailuresSpec
from stowplan_lab.simulation.results.ledger import Origin
from stowplan_lab.simulation.simulation_context import SimulationContext
from stowplan_lab.simulation.workloads.owners import Template

#: Failures in a row, of a pod that practically always fails.
_MOST_FAILURES = 10_000


class Runs:
    """Of the pods of one workload, or of one of its controllers."""

    def __init__(self, context: SimulationContext, template: Template, name: str) -> None:
        self._workload = template.workload
        self._lifetime = template.lifetime
        # What is constant is not drawn: a random source takes a while to make.
        self._constant = None if template.lifetime is None else template.lifetime.always
        is_drawn = template.lifetime is not None and self._constant is None
        self._chance = context.chance(f"lifetimes of {name}") if is_drawn else None
        self._failures = None
        if template.failures is not None:
            self._failures = _Failures(template, context.chance(f"failures of {name}"))

    def origin(self, of: object = None) -> Origin:
        """For the next pod. `of`: the index for which a Job creates it."""
        lifetime = self._constant
        if self._chance is not None and self._lifetime is not None:
            lifetime = self._lifetime.draw(self._chance)
        origin = Origin(workload=self._workload, lifetime=lifetime)
        if self._failures is not None:
            self._failures.draw(origin, of)
        return origin


class _Failures:
    def __init__(self, template: Template, chance: Random) -> None:
        assert template.failures is not None
        self._spec: FailuresSpec = template.failures
        self._most = 1 if template.pod.spec.restart_policy == "Never" else _MOST_FAILURES
        self._is_job = template.job is not None
        self._chance = chance
        #: Failed runs of a Job so far.
        self._failed: Counter[object] = Counter()

    def draw(self, origin: Origin, of: object) -> None:
        origin.failures = self._number(of)
        if self._spec.after is not None:
            origin.fails_after = self._spec.after.draw(self._chance)

    def _number(self, of: object) -> int:
        if self._spec.times is not None:
            number = min(self._most, self._spec.times - self._failed[of])
            if self._is_job:
                self._failed[of] += number
            return number
        number = 0
        while number < self._most and self._chance.random() < self._spec.probability:
            number += 1
        return number
