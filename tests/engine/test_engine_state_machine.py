"""An engine on a cluster where anything happens in any order: after each step it must not contradict itself.

In the end, when all is answered, told and allowed, every pod is where it can be: on a node, or pending for a reason
that a plain look at the cluster confirms.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from msgspec.structs import replace

from stowplan.api.api_errors import ApiError, Conflict, InternalError
from stowplan.api.port import Unreachable
from stowplan.api.quantity import milli_value, parse_quantity
from stowplan.api.types import Node, Pod
from stowplan.engine.inputs import Closing, Served, Started, Stopped
from stowplan.framework.requests import Bind, Create, Delete, Patch, Update, Wait
from stowplan.plugins import (
    NODE,
    POD,
    SKIP,
    Action,
    Code,
    EnqueueExtensions,
    PermitPlugin,
    PostBindPlugin,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    ReservePlugin,
    Status,
    error,
    on,
    unresolvable,
    unschedulable,
)
from stowplan.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.scheduling.engine_by_hand import EngineByHand
from support.scheduling.worlds import struct

DEFAULT, OTHER = "default-scheduler", "other"
NODES = ("n0", "n1", "n2")
PODS = ("a", "b", "c", "d", "e", "f")
REFUSALS = (Conflict("newer"), InternalError("no"), Unreachable("away"))

#: What plugins do that may refuse a pod: whether a pod is let through, refused, or met with an error.
MOODS = ("yes", "no", "error")
ANSWERS = {"yes": None, "no": unschedulable("no"), "error": error("broken")}


class World:
    """What the plugins go by, apart from a pod's labels."""

    def __init__(self):
        #: Labels of pods that are kept out of the queue.
        self.closed = set()
        self.reserve = self.permit = self.prepare = "yes"
        #: Whether pods that want to wait on Permit do.
        self.patient = True

    def be_kind(self):
        self.closed.clear()
        self.reserve = self.permit = self.prepare = "yes"
        self.patient = False


def plugins_of(world):
    """Plugins that gate, reserve, make wait and prepare; what a pod wants is in its labels."""

    class Woken(EnqueueExtensions):
        def events_to_register(self):
            return [on(NODE, Action.UpdateNodeLabel), on(POD, Action.UpdatePodLabel)]

    class Gate(Woken, PreEnqueuePlugin):
        name = "Gate"

        def pre_enqueue(self, pod):
            return unresolvable("closed") if pod.labels["gate"] in world.closed else None

    class Doorman(Woken, ReservePlugin, PermitPlugin):
        name = "Doorman"

        def reserve(self, state, pod, node_name):
            return ANSWERS[world.reserve]

        def unreserve(self, state, pod, node_name):
            pass

        def permit(self, state, pod, node_name):
            if world.patient and pod.labels["permit"] == "wait":
                return Status(Code.Wait), 5.0
            return ANSWERS[world.permit], 0.0

    class Preparer(Woken, PreBindPlugin):
        """In steps."""

        name = "Preparer"

        def pre_bind_pre_flight(self, state, pod, node_name):
            wanted = pod.labels["prepare"] in ("sleep", "patch", "node", "both")
            return PreBindPreFlightResult(allow_parallel=True) if wanted else SKIP

        def pre_bind(self, state, pod, node_name):
            how = pod.labels["prepare"]
            if how == "node":
                yield Wait(keys=frozenset({("Node", f"/{node_name}")}), seconds=8.0)
            if how in ("sleep", "both"):
                yield Wait(seconds=2.0)
            if how in ("patch", "both"):
                body = {"metadata": {"annotations": {"prepared": node_name}}}
                yield Patch(kind=Pod, namespace="default", name=pod.pod.metadata.name, body=body, type_="merge")
            return ANSWERS[world.prepare]

    class Runner(Woken, PreBindPlugin, PostBindPlugin):
        """As coroutines, which let those go that wait on Permit, and have pending pods tried."""

        name = "Runner"

        def pre_bind_pre_flight(self, state, pod, node_name):
            wanted = pod.labels["prepare"] in ("run", "both")
            return PreBindPreFlightResult(allow_parallel=True) if wanted else SKIP

        async def pre_bind(self, state, pod, node_name):
            for waiting in self.handle.waiting_pods:
                waiting.allow("Doorman")
            return ANSWERS[world.prepare]

        async def post_bind(self, state, pod, node_name):
            self.handle.activate(list(self.handle.cluster.pending.values()))

    return Gate, Doorman, Preparer, Runner


