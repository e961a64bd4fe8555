"""An engine with a plugin that has more work than fits in one turn."""

from stowplan.scheduler.engine.effects import Pause
from stowplan.scheduler.framework.declarations import Reads, SignPlugin
from stowplan.scheduler.framework.requests import Done
from stowplan.scheduler.framework.unfinished import unfinished
from stowplan.testing import a_pod
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.engines import DrivenEngine


class _Signed(SignPlugin):
    reads = Reads.NODES

    def sign_pod(self, pod):
        return {"work": pod.pod.metadata.labels.get("slow")}


class Slow:
    """A Filter that needs several portions for each pod labelled `slow`; equal labels share the work."""

    def __init__(self, portions, *objects, outcome=None, allowed=10, **engine):
        self.portions, self.outcome, self.allowed = portions, outcome, allowed
        self.done = {}
        self.calls = []
        plugin = type("Slow", (answering("Slow", filter=self.filter), _Signed), {})
        self.driven = DrivenEngine(*objects, config=configuration(profile(filter=[plugin])), plugins=[plugin], **engine)

    def filter(self, state, pod, nodes):
        work = pod.pod.metadata.labels.get("slow")
        if work is None:
            return None
        self.calls.append(pod.name)
        if self.done.get(work, 0) < self.portions:
            self.done[work] = self.done.get(work, 0) + 1
            return unfinished("it took too long", self.allowed)
        return self.outcome

    def create(self, *names, work=None):
        self.driven.create(*(a_pod(name).labels(slow=work or name) for name in names))

    @property
    def pauses(self):
        return [number for number, action in self.driven.under_way.items() if isinstance(action, Pause)]

    def go_on(self):
        (pause,) = self.pauses
        self.driven.answer_number(pause, Done())
