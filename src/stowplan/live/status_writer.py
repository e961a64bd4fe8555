"""Pod statuses on their way to the API server: per pod only the newest, and binds never wait for them.

`write` notes what a pod's status shall say and returns. A few workers send the notes in the status lane; notes for a
pod that wait, or come while an earlier patch of it is under way, are merged into one. So ten thousand pods that fail at
once are ten thousand notes, and a pod that fails again before its turn costs nothing more.

A patch is computed when it is sent, against the newest known status: the informer's, or the last patch's answer, which
may be ahead of the informer.

A note that cannot be sent is dropped after a few tries, as the pod's next failure writes it again. For a pod that is
about to be bound, `withdraw` makes sure that no older note is sent after the binding.

Upstream: PatchPodStatus in pkg/scheduler/util/utils.go; merging as in pkg/scheduler/framework/api_calls.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.api.api_errors import ApiError, Conflict, InternalError, NotFound, ServiceUnavailable
from stowplan.api.decode import DecodeError
from stowplan.api.port import Unreachable
from stowplan.api.timestamps import timestamp
from stowplan.api.types import Pod
from stowplan.client.errors import OutcomeUnknown
from stowplan.client.workers import Workers
from stowplan.engine.pod_status import status_patch
from stowplan.timing.backoff import Backoff, BackoffPolicy
from stowplan.timing.reports import Reports

if TYPE_CHECKING:
    from collections.abc import Callable

    from stowplan.api.port import Api, Lane
    from stowplan.api.types import PodCondition, PodStatus
    from stowplan.timing.times import Times

MAX_CONCURRENT_PATCHES = 16
MAX_TRIES = 4
RETRYING = BackoffPolicy(initial=0.01, factor=5.0, cap=1.0, jitter=0.1)

_FAILURES = (ApiError, Unreachable)


class _Note:
    """What is to be written of a pod."""

    __slots__ = ("conditions", "nominated_node_name", "waiters")

    def __init__(self) -> None:
        #: By type. Their `last_transition_time` is when they were noted.
        self.conditions: dict[str, PodCondition] = {}
        self.nominated_node_name: str | None = None
        #: Who wants to know how it ends.
        self.waiters: list[asyncio.Future[None]] = []

    def add(self, condition: PodCondition | None, nominated_node_name: str | None) -> None:
        """Note something newer."""
        if condition is not None:
            earlier = self.conditions.get(condition.type)
            if earlier is not None and earlier.status == condition.status:
                condition = replace(condition, last_transition_time=earlier.last_transition_time)
            self.conditions[condition.type] = condition
        if nominated_node_name is not None:
            self.nominated_node_name = nominated_node_name

    def followed_by(self, newer: _Note | None) -> _Note:
        if newer is not None:
            for condition in newer.conditions.values():
                self.add(condition, None)
            self.add(None, newer.nominated_node_name)
            self.waiters += newer.waiters
        return self

    def end(self, error: Exception | None = None) -> bool:
        """Tell who waits; return whether anybody did."""
        waiting = [waiter for waiter in self.waiters if not waiter.done()]
        for waiter in waiting:
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
        return bool(waiting)


class _Known:
    """A pod of which something is to be written, or was written and did not come back from the informer yet."""

    __slots__ = ("ahead", "lock", "name", "namespace", "note", "status", "uid", "version")

    def __init__(self, pod: Pod) -> None:
        self.uid = _uid(pod)
        self.namespace = pod.metadata.namespace or "default"
        self.name = pod.metadata.name
        self.status: PodStatus = pod.status
        self.version = _version(pod)
        #: Whether the status is from an answer that the informer has not come up to.
        self.ahead = False
        self.note: _Note | None = None
        #: Held while a patch is under way.
        self.lock = asyncio.Lock()

    def see(self, pod: Pod, *, answer: bool = False) -> None:
        """Take over what somebody knows of the pod, if it is not older."""
        version = _version(pod)
        if version < self.version or _uid(pod) != self.uid:
            return
        # A bound pod is written to once, if at all: its answer is not worth keeping.
        self.ahead = answer and version > self.version and not pod.spec.node_name
        self.status, self.version = pod.status, version


class PodStatusWriter:
    def __init__(self, api: Api, *, times: Times, report: Callable[[str], None]) -> None:
        self._api = api
        self._times = times
        self._reports = Reports(report, clock=times.clock)
        self._known: dict[str, _Known] = {}
        #: UIDs of pods with a note.
        self._workers: Workers[str] = Workers(self._send_noted, limit=MAX_CONCURRENT_PATCHES, failed=self._send_failed)
        self._workers.start()
        #: Patches that somebody awaits, and those of them that let time pass before they are tried again.
        self._awaited = 0
        self._resting = 0
        self._last_try = False

    @property
    def idle(self) -> bool:
        """Whether nothing is under way or can begin before time passes."""
        return self._workers.idle and self._awaited == self._resting

    def write(self, pod: Pod, *, condition: PodCondition | None = None, nominated_node_name: str | None = None) -> None:
        """Have the status changed, some time soon. A nominated node of None leaves it as it is, "" clears it."""
        uid = _uid(pod)
        known = self._known.get(uid)
        if known is None:
            conditions = () if condition is None else (condition,)
            if status_patch(pod.status, conditions=conditions, nominated_node_name=nominated_node_name) is None:
                return
        _, _, first = self._noted(pod, condition, nominated_node_name)
        if first:
            self._workers.put(uid)

    async def patch(
        self, pod: Pod, *, condition: PodCondition | None = None, nominated_node_name: str | None = None
    ) -> None:
        """Change the status now; raise ApiError or Unreachable. A pod's way goes on only then: it passes `write`s."""
        known, note, _ = self._noted(pod, condition, nominated_node_name)
        done = asyncio.get_running_loop().create_future()
        note.waiters.append(done)
        self._awaited += 1
        try:
            await self._send(known, lane="default")
            await done
        except asyncio.CancelledError:
            if known.note is not None:
                # What else was noted meanwhile relied on us.
                self._workers.put(known.uid)
            raise
        finally:
            self._awaited -= 1
            done.cancel()

    def observe(self, pod: Pod) -> None:
        """Hear what the informer says of a pod."""
        known = self._known.get(_uid(pod))
        if known is None:
            return
        known.see(pod)
        if pod.spec.node_name and known.note is not None and not known.note.waiters:
            # That it could not be scheduled is no longer true.
            known.note = None
        self._tidy(known)

    def forget(self, uid: str) -> None:
        """Drop what waits: the pod is gone, or bound."""
        known = self._known.pop(uid, None)
        if known is not None and known.note is not None:
            known.note.end()
            known.note = None

    async def withdraw(self, uid: str) -> None:
        """Drop what waits, and wait for what is under way: the pod is about to be bound."""
        known = self._known.get(uid)
        if known is None:
            return
        self.forget(uid)
        async with known.lock:
            # What was under way is over.
            pass

    async def close(self, seconds: float) -> None:
        """Send what waits, as far as the time allows."""
        self._last_try = True
        await self._workers.finish(self._times.sleep(seconds))
        self._reports.close()

    async def abandon(self) -> None:
        """Send nothing more; what is under way may or may not get there."""
        await self._workers.halt()
        self._reports.close()

    # -- notes --------------------------------------------------------------------------------------------------------

    def _noted(
        self, pod: Pod, condition: PodCondition | None, nominated_node_name: str | None
    ) -> tuple[_Known, _Note, bool]:
        """Note it; the third is whether nothing else waits to be written of this pod."""
        uid = _uid(pod)
        known = self._known.get(uid)
        if known is None:
            known = self._known[uid] = _Known(pod)
        else:
            known.see(pod)
        first = known.note is None
        note = known.note = known.note or _Note()
        if condition is not None:
            condition = replace(condition, last_transition_time=timestamp(self._times.wall_clock()))
        note.add(condition, nominated_node_name)
        return known, note, first

    def _tidy(self, known: _Known) -> None:
        if known.note is None and not known.ahead and not known.lock.locked() and self._is_known(known):
            del self._known[known.uid]

    def _is_known(self, known: _Known) -> bool:
        return self._known.get(known.uid) is known

    # -- sending ------------------------------------------------------------------------------------------------------

    async def _send_noted(self, uid: str) -> None:
        known = self._known.get(uid)
        if known is not None:
            await self._send(known, lane="status")

    def _send_failed(self, uid: str, error: Exception) -> None:
        known = self._known.get(uid)
        pod = uid if known is None else f"{known.namespace}/{known.name}"
        self._reports.say("Writing a pod's status fails", f"{pod}: {error!r}")

    async def _send(self, known: _Known, *, lane: Lane) -> None:
        async with known.lock:
            note, known.note = known.note, None
            if note is not None:
                await self._carry_out(known, note, lane)
        self._tidy(known)

    async def _carry_out(self, known: _Known, note: _Note, lane: Lane) -> None:
        try:
            await self._patch(known, note, lane)
        except asyncio.CancelledError:
            self._put_back(known, note)
            raise
        except _FAILURES as error:
            # A pod that is gone has no status.
            if not note.end(error) and not isinstance(error, NotFound):
                self._reports.say("A pod's status cannot be written", f"{known.namespace}/{known.name}: {error}")
        except Exception as error:
            # A bug; but nobody may wait for ever.
            if not note.end(error):
                raise
        else:
            note.end()

    def _put_back(self, known: _Known, note: _Note) -> None:
        """Leave it to whoever comes next: each who may be cancelled puts the pod back into the queue."""
        if self._is_known(known):
            known.note = note.followed_by(known.note)
        else:
            note.end()

    async def _patch(self, known: _Known, note: _Note, lane: Lane) -> None:
        backoff = Backoff(RETRYING, clock=self._times.clock, random=self._times.random)
        tries = 0
        while True:
            body = status_patch(
                known.status, conditions=note.conditions.values(), nominated_node_name=note.nominated_node_name
            )
            if body is None:
                return
            tries += 1
            try:
                answer = await self._api.patch(
                    Pod,
                    known.name,
                    body,
                    type_="strategic",
                    namespace=known.namespace,
                    subresource="status",
                    lane=lane,
                )
            except _FAILURES as error:
                if tries == MAX_TRIES or self._last_try or not _is_retriable(error):
                    raise
                await self._rest(backoff.next(), lane)
            except DecodeError as error:
                self._reports.say("A pod comes back that cannot be read", f"{known.namespace}/{known.name}: {error}")
                return
            else:
                known.see(answer, answer=True)
                return

    async def _rest(self, seconds: float, lane: Lane) -> None:
        if lane == "status":
            await self._workers.rest(self._times.sleep(seconds))
            return
        self._resting += 1
        try:
            await self._times.sleep(seconds)
        finally:
            self._resting -= 1


def _is_retriable(error: Exception) -> bool:
    if isinstance(error, Unreachable):
        # Like upstream's "connection refused": it was not carried out.
        return not isinstance(error, OutcomeUnknown)
    return isinstance(error, InternalError | ServiceUnavailable | Conflict)


def _uid(pod: Pod) -> str:
    return pod.metadata.uid or f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"


def _version(pod: Pod) -> int:
    """Of two objects with the same UID the one with the larger is newer, as Kubernetes promises."""
    version = pod.metadata.resource_version
    return int(version) if version.isdecimal() else 0