TRAITS = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(("1", "2", "3", "5")),
        "priority": st.sampled_from((0, 0, 5, 10)),
        "scheduler": st.sampled_from((DEFAULT, DEFAULT, DEFAULT, OTHER, "stranger")),
        "gate": st.sampled_from(("x", "y")),
        "permit": st.sampled_from(("go", "go", "wait")),
        "prepare": st.sampled_from(("no", "no", "sleep", "patch", "node", "run", "both")),
        "gated": st.sampled_from((False, False, False, True)),
        "preempts": st.sampled_from((True, True, True, False)),
    }
)


class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.world = World()
        self.uids = 0
        self.stopped = False

    @initialize(node=st.booleans(), late=st.booleans())
    def begin(self, node, late):
        self.hand = EngineByHand(*plugins_of(self.world), profiles=(DEFAULT, OTHER))
        self.engine, self.store = self.hand.engine, self.hand.store
        if node:
            self.node_comes_or_changes("n0", "4", cordoned=False)
        if not late:
            self.hand.deliver(Node)
        self.hand.submit(Started())

    def write(self, request):
        """Write what may not be possible just now."""
        try:
            self.hand.write(request)
        except ApiError:
            return False
        return True

    # -- the cluster --------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NODES), cpu=st.sampled_from(("4", "4", "2", "6")), cordoned=st.booleans())
    def node_comes_or_changes(self, name, cpu, cordoned):
        node = a_node(name).allocatable(cpu=cpu)
        if cordoned:
            node.spec(unschedulable=True)
        node = struct(node)
        if not self.write(Create(obj=node)):
            self.write(Update(obj=node))

    @rule(name=st.sampled_from(NODES))
    def node_goes(self, name):
        self.write(Delete(kind=Node, namespace="", name=name))

    @rule(name=st.sampled_from(PODS), traits=TRAITS)
    def pod_comes(self, name, traits):
        self.uids += 1
        pod = a_pod(name).uid(f"{name}-{self.uids}").requests(cpu=traits["cpu"]).priority(traits["priority"])
        pod.scheduler(traits["scheduler"])
        pod.labels(gate=traits["gate"], permit=traits["permit"], prepare=traits["prepare"])
        if traits["gated"]:
            pod.spec(schedulingGates=[{"name": "g"}])
        if not traits["preempts"]:
            pod.spec(preemptionPolicy="Never")
        self.write(Create(obj=struct(pod)))

    @rule(name=st.sampled_from(PODS), change=st.sampled_from(("ungated", "label", "annotation", "nomination")))
    def pod_changes(self, name, change):
        body = {
            "ungated": {"spec": {"schedulingGates": None}},
            "label": {"metadata": {"labels": {"changed": str(self.store.version)}}},
            "annotation": {"metadata": {"annotations": {"changed": str(self.store.version)}}},
            "nomination": {"status": {"nominatedNodeName": None}},
        }[change]
        subresource = "status" if change == "nomination" else ""
        self.write(Patch(kind=Pod, namespace="default", name=name, body=body, type_="merge", subresource=subresource))

    @rule(name=st.sampled_from(PODS), graceful=st.booleans())
    def pod_is_deleted(self, name, graceful):
        pod = self._pod(name)
        if pod is None:
            return
        if graceful and not pod.spec.node_name:
            # Somebody's finalizer keeps it for a while.
            metadata = replace(pod.metadata, finalizers=("f",))
            self.write(Update(obj=replace(pod, metadata=metadata)))
        request = Delete(kind=Pod, namespace="default", name=name, uid=pod.metadata.uid)
        self.hand.write(request, grace=30.0 if graceful else 0.0)

    @rule(name=st.sampled_from(PODS))
    def terminating_pod_goes(self, name):
        pod = self._pod(name)
        if pod is not None and pod.metadata.deletion_timestamp:
            self._end(pod)

    def _end(self, pod):
        metadata = pod.metadata
        if metadata.finalizers:
            body = {"metadata": {"finalizers": None}}
            self.write(Patch(kind=Pod, namespace="default", name=metadata.name, body=body, type_="merge"))
        self.hand.changed(self.store.end(Pod, "default", metadata.name, metadata.uid))

    @rule(name=st.sampled_from(PODS), node=st.sampled_from(NODES))
    def somebody_else_binds(self, name, node):
        self.write(Bind(namespace="default", name=name, uid="", node=node))

    def _pod(self, name):
        return next((pod for pod in self.store.list(Pod) if pod.metadata.name == name), None)

    # -- news ---------------------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from((Node, Pod, Pod)), number=st.sampled_from((1, 2, None)))
    def news_are_told(self, kind, number):
        self.hand.deliver(kind, number)

    @rule(kind=st.sampled_from((Node, Pod)))
    def everything_is_listed_anew(self, kind):
        self.hand.deliver_at_once(kind)

    # -- the scheduler ------------------------------------------------------------------------------------------------

    @rule(turns=st.sampled_from((1, 2, 10)))
    def pods_are_tried(self, turns):
        self.hand.schedule(turns)

    @precondition(lambda self: self.hand.under_way)
    @rule(data=st.data(), how=st.sampled_from(("done", "done", "done", "done", "refused", "lost", "lost before")))
    def effect_ends(self, data, how):
        number = data.draw(st.sampled_from(self.hand.answerable))
        options = {
            "done": {"grace": data.draw(st.sampled_from((0.0, 30.0)))},
            "refused": {"refused": data.draw(st.sampled_from(REFUSALS))},
            "lost": {"lost": True},
            "lost before": {"lost": False},
        }[how]
        self.hand.answer(number, **options)

    @precondition(lambda self: self.hand.withdrawn)
    @rule(arrives=st.booleans())
    def withdrawn_request(self, arrives):
        if arrives:
            self.hand.withdrawn_gets_there()
        else:
            self.hand.withdrawn.pop(0)

    @rule(seconds=st.sampled_from((0.0, 0.25, 1.0, 2.0, 5.0, 12.0)), punctual=st.booleans())
    def time_passes(self, seconds, punctual):
        if punctual:
            self.hand.advance(seconds)
        else:
            self.hand.now += seconds

    @rule()
    def tick_comes_early(self):
        self.hand.tick()

    @rule(plugin=st.sampled_from(("Gate", "Doorman", "DefaultPreemption", "NodeResourcesFit")), served=st.booleans())
    def plugin_is_switched(self, plugin, served):
        self.hand.submit(Served(frozenset({plugin}), served=served))

    @rule()
    def scheduler_stops(self):
        if self.uids > 3:
            self.stopped = True
            self.hand.submit(Stopped())

    # -- plugins ------------------------------------------------------------------------------------------------------

    @rule(gate=st.sampled_from(("x", "y")), closed=st.booleans())
    def gate_moves(self, gate, closed):
        (self.world.closed.add if closed else self.world.closed.discard)(gate)
        if not closed:
            self.engine.activate([info for info in self.engine.state.pending.values() if info.labels["gate"] == gate])

    @rule(point=st.sampled_from(("reserve", "permit", "prepare")), mood=st.sampled_from(MOODS))
    def mood_changes(self, point, mood):
        setattr(self.world, point, mood)

    @rule(patient=st.booleans())
    def patience_changes(self, patient):
        self.world.patient = patient

    @precondition(lambda self: len(self.engine.waiting_pods))
    @rule(data=st.data(), allowed=st.booleans())
    def waiting_pod_is_decided(self, data, allowed):
        waiting = data.draw(st.sampled_from(sorted(self.engine.waiting_pods, key=lambda pod: pod.uid)))
        if allowed:
            waiting.allow("Doorman")
        else:
            waiting.reject("Doorman", "no")

    @precondition(lambda self: self.engine.parts.pods_in_pre_bind.uids())
    @rule(data=st.data())
    def pod_in_pre_bind_is_cancelled(self, data):
        pods = self.engine.parts.pods_in_pre_bind
        pods.get(data.draw(st.sampled_from(pods.uids()))).cancel("somebody needs the room more")

    # -- the end ------------------------------------------------------------------------------------------------------

    def teardown(self):
        if not hasattr(self, "hand"):
            return
        if self.stopped:
            self._shut_down()
        else:
            self._come_to_rest()
            self._state_is_the_cluster()
            self._pending_pods_cannot_be_placed()
        self.hand.close()

    def _shut_down(self):
        self.hand.answer_all()
        self.engine.queue.close()
        self.hand.submit(Closing())
        self.hand.answer_all()
        assert self.engine.statuses.idle
        assert self.engine.under_way <= self.engine.resting, "only those are left that wait for time"

    def _come_to_rest(self):
        """Answer, tell and allow everything, and let time pass; not so long that pods are tried for no reason."""
        self.world.be_kind()
        for plugin in ("Gate", "Doorman", "DefaultPreemption", "NodeResourcesFit"):
            self.hand.submit(Served(frozenset({plugin}), served=True))
        for seconds in range(60):
            self._settle()
            if not seconds:
                self._tell_that_plugins_are_kind()
            self.hand.advance(1.0)
        self._settle()

    def _settle(self):
        while True:
            for pod in self.store.list(Pod):
                if pod.metadata.deletion_timestamp:
                    self._end(pod)
            self.hand.answer_all()
            self.hand.deliver(Node)
            self.hand.deliver(Pod)
            self.hand.schedule()
            if not (self.hand.under_way or self.hand.news[Pod] or self.hand.news[Node]):
                return

    def _tell_that_plugins_are_kind(self):
        for node in self.store.list(Node):
            body = {"metadata": {"labels": {"kind": "yes"}}}
            self.write(Patch(kind=Node, namespace="", name=node.metadata.name, body=body, type_="merge"))

    def _state_is_the_cluster(self):
        state = self.engine.state
        pods = self.store.list(Pod)
        assert {info.uid: info.node_name for info in state.placed_pods()} == {
            pod.metadata.uid: pod.spec.node_name for pod in pods if pod.spec.node_name
        }
        assert {info.pod.metadata.uid for info in state.pending.values()} == {
            pod.metadata.uid for pod in pods if not pod.spec.node_name and pod.spec.scheduler_name in (DEFAULT, OTHER)
        }
        assert set(state.table.row_of) == {node.metadata.name for node in self.store.list(Node)}
        assert not self.engine.bindings.under_way

    def _pending_pods_cannot_be_placed(self):
        for info in self.engine.state.pending.values():
            queued = self.engine.queue.get(info.key)
            assert queued is not None, f"{info.key} is pending, and nowhere"
            # Parity: that there is no node at all is an error.
            place = Place.UNSCHEDULABLE if self.store.list(Node) else Place.ERROR_BACKOFF
            assert queued.place is place or queued.gated, f"{info.key} is {queued.place}"
            if not info.pod.spec.scheduling_gates:
                found = [node.metadata.name for node in self.store.list(Node) if self._takes(node, info.pod)]
                assert not found, f"{info.key} could be on {found}; rejected by {queued.rejectors}"

    def _takes(self, node, pod):
        """Whether the pod could be on the node, once less important ones have left if it may evict any."""
        if node.spec.unschedulable:
            return False
        here = [one for one in self.store.list(Pod) if one.spec.node_name == node.metadata.name]
        here += [info.pod for info in self.engine.state.nominator.on(node.metadata.name) if info.pod is not pod]
        evicts = pod.spec.preemption_policy != "Never"
        staying = [one for one in here if not evicts or (one.spec.priority or 0) >= (pod.spec.priority or 0)]
        return _cpu(node.status.allocatable) >= sum(_requested(one) for one in (*staying, pod))


def _requested(pod):
    return sum(_cpu(container.resources.requests) for container in pod.spec.containers)


def _cpu(amounts):
    return milli_value(parse_quantity(amounts["cpu"]))


def test_the_engine_never_contradicts_itself():
    run_state_machine_as_test(Machine, settings=settings(examples(100), stateful_step_count=60))
