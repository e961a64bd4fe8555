"""When a controller reconciles: a moment after a change, and at the time that its last reconcile asked for.

Upstream: k8s.io/client-go/util/workqueue.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stowplan.drivers.virtual_time.driver import Call
from stowplan_lab.simulation.simulation_context import SimulationContext

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
