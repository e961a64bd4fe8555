"""Carry out effects on an event loop, one task per effect with an answer.

Effects on one object are carried out in the engine's order; others concurrently. Outcomes are interpreted by the
engine: here they only become values, `Done`, `Refused` or `Unknown`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from stowplan.drivers.live.requests import response_to
from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.port import Unreachable
from stowplan.kube.klog import get_logger
from stowplan.net.client.client_errors import NoResponse, OutcomeUnknown
from stowplan.net.client.events.event_series import EventKey
from stowplan.scheduler.engine.effects import Cancel, EmitEvent, Pause, RunPlugin, Wake, Withdraw
from stowplan.scheduler.engine.inputs import Answer
from stowplan.scheduler.framework.requests import (
    Ask,
    Bind,
    Create,
    Delete,
    Done,
    Outcome,
    Patch,
    Read,
    Refused,
    Unknown,
    Update,
)
from stowplan.scheduler.framework.runtime.binding import PluginCancelledItselfError
from stowplan.scheduler.framework.status import error as error_status

if TYPE_CHECKING:
    from stowplan.kube.api.port import Api
    from stowplan.net.client.events.event_recorder import EventBroadcaster
    from stowplan.scheduler.engine.effects import Effect
    from stowplan.scheduler.engine.engine import Engine
    from stowplan.scheduler.engine.inputs import Input
    from stowplan.scheduler.framework.requests import Request

#: Seconds for other pods before long work continues. A portion of it takes about 3 ms.
_PAUSE = 0.01

_log = get_logger(__name__)


class ExtenderClient(Protocol):
    """Sends questions to an extender."""

    async def ask(self, verb: str, question: Any, /) -> Any:
        """The answer, a plain value; raises if there is none."""


class ExtenderClients(Protocol):
    """The clients of extenders, by name."""

    def get(self, who: str, /) -> ExtenderClient | None: ...


class _UnderWay:
    """An effect without an outcome yet."""

    __slots__ = ("action", "cancelled_for", "task", "withdrawn")

    def __init__(self, action: Request | RunPlugin | Ask | Pause, task: asyncio.Task[None]) -> None:
        self.action = action
        self.task = task
        #: Why the engine cancelled it; None if it did not.
        self.cancelled_for: str | None = None
        #: Whether its outcome is no longer needed.
        self.withdrawn = False


class Effects:
    def __init__(
        self,
        api: Api,
        engine: Engine,
        *,
        submit: Callable[[Input], None],
        wake_at: Callable[[float], None],
        broadcaster: EventBroadcaster,
        hostname: str,
        extender_clients: ExtenderClients,
    ) -> None:
        self._api = api
        self._engine = engine
        self._submit = submit
        self._wake_at = wake_at
        self._broadcaster = broadcaster
        self._hostname = hostname
        self._extender_clients = extender_clients
        self._under_way: dict[int, _UnderWay] = {}
        #: Object -> its requests in progress, in order.
        self._lines: dict[str, list[asyncio.Task[None]]] = {}
        #: Number of requests that were dropped before they were sent; the engine will not get their outcomes.
        self.given_up = 0
        #: Scheduling has ended: only Events and statuses are still written.
        self.is_over = False
        #: Nothing is sent any more.
        self.halted = False
        self._begin: dict[type[Any], Callable[[int, Any], None]] = {
            EmitEvent: self._record_event,
            Wake: self._wake,
            Cancel: self._cancel,
            Withdraw: self._withdraw,
            RunPlugin: self._run_plugin,
            Ask: self._ask,
            Pause: self._pause,
            **dict.fromkeys((Bind, Create, Update, Patch, Delete, Read), self._request),
        }

    def carry_out(self, effects: Sequence[Effect]) -> None:
        if self.halted:
            return
        for effect in effects:
            self._begin[type(effect.action)](effect.number, effect.action)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks of effects in progress."""
        return [running.task for running in self._under_way.values()]

    def end(self) -> list[asyncio.Task[None]]:
        """From now on only write Events and statuses; return the tasks of everything else."""
        self.is_over = True
        return [running.task for running in self._under_way.values() if not _outlives_scheduling(running.action)]

    def abandon(self, tasks: Container[asyncio.Task[Any]]) -> None:
        """Stop waiting for tasks that do not end."""
        self._under_way = {number: running for number, running in self._under_way.items() if running.task not in tasks}

    # -- effects without an answer ------------------------------------------------------------------------------------

    def _record_event(self, number: int, event: EmitEvent) -> None:
        instance = f"{event.profile}-{self._hostname}"
        key = EventKey(event.type_, event.action, event.reason, event.profile, instance, event.regarding, event.related)
        self._broadcaster.record(key, event.note)

    def _wake(self, number: int, wake: Wake) -> None:
        self._wake_at(wake.at)

    def _cancel(self, number: int, cancel: Cancel) -> None:
        """Cancel a plugin's call. A request cannot be cancelled."""
        running = self._under_way.get(cancel.number)
        if running is not None and isinstance(running.action, RunPlugin) and running.cancelled_for is None:
            running.cancelled_for = cancel.why
            running.task.cancel(cancel.why)

    def _withdraw(self, number: int, withdraw: Withdraw) -> None:
        running = self._under_way.get(withdraw.number)
        if running is not None:
            running.withdrawn = True
            running.task.cancel()

    # -- effects with an outcome ---------------------------------------------------------------------------------------

    def _request(self, number: int, request: Request) -> None:
        if self.is_over and not _outlives_scheduling(request):
            return
        subject = request.subject
        line = self._lines.setdefault(subject, [])
        # All of them, not only the last: that one may be withdrawn while earlier ones are in progress. A hanging
        # binding must not block an eviction of the pod: bindings wait for other requests, which do not wait for them.
        task = self._spawn(number, request, self._sent(number, request, tuple(line)), name=f"{subject} ({number})")
        if not isinstance(request, Bind):
            line.append(task)
            task.add_done_callback(partial(self._leave, subject))
        elif not line:
            del self._lines[subject]

    def _leave(self, subject: str, task: asyncio.Task[None]) -> None:
        line = self._lines[subject]
        line.remove(task)
        if not line:
            del self._lines[subject]

    def _ask(self, number: int, ask: Ask) -> None:
        if not self.is_over:
            self._spawn(number, ask, self._put_to_extender(number, ask), name=f"{ask.verb} of {ask.who} ({number})")

    async def _put_to_extender(self, number: int, ask: Ask) -> None:
        self._answer(number, await self.ask_extender(ask))

    async def ask_extender(self, ask: Ask) -> Outcome:
        """An extender's answer."""
        extender_client = self._extender_clients.get(ask.who)
        if extender_client is None:
            return Refused(LookupError(f"there is no client for extender {ask.who}"))
        try:
            return Done(await extender_client.ask(ask.verb, ask.question))
        except NoResponse as error:
            return Unknown(error) if error.sent else Refused(error)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return Unknown(PluginCancelledItselfError())
        except Exception as error:
            return Refused(error)

    def _pause(self, number: int, pause: Pause) -> None:
        if not self.is_over:
            self._spawn(number, pause, self._paused(number), name=f"pause ({number})")

    async def _paused(self, number: int) -> None:
        await asyncio.sleep(_PAUSE)
        self._answer(number, Done())

    def _run_plugin(self, number: int, action: RunPlugin) -> None:
        if not self.is_over:
            name = f"{action.point} of {action.pod} by {action.plugin}"
            self._spawn(number, action, self._called(number, action), name=name)

    def _spawn(
        self, number: int, action: Request | RunPlugin | Ask | Pause, work: Coroutine[Any, Any, None], *, name: str
    ) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._under_way[number] = _UnderWay(action, task)
        task.add_done_callback(partial(self._ended, number))
        return task

    def _answer(self, number: int, outcome: Outcome) -> None:
        # First, because the following code may inspect what is in progress.
        self._under_way.pop(number, None)
        if not self.halted:
            self._submit(Answer(number, outcome))

    def _ended(self, number: int, task: asyncio.Task[None]) -> None:
        running = self._under_way.pop(number, None)
        if not task.cancelled():
            failed = task.exception()
            if failed is not None:
                _log.error(failed, "a background task failed", trace=True)
        elif running is None or running.withdrawn or self.is_over:
            pass
        elif running.cancelled_for is not None:
            # Possibly before it started.
            self._answer(number, Done(error_status(running.cancelled_for)))
        else:
            self.given_up += 1

    async def _called(self, number: int, action: RunPlugin) -> None:
        try:
            answer = await self._engine.run_plugin(action, cancelled=(asyncio.CancelledError,))
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            answer = error_status(PluginCancelledItselfError())
        running = self._under_way.get(number)
        if _is_cancelled() and (running is None or running.cancelled_for is None):
            # The plugin suppressed it.
            raise asyncio.CancelledError
        self._answer(number, Done(answer))

    async def _sent(self, number: int, request: Request, before: Sequence[asyncio.Task[None]]) -> None:
        if before:
            await asyncio.wait(before)
        self._answer(number, await self._outcome(request))

    async def _outcome(self, request: Request) -> Outcome:
        try:
            return Done(await response_to(self._api, request))
        except OutcomeUnknown as error:
            return Unknown(error)
        except DecodeError as error:
            return Refused(error) if isinstance(request, Read) else Unknown(error)
        except (ApiError, Unreachable) as error:
            return Refused(error)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            # Something within it was cancelled, so its progress is unknown.
            return Unknown(PluginCancelledItselfError())
        except Exception as error:
            return Refused(error)


def _outlives_scheduling(action: Request | RunPlugin | Ask | Pause) -> bool:
    """Whether it matters even after scheduling has ended: pod statuses."""
    return isinstance(action, Patch) and action.lane == "status"


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
