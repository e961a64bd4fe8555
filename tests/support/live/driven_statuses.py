"""The engine's pod statuses alone, on the live driver."""

import asyncio
from contextlib import contextmanager
from typing import Any

from stowplan.drivers.live.effects import Effects
from stowplan.scheduler.engine.outbox import Outbox
from stowplan.scheduler.engine.statuses import PodStatuses


class DrivenStatuses:
    def __init__(self, api, *, times, report):
        self._times = times
        self._outbox = Outbox()
        self.statuses = PodStatuses(self._outbox, random=times.random, report=report)
        engine: Any = self
        nothing: Any = None
        self._effects = Effects(
            api,
            engine,
            submit=self._submit,
            wake_at=self._wake_at,
            broadcaster=nothing,
            hostname="",
            extender_clients={},
        )
        self._alarms = set()

    # -- calls of the engine's other parts ----------------------------------------------------------------------------

    def write(self, pod, **what):
        with self._step():
            self.statuses.write(pod, **what)

    def observe(self, pod):
        with self._step():
            self.statuses.observe(pod)

    async def patch(self, pod, **what):
        """Waits until it is written; raises the error if it fails."""
        await self.patching(pod, **what)

    def patching(self, pod, **what):
        listener = _Listener()
        with self._step():
            self.statuses.patch(pod, listener, **what)
        return listener.written

    @property
    def idle(self):
        return self.statuses.idle

    async def close(self, seconds):
        """Wait for requests in progress up to a limit, and send nothing more."""
        with self._step():
            self.statuses.last_try()
        for task in self._alarms:
            task.cancel()
        await asyncio.wait((*self._effects.tasks, asyncio.ensure_future(asyncio.sleep(0))), timeout=seconds)
        self._effects.halted = True
        for task in self._effects.tasks:
            task.cancel()
        await asyncio.gather(*self._effects.tasks, *self._alarms, return_exceptions=True)
        self.statuses.close()

    # -- the driver ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _step(self):
        self._outbox.now = self._times.clock()
        self._outbox.ahead = self._times.wall_clock() - self._outbox.now
        yield
        self._outbox.finish()
        assert self.statuses.problems() == []
        self._effects.carry_out(self._outbox.take())

    def _submit(self, answer):
        with self._step():
            self._outbox.answered(answer.number, answer.outcome)

    def _wake_at(self, at):
        task = asyncio.create_task(self._ring(at))
        self._alarms.add(task)
        task.add_done_callback(self._alarms.discard)

    async def _ring(self, at):
        await self._times.sleep(max(0.0, at - self._times.clock()))
        with self._step():
            self._outbox.ring()


class _Listener:
    def __init__(self):
        self.written = asyncio.get_running_loop().create_future()

    def status_written(self, failed):
        if failed is None:
            self.written.set_result(None)
        else:
            self.written.set_exception(failed)
