"""The virtual-time driver: the engine on a small object store, with a clock that jumps to the next event.

Events are requests that reach the store, their responses, deliveries to watchers, arrivals from the caller, ends of
pods, and times at which the engine wants to be woken. Events of the same time are processed in the order in which they
were added (`agenda`). After the last one the engine tries pods as long as there are any, and then the clock advances.
The engine's requests for one object are carried out one after the other (a binding waits for earlier requests, but
nothing waits for a binding), and changes of one kind are delivered in order.

    store = ObjectStore()
    engine = Engine(config, registry=..., now=0.0, api=VirtualApi(), ...)
    time = VirtualTime(engine, store, runs_for=lambda pod: 60.0)
    time.feed((i / 100, Create(obj=a_pod(i))) for i in range(100_000))
    time.run()

No decisions are made here. The same engine, store, latencies and calls give the same inputs in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple, Protocol, get_args

from stowplan.drivers.virtual_time.agenda import Agenda
from stowplan.drivers.virtual_time.latency import NO_LATENCY, Latency
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.drivers.virtual_time.plugin_calls import PluginRun
from stowplan.drivers.virtual_time.simulated_cluster import PodEnd, SimulatedCluster, VolumesDue, Watcher
from stowplan.drivers.virtual_time.virtual_api import PendingCall
from stowplan.kube.api.api_errors import ApiError, NotFound
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.pod import Pod
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.engine.effects import Cancel, Effect, EmitEvent, Pause, RunPlugin, Wake, Withdraw
from stowplan.scheduler.engine.engine import SCHEDULE
from stowplan.scheduler.engine.inputs import Answer, Changes, Input, Schedule, Started
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
    Request,
    Update,
)
from stowplan.scheduler.framework.status import Status

_REQUESTS = (Bind, Create, Update, Patch, Delete, Read)
_NO_MORE = (inf, None)
#: Seconds for other pods before long work continues, as on a cluster.
PAUSE = 0.01
#: Inputs that are passed to the engine unchanged.
_HANDED_IN = tuple(kind for kind in get_args(Input) if kind not in (Answer, Changes, Schedule))
_NOBODY = "there is no one to answer {who} in this simulation"


class SteppedEngine(Protocol):
    """The part of `engine.engine.Engine` that its driver uses."""

    @property
    def wants_turn(self) -> bool: ...

    def step(self, input_: Input, now: float, /) -> Sequence[Effect]: ...

    def run_plugin(self, action: RunPlugin, /) -> Coroutine[Any, Any, Status | None]: ...

    def attach(self, driver: VirtualTime, /) -> None: ...


class Call(PlainStruct, frozen=True):
    """A callback of the caller, such as a model, that is due at a time."""

    action: Callable[[], object]


class _Sent(NamedTuple):
    """A request on its way to the store."""

    #: The recipient of the response: a plugin's call, or the engine, by the effect's number.
    sender: PluginRun | int
    pending: PendingCall
    #: Duration of the response in seconds.
    back: float


class _Feed:
    """Requests and callbacks of a caller, in time order, each drawn from its source when it is due."""

    __slots__ = ("request", "source")

    def __init__(self, source: Iterator[tuple[float, Request | Call]]) -> None:
        self.source = source
        #: The next one; None at the end.
        self.request: Request | Call | None = None

    def draw(self) -> float:
        """Draw the next request and return its time."""
        at, self.request = next(self.source, _NO_MORE)
        return at


class VirtualTime:
    def __init__(
        self,
        engine: SteppedEngine,
        store: ObjectStore,
        *,
        agenda: Agenda | None = None,
        latency: Latency = NO_LATENCY,
        kinds: Collection[type[ApiStruct]] | None = None,
        on_event: Callable[[EmitEvent], object] | None = None,
        ask: Callable[[Ask], Outcome] | None = None,
        runs_for: Callable[[Pod], float | None] | None = None,
        binds_volumes_after: float | None = None,
        pauses: float = PAUSE,
    ) -> None:
        """`agenda`: has the time to start at; None: 0. `kinds`: those that the engine watches; None: all.

        * `on_event` gets recorded Events; `ask` answers for extenders.
        * `runs_for` returns the duration of a placed pod in seconds, after which it is deleted; None: forever.
        * `binds_volumes_after`: seconds until a claim is bound for which the scheduler has selected a volume or a node
          (`volume_controllers`); None: never.
        * `pauses`: seconds until a cycle with more work than fits into one turn continues.
        """
        self._engine = engine
        self.store = store
        self._latency = latency
        self._on_event = on_event
        self._pauses = pauses
        self._answer_outside = ask
        self._agenda = agenda or Agenda(0.0)
        self._cluster = SimulatedCluster(
            store,
            self._agenda,
            latency=latency,
            kinds=kinds,
            runs_for=runs_for,
            binds_volumes_after=binds_volumes_after,
        )
        self._started = False
        #: Effects without an outcome yet: number -> call, for effects of a plugin's call.
        self._under_way: dict[int, PluginRun | None] = {}
        #: Object -> when its last request is answered.
        self._free_at: dict[str, float] = {}
        self._sweep_at = 1024
        #: Requests of callers that the store refused, with the time.
        self.refused: list[tuple[float, Request, Exception]] = []
        #: Set this to True to stop the clock; events of the current time are still processed.
        self.halted = False
        self._begin: dict[type[Any], Callable[[Effect], None]] = {
            EmitEvent: self._emit_event,
            Wake: self._wake,
            Cancel: self._cancel,
            Withdraw: self._withdraw,
            RunPlugin: self._run_plugin,
            Ask: self._ask,
            Pause: self._pause,
            **dict.fromkeys(_REQUESTS, self._queue_up if latency.instant else self._send),
        }
        self._do: dict[type[Any], Callable[[Any], None]] = {
            Effect: self._effect,
            Answer: self._answer,
            Changes: self._news,
            _Sent: self._arrive,
            PluginRun: self._resume,
            PodEnd: self._cluster.end,
            VolumesDue: self._cluster.run_volumes,
            _Feed: self._take_from,
            Call: _make,
            **dict.fromkeys(_REQUESTS, self._callers),
            **dict.fromkeys(_HANDED_IN, self.submit),
        }
        engine.attach(self)

    # -- for callers ---------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self._agenda.now

    def resume(self, wake_at: float | None, running: Iterable[Pod]) -> None:
        """Continue with an engine that was started elsewhere; must be called first, see `resuming`.

        `wake_at`: when it wants to be woken, if at all; `running`: pods that are already placed, and end like others.
        """
        self._started = True
        if wake_at is not None:
            self._agenda.wake(wake_at)
        for pod in running:
            self._cluster.take_over(pod)

    def write(self, request: Request, *, grace: int | None = None) -> Any:
        """Write to the store as another client and return the object; raises ApiError if the write is refused.

        The engine is notified when the clock advances. `grace`: of a deletion, instead of the latency model's.
        """
        changes = self._cluster.write(request, PendingCall(request, grace=grace))
        self._cluster.deliver(changes)
        return changes[-1].old if changes[-1].new is None else changes[-1].new

    def at(self, when: float, what: Request | Input | Call) -> None:
        """Schedule a request, an engine input or a callback; see also `refused`."""
        self._agenda.put(when, what)

    def watch(self, watcher: Watcher, *, first: bool = False) -> None:
        """Let a watcher observe every change in the store from now on; `first`: before the others."""
        watchers = self._cluster.watchers
        watchers.insert(0 if first else len(watchers), watcher)

    def end(self, pod: Pod) -> None:
        """End a running pod: delete it as its kubelet would; no-op if it is gone."""
        metadata = pod.metadata
        self._cluster.end(PodEnd(metadata.namespace, metadata.name, metadata.uid))

    def feed(self, requests: Iterable[tuple[float, Request | Call]]) -> None:
        """Schedule any number of requests with their times, in order; each is drawn when it is due."""
        self._await_next(_Feed(iter(requests)))

    def submit(self, input_: Input) -> None:
        """Pass an input to the engine now, and carry out the effects."""
        for effect in self._engine.step(input_, self._agenda.now):
            self._begin[type(effect.action)](effect)

    def run(self, until: float | None = None) -> None:
        """Run until only time could change anything: nothing is in progress, and no pod can be tried.

        Wake-up times of the engine are processed on the way, but do not keep the run going. With `until`, the clock
        does not advance past that time.
        """
        limit = inf if until is None else until
        self._settle()
        while not self.halted and self._agenda.go_on(limit, for_ticks=False):
            self._settle()

    def advance(self, seconds: float) -> None:
        """Advance the clock, processing everything that is due."""
        agenda = self._agenda
        until = agenda.now + seconds
        self._settle()
        while not self.halted and agenda.go_on(until, for_ticks=True):
            self._settle()
        if not self.halted or agenda.next > until:
            agenda.now = until

    def forget_volumes(self) -> None:
        """Forget what the controllers of volumes know: objects may change without them."""
        self._cluster.forget_volumes()

    def close(self) -> None:
        """Close plugins' coroutines that are in progress; the run cannot continue afterwards."""
        calls = [call for call in self._under_way.values() if call is not None and not call.ended]
        self._under_way.clear()
        for call in calls:
            call.stop()

    @property
    def next(self) -> float:
        """The next time at which anything is due; infinity if there is none."""
        return self._agenda.next

    @property
    def idle(self) -> bool:
        """Whether nothing is due but wake-up times of the engine."""
        return self._agenda.only_wakes

    @property
    def under_way(self) -> int:
        """Effects without an outcome yet."""
        return len(self._under_way)

    def _settle(self) -> None:
        """Process what is due at the current time, then try pods, until neither is left."""
        agenda, engine, do, begin = self._agenda, self._engine, self._do, self._begin
        line, now = agenda.line, agenda.now
        while True:
            while line:
                item = line.popleft()
                do[type(item)](item)
            if not self._started:
                self._started = True
                self.submit(Started())
            elif engine.wants_turn:
                for effect in engine.step(SCHEDULE, now):
                    begin[type(effect.action)](effect)
            else:
                return

    # -- effects ------------------------------------------------------------------------------------------------------

    def _emit_event(self, effect: Effect) -> None:
        if self._on_event is not None:
            self._on_event(effect.action)

    def _wake(self, effect: Effect) -> None:
        self._agenda.wake(effect.action.at)

    def _cancel(self, effect: Effect) -> None:
        """Cancel a plugin's call. A request cannot be cancelled."""
        call = self._under_way.get(effect.action.number)
        if call is not None:
            self._stop(call, effect.action.why)

    def _withdraw(self, effect: Effect) -> None:
        call = self._under_way.pop(effect.action.number, None)
        if call is not None:
            self._stop(call, "")

    def _stop(self, call: PluginRun, why: str) -> None:
        call.stopped_for = why
        # As a separate event: it may be the call that is currently running.
        self._agenda.put(self.now, call)

    def _queue_up(self, effect: Effect) -> None:
        self._under_way[effect.number] = None
        self._agenda.line.append(effect)

    def _effect(self, effect: Effect) -> None:
        """A question or request has arrived, unless it was withdrawn on the way."""
        if effect.number not in self._under_way:
            return
        if type(effect.action) is Ask:
            back = self._latency.answer(effect.action)
            self._agenda.put(self.now + back, Answer(effect.number, self._outside(effect.action)))
        else:
            outcome, changes = self._cluster.outcome(effect.action)
            self._agenda.line.append(Answer(effect.number, outcome))
            self._cluster.deliver(changes)

    def _news(self, news: Changes) -> None:
        agenda, begin = self._agenda, self._begin
        if agenda.batches.get(news.kind) is news.changes:
            del agenda.batches[news.kind]
        for effect in self._engine.step(news, agenda.now):
            begin[type(effect.action)](effect)

    def _answer(self, answer: Answer) -> None:
        if answer.number in self._under_way:
            del self._under_way[answer.number]
            begin = self._begin
            for effect in self._engine.step(answer, self._agenda.now):
                begin[type(effect.action)](effect)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _send(self, effect: Effect) -> None:
        """Send a request, which is carried out after earlier requests for the same object were answered."""
        self._under_way[effect.number] = None
        request, latency, subject = effect.action, self._latency, effect.action.subject
        there, back = latency.request(request), latency.answer(request)
        at = max(self.now, self._free_at.get(subject, self.now))
        if type(request) is not Bind:
            # As on a cluster: a binding waits for other requests, which do not wait for it.
            self._free_at[subject] = at + there + back
            self._sweep()
        self._agenda.put(at + there, _Sent(effect.number, PendingCall(request), back))

    def _post(self, call: PluginRun, pending: PendingCall) -> None:
        """Send a request of a plugin's coroutine, which only waits for its own requests."""
        request, latency = pending.request, self._latency
        there, back = latency.request(request), latency.answer(request)
        self._agenda.put(self.now + there, _Sent(call, pending, back))

    def _sweep(self) -> None:
        """Forget objects without requests in progress once there are many."""
        if len(self._free_at) > self._sweep_at:
            self._free_at = {subject: at for subject, at in self._free_at.items() if at > self.now}
            self._sweep_at = max(1024, 2 * len(self._free_at))

    def _arrive(self, sent: _Sent) -> None:
        sender = sent.sender
        call = None if isinstance(sender, int) else sender
        if (call is not None and call.ended) or (call is None and sender not in self._under_way):
            # It was cancelled on the way.
            return
        outcome, changes = self._cluster.outcome(sent.pending.request, sent.pending)
        if call is None:
            self._agenda.put(self.now + sent.back, Answer(sender, outcome))  # type: ignore[arg-type]
        else:
            call.outcome = outcome
            self._agenda.put(self.now + sent.back, call)
        self._cluster.deliver(changes)

    # -- questions ----------------------------------------------------------------------------------------------------

    def _ask(self, effect: Effect) -> None:
        self._under_way[effect.number] = None
        self._agenda.put(self.now + self._latency.request(effect.action), effect)

    def _outside(self, question: Ask) -> Outcome:
        if self._answer_outside is None:
            return Refused(RuntimeError(_NOBODY.format(who=question.who)))
        return self._answer_outside(question)

    def _pause(self, effect: Effect) -> None:
        """If the clock advances, other pods are tried first."""
        self._under_way[effect.number] = None
        self._agenda.put(self.now + self._pauses, Answer(effect.number, Done()))

    # -- plugins' coroutines ------------------------------------------------------------------------------------------

    def _run_plugin(self, effect: Effect) -> None:
        call = PluginRun(effect.number, effect.action, self._engine.run_plugin(effect.action))
        self._under_way[effect.number] = call
        # Also as a separate event: what it does may be an input.
        self._agenda.line.append(call)

    def _resume(self, call: PluginRun) -> None:
        if call.ended:
            return
        pending = call.resume(self.now) if call.stopped_for is None else call.stop()
        if isinstance(pending, PendingCall):
            self._post(call, pending)
        else:
            self._agenda.line.append(Answer(call.number, pending))

    # -- requests of callers -------------------------------------------------------------------------------------------

    def _callers(self, request: Request) -> None:
        try:
            self._cluster.deliver(self._cluster.write(request))
        except ApiError as error:
            # The object may be gone already, which is not an error.
            if not (isinstance(request, Delete) and isinstance(error, NotFound)):
                self.refused.append((self.now, request, error))

    def _take_from(self, feed: _Feed) -> None:
        at = now = self._agenda.now
        # All of the same time at once, so that their changes are one batch.
        while at <= now and feed.request is not None:
            self._do[type(feed.request)](feed.request)
            at = feed.draw()
        if feed.request is not None:
            self._agenda.put(at, feed)

    def _await_next(self, feed: _Feed) -> None:
        at = feed.draw()
        if feed.request is not None:
            self._agenda.put(at, feed)


def _make(call: Call) -> None:
    call.action()
