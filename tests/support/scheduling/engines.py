"""An engine driven step by step: binds succeed at once, questions and other requests wait until the test answers them.

    engine = DrivenEngine(a_node("n"), extenders=[FakeExtender("e", filters=True)])
    engine.create(a_pod("p"))
    engine.answer("e", ["n"])
    assert engine.bound == {"p": "n"}

The engine is validated after each step.
"""

from random import Random

from msgspec.structs import replace

from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config import DEFAULT_FEATURES, load_config
from stowplan.kube.timing.times import ManualTime
from stowplan.scheduler.cluster.pod_info import scheduler_name_of
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.effects import Cancel, EmitEvent, Wake, Withdraw
from stowplan.scheduler.engine.engine import SCHEDULE, TICK, Engine
from stowplan.scheduler.engine.inputs import Adopted, Answer, Changes, Offered, Started
from stowplan.scheduler.framework.requests import Ask, Bind, Done, Patch
from stowplan.scheduler.in_tree.registry import in_tree_registry
from support.scheduling.scripted_effects import as_outcome
from support.scheduling.worlds import struct


class DrivenEngine:
    def __init__(
        self,
        *objects,
        config=None,
        plugins=(),
        extenders=None,
        overlaps=True,
        random=None,
        starts=True,
        features=DEFAULT_FEATURES,
    ):
        registry = in_tree_registry()
        for plugin in plugins:
            registry.register(plugin)
        self.now = 1000.0
        self.engine = Engine(
            load_config(config, features=features, plugins=registry.declarations),
            registry=registry,
            now=self.now,
            meter=ManualTime(),
            random=random or Random(1),
            extenders=extenders,
            features=features,
            settings=EngineSettings(overlaps=overlaps),
        )
        #: Pod -> node, as bound.
        self.bound = {}
        #: Effects that wait for their answer: questions, and effects that nothing here answers by itself.
        self.under_way = {}
        self.withdrawn = []
        self.told = []
        self.inputs = []
        #: (kind, `namespace/name`) -> the object.
        self.objects = {}
        if starts:
            self.step(Started())
        self.create(*objects)

    # -- steps --------------------------------------------------------------------------------------------------------

    def step(self, input_):
        """One step, and everything that follows from effects that are answered at once."""
        self.inputs.append((input_, self.now))
        effects = self.engine.step(input_, self.now)
        self.engine.validate()
        for effect in effects:
            self._carry_out(effect.number, effect.action)

    def run(self):
        """Try pods until there is none to try."""
        while self.engine.wants_turn:
            self.step(SCHEDULE)

    def advance(self, seconds):
        self.now += seconds
        self.step(TICK)
        self.run()

    def swap(self, config, *, lacking=()):
        """Replace the configuration, and go on."""
        self.offer(config)
        assert not self.engine.profiles.refusal
        self.step(Adopted(frozenset(lacking)))
        self.run()

    def offer(self, config):
        self.step(Offered(config))

    def take_in_pods(self):
        """As a driver does after a swap: pods whose schedulerName had no profile are new to the engine."""
        state, profiles = self.engine.state, self.engine.frameworks
        missed = [
            Change(None, pod)
            for (kind, _), pod in self.objects.items()
            if kind is Pod and not pod.spec.node_name and scheduler_name_of(pod) in profiles
            if state.pending.by_uid(pod.metadata.uid) is None and not state.is_assumed(pod.metadata.uid)
        ]
        if missed:
            self.step(Changes(Pod, missed))
        self.run()

    def _carry_out(self, number, action):
        match action:
            case Withdraw():
                self.withdrawn.append(action.number)
                self.under_way.pop(action.number, None)
            case EmitEvent():
                self.told.append(action)
            case Wake() | Cancel():
                pass
            case Bind():
                self._bind(number, action)
            case Patch():
                self.step(Answer(number, Done()))
            case _:
                self.under_way[number] = action

    def _bind(self, number, bind):
        self.bound[bind.name] = bind.node
        self.step(Answer(number, Done()))
        pod = self.objects[Pod, f"{bind.namespace}/{bind.name}"]
        self.change(replace(pod, spec=replace(pod.spec, node_name=bind.node)))

    # -- the cluster --------------------------------------------------------------------------------------------------

    def create(self, *objects):
        """Builders, dicts or structs; pods are tried at once."""
        for obj in objects:
            self.change(_struct(obj))
        self.run()

    def step_create(self, *objects):
        """The same, without trying pods."""
        for obj in objects:
            self.change(_struct(obj))

    def change(self, obj):
        key = (type(obj), f"{obj.metadata.namespace}/{obj.metadata.name}")
        old = self.objects.get(key)
        self.objects[key] = obj
        self.step(Changes(type(obj), [Change(old, obj)]))

    def delete(self, obj):
        del self.objects[type(obj), f"{obj.metadata.namespace}/{obj.metadata.name}"]
        self.step(Changes(type(obj), [Change(obj, None)]))
        self.run()

    def pod(self, name):
        return self.objects[Pod, f"default/{name}"]

    def node(self, name):
        return self.objects[Node, f"/{name}"]

    # -- answers ------------------------------------------------------------------------------------------------------

    def questions(self, who=None):
        """Numbers of unanswered questions, of one extender or of all."""
        return [
            number
            for number, action in self.under_way.items()
            if isinstance(action, Ask) and (who is None or action.who == who)
        ]

    def question(self, who, which=0):
        return self.under_way[self.questions(who)[which]].question

    def answer(self, who, answer, which=0):
        """Answer a question: with an exception, an outcome, or an answer."""
        self.answer_number(self.questions(who)[which], answer)

    def answer_number(self, number, answer=None):
        self.under_way.pop(number, None)
        self.step(Answer(number, as_outcome(answer)))
        self.run()

    # -- pods ---------------------------------------------------------------------------------------------------------

    def place(self, name):
        queued = self.engine.queue.get(f"default/{name}")
        return None if queued is None else queued.place

    def unbound(self):
        """Names of pods without a node, in order."""
        return [pod.metadata.name for (kind, _), pod in self.objects.items() if kind is Pod and not pod.spec.node_name]

    def suspended(self):
        """Names of pods with suspended scheduling cycles."""
        return [cycle.queued.pod.name for cycle in self.engine.suspended.cycles if not cycle.group]

    def notes(self, reason="FailedScheduling"):
        return [tell.note for tell in self.told if tell.reason == reason]


def _struct(obj):
    built = obj.obj() if hasattr(obj, "obj") else obj
    if not isinstance(built, dict):
        return built
    metadata = built["metadata"]
    metadata.setdefault("uid", f"{metadata['name']}-uid")
    if built["kind"] == "Pod":
        metadata.setdefault("namespace", "default")
    return struct(built)
