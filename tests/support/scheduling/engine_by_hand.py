"""An engine on a small object store, with a test as the driver, which decides the order and outcome of effects.

Nothing happens by itself: requests wait until `answer`, events until `deliver`, and time stands still until `advance`.
The engine is validated after each step.
"""

from collections import defaultdict
from math import inf
from random import Random

from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.port import Change
from stowplan.kube.config import load_config
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.effects import Cancel, EmitEvent, RunPlugin, Wake, Withdraw
from stowplan.scheduler.engine.engine import SCHEDULE, TICK, Engine
from stowplan.scheduler.engine.inputs import Answer, Changes, Started
from stowplan.scheduler.framework.requests import Ask, Create, Delete, Done, Read, Refused, Unknown
from stowplan.scheduler.framework.status import error as error_status
from stowplan.scheduler.in_tree.registry import in_tree_registry
from support.plugins.answering_plugins import configuration
from support.scheduling.worlds import struct

#: Not a whole second, as backoffs end at those.
START = 1_800_000_000.25


class Meter:
    """For metrics: no time passes within a step."""

    def clock(self):
        return 0.0

    def random(self):
        return 0.5


class EngineByHand:
    def __init__(self, *plugins, profiles=("default-scheduler",), asked=None, seed=1, validates=True, **options):
        """`asked` answers questions to extenders; `options` are the engine's. Where it `validates`, the engine is
        validated after each step."""
        self.validates = validates
        registry = in_tree_registry()
        for plugin in plugins:
            registry.register(plugin)
        points = {"multiPoint": {"enabled": [{"name": plugin.name} for plugin in plugins]}}
        raw = configuration(*[{"schedulerName": name, "plugins": points} for name in profiles])
        config = load_config(raw, plugins=registry.declarations)
        options.setdefault("settings", EngineSettings(overlaps=True))
        options.setdefault("meter", Meter())
        self.now = START

        def engine():
            return Engine(config, registry=registry, now=self.now, random=Random(seed), **options)

        #: Makes another engine like this one.
        self.new_engine = engine
        self.engine = engine()
        self.engine.attach(self)
        #: Called with each input and its effects.
        self.heard = []
        self.store = ObjectStore()
        self._asked = asked
        #: Effects to be answered, by number, in order.
        self.under_way = {}
        #: Those of them that are to be cancelled, and why.
        self.cancelled = {}
        #: Requests that were withdrawn; they may be carried out all the same.
        self.withdrawn = []
        #: Events for users.
        self.told = []
        #: Kind -> changes that the engine has not seen.
        self.news = defaultdict(list)
        #: Kind -> (namespace, name) -> the object that the engine has seen last.
        self._known = defaultdict(dict)
        self._calls = {}
        self._tick_at = inf
        self.submit(Started())

    # -- the engine's driver ------------------------------------------------------------------------------------------

    def submit(self, input_):
        effects = self.engine.step(input_, self.now)
        for effect in effects:
            self._take(effect.number, effect.action)
        if self.validates:
            self.engine.validate()
        for hear in self.heard:
            hear(input_, effects)
        assert self.under_way.keys() == self.engine.context.outbox.awaited.keys(), "the engine waits for answers"

    def _take(self, number, action):
        match action:
            case Wake():
                self._tick_at = min(self._tick_at, action.at)
            case EmitEvent():
                self.told.append(action)
            case Cancel():
                self.cancelled[action.number] = action.why
            case Withdraw():
                self.withdrawn.append(self.under_way.pop(action.number))
            case _:
                self.under_way[number] = action
                if isinstance(action, RunPlugin):
                    self._calls[number] = self.engine.run_plugin(action)

    def tick(self):
        self._tick_at = inf
        self.submit(TICK)

    def advance(self, seconds):
        """Advance time, from one wake-up of the engine to the next."""
        until = self.now + seconds
        while self._tick_at <= until:
            self.now = max(self.now, self._tick_at)
            self.tick()
        self.now = until

    def schedule(self, turns=inf):
        """Try pods while there are any, up to a number of turns."""
        while turns > 0 and self.engine.wants_turn:
            turns -= 1
            self.submit(SCHEDULE)

    # -- the cluster --------------------------------------------------------------------------------------------------

    def write(self, request, *, grace=0.0):
        """Write as a client other than the scheduler; the engine sees it when it is delivered."""
        return self._written(request, grace)

    def create(self, *objects):
        """Create objects (builders, dicts or structs), and deliver them at once."""
        for obj in map(struct, objects):
            self.write(Create(obj=obj))
        for kind in list(self.news):
            self.deliver(kind)

    def _written(self, request, grace):
        if isinstance(request, Delete):
            changes = self.store.delete(request, self.now, grace)
        else:
            changes = self.store.write(request, self.now)
        for change in changes:
            self.changed(change)
        return changes[-1].new or changes[-1].old

    def changed(self, change):
        if change is not None and change.old is not change.new:
            self.news[type(change.new or change.old)].append(change)

    def deliver(self, kind, number=None):
        """Deliver this many changes of a kind; None: all."""
        changes, self.news[kind] = self.news[kind][:number], self.news[kind][number or len(self.news[kind]) :]
        self._tell(kind, changes)

    def deliver_at_once(self, kind):
        """Deliver all changes as after a new list: several changes of an object become one."""
        known, listed = self._known[kind], {_key(obj): obj for obj in self.store.list(kind)}
        self.news[kind] = []
        changes = []
        for key in dict.fromkeys((*known, *listed)):
            old, new = known.get(key), listed.get(key)
            if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
                changes += [Change(old, None), Change(None, new)]
            elif old is not new:
                changes.append(Change(old, new))
        self._tell(kind, changes)

    def _tell(self, kind, changes):
        if not changes:
            return
        for change in changes:
            key = _key(change.new or change.old)
            self._known[kind].pop(key, None)
            if change.new is not None:
                self._known[kind][key] = change.new
        self.submit(Changes(kind, changes))

    # -- answers ------------------------------------------------------------------------------------------------------

    @property
    def answerable(self):
        """Numbers of effects that may be answered now: the first about each object, and all without an object."""
        subjects, found = set(), []
        for number, action in self.under_way.items():
            subject = getattr(action, "subject", number)
            if subject not in subjects:
                found.append(number)
            subjects.add(subject)
        return found

    def answer(self, number, *, refused=None, lost=None, grace=0.0):
        """Carry an effect out and answer it.

        With `refused`, an exception, it is not carried out; `lost`: its answer is lost, after it was carried out (True)
        or before (False).
        """
        action = self.under_way[number]
        if isinstance(action, RunPlugin):
            outcome = self._called(number)
        elif refused is not None:
            outcome = Refused(refused)
        else:
            outcome = Unknown(OutcomeUnknown("lost")) if lost is False else self._carried_out(action, grace)
            if lost:
                outcome = Unknown(OutcomeUnknown("lost"))
        del self.under_way[number]
        self.cancelled.pop(number, None)
        self.submit(Answer(number, outcome))

    def answer_about(self, name, **how):
        """Answer the effect about a pod of this name."""
        for number in self.answerable:
            action = self.under_way[number]
            key = f"default/{name}"
            if key == getattr(action, "pod", "") or getattr(action, "subject", "").endswith(f"/{key}"):
                self.answer(number, **how)
                return
        raise LookupError(f"nothing about pod {name} is under way")

    def answer_all(self):
        """Answer until nothing is in progress."""
        while self.under_way:
            self.answer(self.answerable[0])

    def withdrawn_gets_there(self):
        """Carry out a request that was withdrawn."""
        self._carried_out(self.withdrawn.pop(0), 0.0)

    def _carried_out(self, action, grace):
        try:
            if isinstance(action, Ask):
                return Done(self._asked(action))
            if isinstance(action, Read):
                return Done(self.store.get(action.kind, action.namespace, action.name))
            return Done(self._written(action, grace))
        except ApiError as error:
            return Refused(error)

    def _called(self, number):
        call = self._calls.pop(number)
        if number in self.cancelled:
            call.close()
            return Done(error_status(self.cancelled[number]))
        try:
            call.send(None)
        except StopIteration as end:
            return Done(end.value)
        raise AssertionError("plugins' coroutines must not wait here")

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self):
        for call in self._calls.values():
            call.close()


def _key(obj):
    return obj.metadata.namespace, obj.metadata.name
