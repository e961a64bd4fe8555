"""Evaluations of expensive expressions in portions: stopped when a budget is spent, and continued with the next one.

An expression may take a second of CPU for one device, and an evaluation cannot be left in the middle: it is a tower of
Python calls. So it is given a stack of its own, a thread, used as a coroutine: it runs only while its caller waits for
it, and waits while the caller runs. Nothing happens at the same time, and when it stops depends on costs alone, so what
comes of it is the same each time. Only what is expensive gets a thread: see `selectors.py`.
"""

from __future__ import annotations

from threading import Semaphore, Thread
from typing import TYPE_CHECKING
from weakref import finalize

from stowplan.cel.device_selectors import Evaluation, EvaluationError

if TYPE_CHECKING:
    from stowplan.cel.device_selectors import Device, DeviceSelector

#: What a look at the budget costs at least: steps that cost nothing take time, too.
_LEAST_COST = 50


class _Exchange:
    """What the two sides hand to each other; the thread refers to nothing else."""

    def __init__(self) -> None:
        self.resumed = Semaphore(0)
        self.stopped = Semaphore(0)
        #: What the evaluation may cost until it stops.
        self.left = 0
        #: What it had cost when it was last looked at.
        self.cost = 0
        self.abandoned = False
        self.outcome: Evaluation | EvaluationError | None = None

    def look(self, cost: int) -> bool:
        """Called by the evaluation now and then; True ends it."""
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
        # An evaluation that nobody asks for any more ends: its thread would wait for ever.
        finalize(self, self._exchange.abandon).atexit = False
        self._thread = Thread(target=_evaluate, args=(selector, device, self._exchange), daemon=True)
        self._thread.start()

    def run(self, steps: int) -> tuple[Evaluation | EvaluationError | None, int]:
        """The outcome, None if it is to go on, and the steps that were taken. Raises what the evaluation raised."""
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
    except BaseException as e:  # a bug: whoever waits has to see it
        exchange.outcome = EvaluationError(f"internal error: {e!r}")
    exchange.stopped.release()
