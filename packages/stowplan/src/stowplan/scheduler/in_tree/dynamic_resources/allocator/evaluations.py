"""Evaluations of expensive expressions in portions: suspended when a budget is spent, and resumed with the next one.

An expression may take a second of CPU for one device, and an evaluation, which is nested Python calls, cannot be
suspended by itself. So it gets a stack of its own: a thread that is used as a coroutine. It runs only while its caller
waits for it, and waits while the caller runs. Nothing runs concurrently, and suspension depends on costs alone, so
results are deterministic. Only expensive evaluations get a thread: see `selectors.py`.
"""

from __future__ import annotations

from threading import Semaphore, Thread
from weakref import finalize

from stowplan.kube.cel.device_selectors import Device, DeviceSelector, Evaluation, EvaluationError

#: Minimum cost of a budget check, because steps without a cost take time, too.
_LEAST_COST = 50


class _Exchange:
    """State shared between the two sides; the thread refers to nothing else."""

    def __init__(self) -> None:
        self.resumed = Semaphore(0)
        self.stopped = Semaphore(0)
        #: Cost until the evaluation is suspended.
        self.left = 0
        #: Cost at the last check.
        self.cost = 0
        self.abandoned = False
        self.outcome: Evaluation | EvaluationError | None = None

    def look(self, cost: int) -> bool:
        """Called by the evaluation periodically; True aborts it."""
        self.left -= max(cost - self.cost, _LEAST_COST)
        self.cost = cost
        if self.left <= 0:
            self.stopped.release()
            self.resumed.acquire()
        return self.abandoned

    def abandon(self) -> None:
        self.abandoned = True
        self.resumed.release()


class SlowEvaluation:
    """An evaluation that can be resumed with a new budget."""

    def __init__(self, selector: DeviceSelector, device: Device) -> None:
        self._exchange = _Exchange()
        # Ends an evaluation that is no longer referenced, whose thread would otherwise wait forever.
        finalize(self, self._exchange.abandon).atexit = False
        self._thread = Thread(target=_evaluate, args=(selector, device, self._exchange), daemon=True)
        self._thread.start()

    def run(self, steps: int) -> tuple[Evaluation | EvaluationError | None, int]:
        """The outcome (None if suspended), and the steps taken. Raises what the evaluation raised."""
        exchange = self._exchange
        exchange.left = steps
        exchange.resumed.release()
        exchange.stopped.acquire()
        return exchange.outcome, steps - exchange.left


def _evaluate(selector: DeviceSelector, device: Device, exchange: _Exchange) -> None:
    exchange.resumed.acquire()
    if exchange.abandoned:
        return
    try:
        exchange.outcome = selector.evaluate(device, interrupted=exchange.look)
        exchange.left -= exchange.outcome.cost - exchange.cost
    except EvaluationError as e:
        exchange.outcome = e
    except BaseException as e:  # a bug: must reach the caller
        exchange.outcome = EvaluationError(f"internal error: {e!r}")
    exchange.stopped.release()
