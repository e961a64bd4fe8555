"""Simulated time: the engine on a small object store, with a clock that jumps to the next thing that is due.

What is due are requests on their way to the store, their answers, news for watchers, arrivals that a caller puts in,
ends of pods, and times at which the engine wants to be woken. Things of one moment are taken in the order in which they
were put in (`agenda`); when nothing more is due at it, the engine tries pods as long as there are some to try, and then
the clock moves on. Requests about one object are carried out one after the other, as are news of one kind told.

    store = ObjectStore()
    engine = Engine(config, registry=..., now=0.0, api=VirtualApi(), ...)
    time = VirtualTime(engine, store, runs_for=lambda pod: 60.0)
    time.feed((i / 100, Create(obj=a_pod(i))) for i in range(100_000))
    time.run()

Nothing of a decision is in here. The same engine, store, latencies and calls give the same inputs in the same order.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from stowplan.api.api_errors import ApiError, NotFound
from stowplan.api.changes import Change
from stowplan.api.pod import FINISHED, Pod
from stowplan.api.port import Listing
from stowplan.engine.effects import Cancel, Effect, RunPlugin, Tell, Wake, Withdraw
from stowplan.engine.engine import SCHEDULE
from stowplan.engine.inputs import (
    Activated,
    Allowed,
    Answer,
    Changes,
    Closing,
    Rejected,
    Served,
    Started,
    Tick,
    Told,
    WallClock,
)
from stowplan.framework.requests import Ask, Bind, Create, Delete, Done, Patch, Read, Refused, Update
from stowplan.simulate.agenda import Agenda
from stowplan.simulate.latency import NO_LATENCY, Latency
from stowplan.simulate.object_store import runs
from stowplan.simulate.plugin_calls import PluginCall
from stowplan.simulate.virtual_api import Asked, ListObjects

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence

    from stowplan.api.meta import ApiStruct
    from stowplan.engine.inputs import Input
    from stowplan.framework.requests import Outcome, Request
    from stowplan.framework.status import Status
    from stowplan.simulate.object_store import ObjectStore

_REQUESTS = (Bind, Create, Update, Patch, Delete, Read)
_DONE = Done()
_NO_MORE = (inf, None)
_NOBODY = "nobody answers {who} in this simulation"


class Engine(Protocol):
    """What `engine.engine.Engine` has for its driver."""

    @property
    def wants_turn(self) -> bool: ...

    def step(self, input_: Input, now: float, /) -> Sequence[Effect]: ...

    def run_plugin(self, action: RunPlugin, /) -> Coroutine[Any, Any, Status | None]: ...

    def attach(self, driver: VirtualTime, /) -> None: ...


class _Sent(NamedTuple):
    """A request on its way to the store."""

    #: Whoever gets the answer: a plugin's call, or the engine, by the effect's number.
    sender: PluginCall | int
    asked: Asked
    #: Seconds that the answer takes back.
    back: float


class _Ending(NamedTuple):
    """An object that goes, because whoever runs it is through."""

    kind: type[ApiStruct]
    namespace: str
    name: str
    uid: str


class _Feed:
    """Requests of a caller, in order of time, each taken from its source when it is due."""

    __slots__ = ("request", "source")

    def __init__(self, source: Iterator[tuple[float, Request]]) -> None:
        self.source = source
        #: The one that is due next; None at the end.
        self.request: Request | None = None

    def draw(self) -> float:
        """Go on to the next request; when it is due."""
        at, self.request = next(self.source, _NO_MORE)
        return at


class VirtualTime:
    def __init__(
        self,
        engine: Engine,
        store: ObjectStore,
        *,
        start: float = 0.0,
        latency: Latency = NO_LATENCY,
        kinds: Collection[type[ApiStruct]] | None = None,
        tell: Callable[[Tell], object] | None = None,
        ask: Callable[[Ask], Outcome] | None = None,
        runs_for: Callable[[Pod], float | None] | None = None,
    ) -> None:
        """`start`: seconds since the epoch. `kinds`: those that the engine watches; None: all.

        `tell` hears events for users, `ask` answers for whoever is outside; `runs_for` says for how many seconds a pod
        runs once it has a node, and goes then; None: for ever.
        """
        self._engine = engine
        self.store = store
        self._latency = latency
        self._kinds = None if kinds is None else frozenset(kinds)
        self._tell_users = tell
        self._asked_outside = ask
        self._runs_for = runs_for
        self._agenda = Agenda(start)
        self._started = False
        #: Effects that are to be answered: the number of each, and its call if it is one of a plugin.
        self._under_way: dict[int, PluginCall | None] = {}
        #: Object -> when the last request about it is answered.
        self._free_at: dict[str, float] = {}
        self._sweep_at = 1024
        #: Kind -> when the last of its news is told.
        self._told_at: dict[type[ApiStruct], float] = {}
        #: What callers have put in and the store has refused, with the time.
        self.refused: list[tuple[float, Request, Exception]] = []
        self._begin: dict[type[Any], Callable[[Effect], None]] = {
            Tell: self._tell,
            Wake: self._wake,
            Cancel: self._cancel,
            Withdraw: self._withdraw,
            RunPlugin: self._queue_up,
            Ask: self._queue_up if latency.instant else self._send,
            **dict.fromkeys(_REQUESTS, self._queue_up if latency.instant else self._send),
        }
        self._carry_out: dict[type[Any], Callable[[Effect], None]] = {
            RunPlugin: self._run_plugin,
            Ask: self._arrive_at_once,
            **dict.fromkeys(_REQUESTS, self._arrive_at_once),
        }
        self._do: dict[type[Any], Callable[[Any], None]] = {
            Effect: self._effect,
            Answer: self._answer,
            _Sent: self._arrive,
            PluginCall: self._resume,
            _Ending: self._end,
            _Feed: self._take_from,
            **dict.fromkeys(_REQUESTS, self._callers),
            **dict.fromkeys(_HANDED_IN, self.submit),
        }
        engine.attach(self)

    # -- for callers --------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self._agenda.now

    def write(self, request: Request) -> Any:
        """Write to the store, as somebody else than the scheduler, and return the object; an ApiError if it refuses.

        The engine hears of it when the clock goes on.
        """
        change = self._written(request, None)
        self._changed(change)
        return change.old if change.new is None else change.new

    def at(self, when: float, what: Request | Input) -> None:
        """Have something written at that time, or an input handed to the engine; see `refused`."""
        self._agenda.put(when, what)

    def feed(self, requests: Iterable[tuple[float, Request]]) -> None:
        """The same of any number of requests, each with its time, in order: each is asked for when it is due."""
        self._await_next(_Feed(iter(requests)))

    def submit(self, input_: Input) -> None:
        """Hand an input to the engine now, and take in what follows."""
        for effect in self._engine.step(input_, self._agenda.now):
            self._begin[type(effect.action)](effect)

    def run(self, until: float | None = None) -> None:
        """Go on until only time could help: nothing is under way, and no pod can be tried.

        Times that the engine waits for come in between, but are no reason to go on. With `until` no later moment is
        gone to.
        """
        limit = inf if until is None else until
        self._settle()
        while not self._agenda.only_wakes and self._agenda.next <= limit:
            self._agenda.advance()
            self._settle()

    def advance(self, seconds: float) -> None:
        """Let time pass, with everything that is due meanwhile."""
        agenda = self._agenda
        until = agenda.now + seconds
        self._settle()
        while agenda.next <= until:
            agenda.advance()
            self._settle()
        agenda.now = until

    @property
    def under_way(self) -> int:
        """Effects that are not answered yet."""
        return len(self._under_way)

    def _settle(self) -> None:
        """Do what is due at this moment, then let pods be tried, until neither is left."""
        agenda, engine, do, begin = self._agenda, self._engine, self._do, self._begin
        line, take, now = agenda.line, agenda.take, agenda.now
        while True:
            while line:
                item = take()
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

    def _tell(self, effect: Effect) -> None:
        if self._tell_users is not None:
            self._tell_users(effect.action)

    def _wake(self, effect: Effect) -> None:
        self._agenda.wake(effect.action.at)

    def _cancel(self, effect: Effect) -> None:
        """Break a plugin's call off. A request cannot be called back: it goes on."""
        call = self._under_way.get(effect.action.number)
        if call is not None:
            self._stop(call, effect.action.why)

    def _withdraw(self, effect: Effect) -> None:
        call = self._under_way.pop(effect.action.number, None)
        if call is not None:
            self._stop(call, "")

    def _stop(self, call: PluginCall, why: str) -> None:
        call.stopped_for = why
        # In its turn: it may be what runs just now.
        self._agenda.put(self.now, call)

    def _queue_up(self, effect: Effect) -> None:
        self._under_way[effect.number] = None
        self._agenda.line.append(effect)

    def _effect(self, effect: Effect) -> None:
        if effect.number in self._under_way:
            self._carry_out[type(effect.action)](effect)

    def _answer(self, answer: Answer) -> None:
        if answer.number in self._under_way:
            del self._under_way[answer.number]
            self.submit(answer)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _send(self, effect: Effect) -> None:
        self._under_way[effect.number] = None
        self._post(effect.number, Asked(effect.action))

    def _post(self, sender: PluginCall | int, asked: Asked) -> None:
        """Send a request off, to be carried out when the one about the same object before it has been answered."""
        request, latency, now = asked.request, self._latency, self.now
        there, back = latency.request(request), latency.answer(request)
        if isinstance(request, ListObjects | Ask):
            self._agenda.put(now + there, _Sent(sender, asked, back))
            return
        subject, free_at = request.subject, self._free_at
        at = max(now, free_at.get(subject, now)) + there
        free_at[subject] = at + back
        if len(free_at) > self._sweep_at:
            self._free_at = {subject: at for subject, at in free_at.items() if at > now}
            self._sweep_at = max(1024, 2 * len(self._free_at))
        self._agenda.put(at, _Sent(sender, asked, back))

    def _arrive_at_once(self, effect: Effect) -> None:
        outcome, change = self._outcome(effect.action, None)
        self._agenda.line.append(Answer(effect.number, outcome))
        if change is not None:
            self._changed(change)

    def _arrive(self, sent: _Sent) -> None:
        sender = sent.sender
        call = None if isinstance(sender, int) else sender
        if (call is not None and call.ended) or (call is None and sender not in self._under_way):
            # It was broken off before it got there.
            return
        outcome, change = self._outcome(sent.asked.request, sent.asked)
        if call is None:
            self._agenda.put(self.now + sent.back, Answer(sender, outcome))  # type: ignore[arg-type]
        else:
            call.outcome = outcome
            self._agenda.put(self.now + sent.back, call)
        if change is not None:
            self._changed(change)

    def _outcome(self, request: Any, asked: Asked | None) -> tuple[Outcome, Change[Any] | None]:
        """Carry a request out: how it ends, and what it changed."""
        kind = type(request)
        try:
            if kind is Read:
                return Done(self.store.get(request.kind, request.namespace, request.name)), None
            if kind is ListObjects:
                found = self.store.list(request.kind, request.namespace)
                return Done(Listing(found, str(self.store.version))), None
            if kind is Ask:
                return self._ask(request), None
            change = self._written(request, asked)
        except ApiError as error:
            return Refused(error), None
        if kind is Bind or kind is Delete:
            # An API server answers these with no object.
            return _DONE, change
        return Done(change.old if change.new is None else change.new), change

    def _written(self, request: Any, asked: Asked | None) -> Change[Any]:
        kind = type(request)
        if kind is Bind and asked is not None and asked.annotations:
            return self.store.bind(request, self.now, asked.annotations)
        if kind is Delete:
            return self._deleted(request, None if asked is None else asked.grace)
        return self.store.write(request, self.now)

    def _deleted(self, request: Delete, grace: float | None) -> Change[Any]:
        if grace is None:
            found = self.store.get(request.kind, request.namespace, request.name)
            grace = self._latency.deletion(found) if runs(found) else 0.0
        change = self.store.delete(request, self.now, grace)
        new = change.new
        if new is not None and new is not change.old and runs(new):
            self._ends_in(new, grace)
        return change

    def _ask(self, question: Ask) -> Outcome:
        if self._asked_outside is None:
            return Refused(RuntimeError(_NOBODY.format(who=question.who)))
        return self._asked_outside(question)

    # -- plugins' coroutines ------------------------------------------------------------------------------------------

    def _run_plugin(self, effect: Effect) -> None:
        call = PluginCall(effect.number, effect.action, self._engine.run_plugin(effect.action))
        self._under_way[effect.number] = call
        self._resume(call)

    def _resume(self, call: PluginCall) -> None:
        if call.ended:
            return
        asked = call.resume() if call.stopped_for is None else call.stop()
        if isinstance(asked, Asked):
            self._post(call, asked)
        else:
            self._agenda.line.append(Answer(call.number, asked))

    # -- what changes -------------------------------------------------------------------------------------------------

    def _changed(self, change: Change[Any]) -> None:
        """Have watchers told, and see to it that a pod that got a node ends."""
        old: Any = change.old
        new: Any = change.new
        if old is new:
            return
        kind = type(old if new is None else new)
        if kind is Pod:
            if self._runs_for is not None and new is not None and new.spec.node_name:
                self._runs(old, new)
            old, new = _unfinished(old), _unfinished(new)
            if old is new:
                return
            if old is not change.old or new is not change.new:
                change = Change(old, new)
        if self._kinds is not None and kind not in self._kinds:
            return
        at = max(self.now + self._latency.watch(kind), self._told_at.get(kind, 0.0))
        if at > self.now:
            self._told_at[kind] = at
        self._agenda.put(at, change)

    def _runs(self, old: Pod | None, new: Pod) -> None:
        if old is not None and old.spec.node_name:
            return
        assert self._runs_for is not None
        seconds = self._runs_for(new)
        if seconds is not None:
            self._ends_in(new, seconds)

    def _ends_in(self, obj: Any, seconds: float) -> None:
        metadata = obj.metadata
        ending = _Ending(type(obj), metadata.namespace, metadata.name, metadata.uid)
        self._agenda.put(self.now + seconds, ending)

    def _end(self, ending: _Ending) -> None:
        change = self.store.end(*ending)
        if change is not None:
            self._changed(change)

    # -- what callers have put in -------------------------------------------------------------------------------------

    def _callers(self, request: Request) -> None:
        try:
            self.write(request)
        except ApiError as error:
            # What is to go may have gone already: nothing is wrong with that.
            if not (isinstance(request, Delete) and isinstance(error, NotFound)):
                self.refused.append((self.now, request, error))

    def _take_from(self, feed: _Feed) -> None:
        at = self.now
        # All of a moment at once, so that they are news of one batch.
        while at <= self.now and feed.request is not None:
            self._callers(feed.request)
            at = feed.draw()
        if feed.request is not None:
            self._agenda.put(at, feed)

    def _await_next(self, feed: _Feed) -> None:
        at = feed.draw()
        if feed.request is not None:
            self._agenda.put(at, feed)


#: Inputs that are handed to the engine as they are.
_HANDED_IN = (Activated, Allowed, Changes, Closing, Rejected, Served, Started, Tick, Told, WallClock)


def _unfinished(pod: Pod | None) -> Pod | None:
    """The pod as those see it who watch pods that are not finished."""
    return None if pod is None or pod.status.phase in FINISHED else pod
