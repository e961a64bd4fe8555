"""The event handlers with a real queue: the API, the state, its pending pods and the queue agree after any changes."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node, Pod
from stowplan.scheduler.engine.event_handlers import EventHandlers
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.observing.metrics import scheduler_metrics
from support.scheduling.engine_context import context
from support.scheduling.queues import QueueHarness
from support.scheduling.worlds import struct

NAMES = ("a", "b", "theirs")

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("changes", "changes", "is bound", "goes", "is replaced", "is tried", "is given back")),
        st.sampled_from(NAMES),
        st.sampled_from(("1", "2")),
    ),
    max_size=40,
)


class World:
    """An API, and a scheduler that sees its changes."""

    def __init__(self):
        self.harness = QueueHarness()
        self.state, self.queue = self.harness.state, self.harness.queue
        self.handlers = EventHandlers(
            context(state=self.state, queue=self.queue),
            algorithm=SimpleNamespace(frameworks=self.harness.frameworks),
            statuses=SimpleNamespace(observe=lambda pod: None, forget=lambda uid: None),
            durations=scheduler_metrics().event_handling_duration_seconds,
            now=lambda: 0.0,
        )
        self.handlers.handle(Node, [Change(None, struct(a_node("n")))])
        #: Contents of the API, by name.
        self.pods = {}
        #: UID -> popped pods that are not assumed; assumed pods.
        self.tried, self.assumed = {}, {}
        self.made = 0

    def put(self, name, version, node=""):
        """Create the pod, or write a new version of it."""
        known = self.pods.get(name)
        if known is None:
            self.made += 1
        uid = f"{name}{self.made}" if known is None else known.metadata.uid
        pod = a_pod(name).uid(uid).labels(version=version)
        if name == "theirs":
            pod.scheduler("another")
        node = node or ("" if known is None else known.spec.node_name)
        self.pods[name] = struct(pod.on(node) if node else pod)
        self.handlers.handle(Pod, [Change(known, self.pods[name])])

    def delete(self, name):
        known = self.pods.pop(name, None)
        if known is not None:
            self.handlers.handle(Pod, [Change(known, None)])

    def attempt(self):
        """Pop a pod and assume it."""
        queued = self.queue.pop()
        if queued is not None:
            self.state.assume(queued.pod, "n")
            self.assumed[queued.pod.uid] = queued

    def give_back(self):
        """The oldest attempt fails, if its pod is still assumed."""
        for uid in list(self.assumed):
            queued = self.assumed.pop(uid)
            if not self.state.is_assumed(uid):
                self.queue.done(uid)
                continue
            self.state.forget(self.state.placed(uid))
            newest = self.state.pending.by_uid(uid)
            if newest is None:
                self.queue.done(uid)
            else:
                queued.pod = newest
                self.queue.add_unschedulable_if_not_present(queued)
            return

    def step(self, what, name, version):
        match what:
            case "changes":
                self.put(name, version)
            case "is bound" if name in self.pods:
                self.put(name, version, node="n")
            case "goes":
                self.delete(name)
            case "is replaced":
                self.delete(name)
                self.put(name, version)
            case "is tried":
                self.attempt()
            case "is given back":
                self.give_back()

    def check(self):
        ours = {f"default/{name}": pod for name, pod in self.pods.items() if name != "theirs"}
        unbound = {key: pod for key, pod in ours.items() if not pod.spec.node_name}
        assert {info.key: info.pod for info in self.state.pending.values()} == unbound
        for pod in (*ours.values(), *(pod for pod in self.pods.values() if pod.spec.node_name)):
            assert self.state.newest(pod.metadata.uid) == pod
        bound = {pod.metadata.uid for pod in self.pods.values() if pod.spec.node_name}
        placed = {info.uid for info in self.state.placed_pods()}
        assert {uid for uid in placed if not self.state.is_assumed(uid)} == bound
        waiting = {queued.pod.uid: queued for queued in self.queue.pending()}
        in_flight = {queued.pod.uid for queued in self.queue.in_flight()}
        for info in self.state.pending.values():
            # Each pod is in one place: in the queue, or in an attempt.
            assert (info.uid in waiting) != (info.uid in in_flight), info.key
        for uid, queued in waiting.items():
            assert queued.pod is self.state.pending.by_uid(uid)
            assert queued.place is not Place.GONE


@examples(150)
@given(steps=STEPS)
def test_api_state_and_queue_agree(steps):
    world = World()
    for step in steps:
        world.step(*step)
        world.check()
