"""Carrying out what the engine wants done, on an event loop: one task for each effect that is answered.

Effects about one object go one after the other, in the engine's order; others side by side. What an answer means is the
engine's business: here it only becomes a value, `Done`, `Refused` or `Unknown`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from stowplan.api.api_errors import ApiError
from stowplan.api.decode import DecodeError
from stowplan.api.port import Unreachable
from stowplan.client.errors import OutcomeUnknown
from stowplan.client.events.event_series import EventKey
from stowplan.engine.effects import Cancel, RunPlugin, Tell, Wake, Withdraw
from stowplan.framework.binding import PluginGaveUpError
from stowplan.framework.requests import Ask, Bind, Create, Delete, Done, Outcome, Patch, Read, Refused, Unknown, Update
from stowplan.framework.status import error as error_status
from stowplan.klog import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from stowplan.api.port import Api
    from stowplan.client.events.event_recorder import EventBroadcaster
    from stowplan.engine.effects import Effect
    from stowplan.framework.requests import Request
    from stowplan.framework.status import Status

_log = get_logger(__name__)


class Engine(Protocol):
    """Whom effects come from, and answers go to."""

    def run_plugin(self, action: RunPlugin, /) -> Coroutine[Any, Any, Status | None]: ...

    def answer(self, number: int, outcome: Outcome, /) -> None: ...

    def wake_at(self, at: float, /) -> None: ...


class Asker(Protocol):
    """Puts questions to an extender."""

    async def ask(self, verb: str, question: Any, /) -> Any:
        """The answer, a plain value; raise if there is none."""


class Effects:
    def __init__(
        self,
        api: Api,
        engine: Engine,
        *,
        broadcaster: EventBroadcaster,
        hostname: str,
        askers: Mapping[str, Asker],
    ) -> None:
        """`askers`: by the extender's name."""
        self._api = api
        self._engine = engine
        self._broadcaster = broadcaster
        self._hostname = hostname
        self._askers = askers
        #: Number -> its task, while it is under way.
        self.tasks: dict[int, asyncio.Task[None]] = {}
        #: Object -> the last request about it that is under way.
        self._last: dict[str, asyncio.Task[None]] = {}
        #: Those that the engine has broken off.
        self._cancelled: set[int] = set()
        #: Nothing is sent any more.
        self.halted = False
        self._begin: dict[type[Any], Callable[[int, Any], None]] = {
            Tell: self._tell,
            Wake: self._wake,
            Cancel: self._cancel,
            Withdraw: self._withdraw,
            RunPlugin: self._run_plugin,
            Ask: self._ask,
            **dict.fromkeys((Bind, Create, Update, Patch, Delete, Read), self._request),
        }

    def carry_out(self, effects: Sequence[Effect]) -> None:
        if self.halted:
            return
        for effect in effects:
            self._begin[type(effect.action)](effect.number, effect.action)

    def abandon(self, tasks: set[asyncio.Task[Any]]) -> None:
        """Wait no longer for tasks that do not end."""
        self.tasks = {number: task for number, task in self.tasks.items() if task not in tasks}

    # -- effects without an answer ------------------------------------------------------------------------------------

    def _tell(self, number: int, tell: Tell) -> None:
        instance = f"{tell.profile}-{self._hostname}"
        key = EventKey(tell.type_, tell.action, tell.reason, tell.profile, instance, tell.regarding, tell.related)
        self._broadcaster.record(key, tell.note)

    def _wake(self, number: int, wake: Wake) -> None:
        self._engine.wake_at(wake.at)

    def _cancel(self, number: int, cancel: Cancel) -> None:
        task = self.tasks.get(cancel.number)
        if task is not None:
            self._cancelled.add(cancel.number)
            task.cancel(cancel.why)

    def _withdraw(self, number: int, withdraw: Withdraw) -> None:
        task = self.tasks.get(withdraw.number)
        if task is not None:
            task.cancel()

    # -- effects with one ---------------------------------------------------------------------------------------------

    def _request(self, number: int, request: Request) -> None:
        subject = request.subject
        before = self._last.get(subject)
        work = self._send(request)
        task = self._spawn(number, work if before is None else _after(before, work), name=f"{subject} ({number})")
        self._last[subject] = task
        task.add_done_callback(lambda ended: self._forget(subject, ended))

    def _forget(self, subject: str, task: asyncio.Task[None]) -> None:
        if self._last.get(subject) is task:
            del self._last[subject]

    def _ask(self, number: int, ask: Ask) -> None:
        self._spawn(number, self._told(ask), name=f"{ask.verb} of {ask.who} ({number})")

    async def _told(self, ask: Ask) -> Outcome:
        try:
            return Done(await self._askers[ask.who].ask(ask.verb, ask.question))
        except OutcomeUnknown as error:
            return Unknown(error)
        except Exception as error:
            return Refused(error)

    def _run_plugin(self, number: int, action: RunPlugin) -> None:
        name = f"{action.point} of {action.pod} by {action.plugin}"
        self._spawn(number, self._called(number, self._engine.run_plugin(action)), name=name)

    def _spawn(self, number: int, work: Coroutine[Any, Any, Outcome], *, name: str) -> asyncio.Task[None]:
        task = self.tasks[number] = asyncio.create_task(self._answered(number, work), name=name)
        task.add_done_callback(self._ended)
        return task

    async def _answered(self, number: int, work: Coroutine[Any, Any, Outcome]) -> None:
        try:
            outcome = await work
        finally:
            self.tasks.pop(number, None)
            self._cancelled.discard(number)
        if not self.halted:
            self._engine.answer(number, outcome)

    @staticmethod
    def _ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (failed := task.exception()) is not None:
            _log.error(failed, "a background task failed", trace=True)

    async def _called(self, number: int, call: Coroutine[Any, Any, Status | None]) -> Outcome:
        try:
            answer = await call
        except asyncio.CancelledError as cancelled:
            if number in self._cancelled:
                return Done(error_status(str(cancelled)))
            if _is_cancelled():
                raise
            return Done(error_status(PluginGaveUpError()))
        if _is_cancelled() and number not in self._cancelled:
            # The plugin swallowed it.
            raise asyncio.CancelledError
        return Done(answer)

    async def _send(self, request: Request) -> Outcome:
        try:
            return Done(await self._asked(request))
        except OutcomeUnknown as error:
            return Unknown(error)
        except DecodeError as error:
            return Refused(error) if isinstance(request, Read) else Unknown(error)
        except (ApiError, Unreachable) as error:
            return Refused(error)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            # Binds that wait for their turn are given up at the end.
            return Refused(PluginGaveUpError())
        except Exception as error:
            return Refused(error)

    async def _asked(self, request: Request) -> Any:
        api = self._api
        match request:
            case Bind():
                return await api.bind(
                    namespace=request.namespace, name=request.name, uid=request.uid, node=request.node
                )
            case Patch():
                return await api.patch(
                    request.kind,
                    request.name,
                    request.body,
                    type_=request.type_,
                    namespace=request.namespace,
                    subresource=request.subresource,
                    lane=request.lane,
                )
            case Delete():
                return await api.delete(
                    request.kind,
                    request.name,
                    namespace=request.namespace,
                    uid=request.uid,
                    resource_version=request.resource_version,
                )
            case Read():
                return await api.get(request.kind, request.name, namespace=request.namespace)
            case Create():
                return await api.create(request.obj)
            case Update():
                return await api.update(request.obj)
        raise TypeError(f"no such request: {request!r}")


async def _after(before: asyncio.Task[None], work: Coroutine[Any, Any, Outcome]) -> Outcome:
    try:
        await asyncio.wait([before])
    except asyncio.CancelledError:
        work.close()
        raise
    return await work


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
