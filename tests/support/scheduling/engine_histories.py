"""Random histories of an engine: any actions in any order, with the engine validated after each step.

At the end, when everything is answered, delivered and allowed, every pod must be on a node, or pending for a reason
that a plain check of the cluster confirms.
"""

from typing import Any

from hypothesis import strategies as st

from stowplan.kube.api.api_errors import ApiError, Conflict, InternalError
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.quantity import milli_value, parse_quantity
from stowplan.kube.api.types import Node, Pod
from stowplan.scheduler.cluster.pod_info import scheduler_name_of
from stowplan.scheduler.engine.inputs import Closing, Served, Started, Stopped
from stowplan.scheduler.framework.requests import Bind, Create, Delete, Patch, Update
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from support.plugins.switchable_plugins import ANSWER_NAMES, PluginSwitches, plugins_of
from support.scheduling.engine_by_hand import EngineByHand
from support.scheduling.fake_extender import FakeExtender
from support.scheduling.worlds import struct

DEFAULT, OTHER = "default-scheduler", "other"
NODES = ("n0", "n1", "n2")
PODS = ("a", "b", "c", "d", "e", "f")
REFUSALS = (Conflict("newer"), InternalError("no"), Unreachable("away"))


TRAITS = (
    *(
        "",
        "",
        "",
        "x",
        "y",
        "wait",
        "wait x",
        "sleep",
        "patch",
        "node",
        "run",
        "now",
        "now run",
        "sleep patch run",
        "wait node run",
    ),
    *("gated", "never", "other", "other wait patch", "stranger"),
)
CHANGES = ("ungated", "label", "annotation", "nomination", "deleted", "deleted gracefully", "ended", "ended", "bound")
#: How an effect ends: mostly successfully.
ENDS = ("done", "done", "done", "done gracefully", "done gracefully", "refused", "lost", "lost before")
#: Switched off and on. Without the last one, nodes are overcommitted.
PLUGINS = ("Gate", "Doorman", "NodeResourcesFit")
#: The actions: weight, method, and the choices for each of its arguments.
ACTIONS = (
    (4, "pod_is_created", PODS, ("1", "2", "3", "5"), (0, 5, 10), TRAITS),
    (1, "node_changes", NODES, ("4", "4", "2", "6", "cordoned", "gone")),
    (3, "pod_changes", PODS, CHANGES, NODES),
    (4, "run_without_faults", (1, 3, 10)),
    (4, "changes_are_delivered", (Node, Pod, Pod), (1, 2, None, "list")),
    (4, "pods_are_scheduled", (1, 2, 10)),
    (8, "effect_completes", tuple(range(8)), ENDS),
    (1, "withdrawn_request_is_carried_out"),
    (4, "time_passes", (0.0, 0.25, 1.0, 2.0, 5.0, 12.0), ("on time", "on time", "late", "early")),
    (1, "plugin_is_switched", PLUGINS, (True, True, False)),
    (1, "gate_changes", ("x", "y"), (True, True, False)),
    (1, "plugin_answer_changes", ("reserve", "permit", "prepare"), ("yes", "yes", *ANSWER_NAMES)),
    (1, "permit_waiting_changes", (True, False)),
    (1, "extenders_change", ("all", "all", "some", "none")),
    (2, "waiting_pod_is_decided", tuple(range(4)), (True, True, False)),
    (1, "pod_in_pre_bind_is_cancelled", tuple(range(4))),
)


class History:
    """The actions so far on an engine and its cluster."""

    def __init__(self, *, extenders=False):
        self.switches = PluginSwitches()
        self.uids = 0
        self.hand = EngineByHand(
            *plugins_of(self.switches),
            profiles=(DEFAULT, OTHER),
            extenders=[FakeExtender("first", filters=True, prioritizes=True), FakeExtender("second", filters=True)]
            if extenders
            else (),
            asked=self._asked,
        )
        self.engine, self.store = self.hand.engine, self.hand.store
        self.hand.submit(Started())

    def apply(self, action, *arguments):
        getattr(self, action)(*arguments)

    def write(self, request):
        """Write, unless it is not possible in the current state."""
        try:
            self.hand.write(request)
        except ApiError:
            return False
        return True

    # -- the cluster --------------------------------------------------------------------------------------------------

    def node_changes(self, name, change):
        if change == "gone":
            self.write(Delete(kind=Node, namespace="", name=name))
            return
        node = a_node(name)
        if change == "cordoned":
            node.spec(unschedulable=True)
        else:
            node.allocatable(cpu=change)
        node = struct(node)
        if not self.write(Create(obj=node)):
            self.write(Update(obj=node))

    def pod_is_created(self, name, cpu, priority, traits):
        self.uids += 1
        pod = a_pod(name).uid(f"{name}-{self.uids}").requests(cpu=cpu).priority(priority)
        pod.labels({trait: trait for trait in traits.split()})
        if "other" in traits:
            pod.scheduler(OTHER)
        if "stranger" in traits:
            pod.scheduler("stranger")
        if "gated" in traits:
            pod.spec(schedulingGates=[{"name": "g"}])
        if "never" in traits:
            pod.spec(preemptionPolicy="Never")
        self.write(Create(obj=struct(pod)))

    def pod_changes(self, name, change, node):
        pod = next((pod for pod in self.store.list(Pod) if pod.metadata.name == name), None)
        if pod is None:
            return
        if change == "ungated":
            self._patch(name, {"spec": {"schedulingGates": None}})
        elif change in ("label", "annotation"):
            self._patch(name, {"metadata": {f"{change}s": {"changed": str(self.store.version)}}})
        elif change == "nomination":
            self._patch(name, {"status": {"nominatedNodeName": None}}, subresource="status")
        elif change == "bound":
            self.write(Bind(namespace="default", name=name, uid="", node=node))
        elif change == "ended":
            self._end(pod)
        else:
            self._delete(pod, graceful=change == "deleted gracefully")

    def _patch(self, name, body, **options):
        self.write(Patch(kind=Pod, namespace="default", name=name, body=body, type_="merge", **options))

    def _delete(self, pod, *, graceful):
        name = pod.metadata.name
        if graceful and not pod.spec.node_name:
            # A finalizer keeps it for a while.
            self._patch(name, {"metadata": {"finalizers": ["f"]}})
        request = Delete(kind=Pod, namespace="default", name=name, uid=pod.metadata.uid)
        self.hand.write(request, grace=30.0 if graceful else 0.0)

    def _end(self, pod):
        """Finish a terminating pod."""
        if pod.metadata.deletion_timestamp:
            if pod.metadata.finalizers:
                self._patch(pod.metadata.name, {"metadata": {"finalizers": None}})
            self.hand.changed(self.store.end("default", pod.metadata.name, pod.metadata.uid))

    # -- the scheduler ------------------------------------------------------------------------------------------------

    def run_without_faults(self, turns):
        """Deliver, schedule and answer everything once."""
        self.hand.deliver(Node)
        self.hand.deliver(Pod)
        self.hand.schedule(turns)
        for number in self.hand.answerable:
            if number in self.hand.under_way:
                self.hand.answer(number)

    def changes_are_delivered(self, kind, number):
        if number == "list":
            self.hand.deliver_at_once(kind)
        else:
            self.hand.deliver(kind, number)

    def pods_are_scheduled(self, turns):
        self.hand.schedule(turns)

    def effect_completes(self, which, how):
        answerable = self.hand.answerable
        if not answerable:
            return
        options: dict[str, dict[str, Any]] = {
            "done": {},
            "done gracefully": {"grace": 30.0},
            "refused": {"refused": REFUSALS[which % len(REFUSALS)]},
            "lost": {"lost": True},
            "lost before": {"lost": False},
        }
        self.hand.answer(answerable[which % len(answerable)], **options[how])

    def withdrawn_request_is_carried_out(self):
        if self.hand.withdrawn:
            self.hand.withdrawn_gets_there()

    def time_passes(self, seconds, how):
        if how == "on time":
            self.hand.advance(seconds)
        elif how == "late":
            self.hand.now += seconds
        else:
            self.hand.tick()

    def plugin_is_switched(self, plugin, served):
        self.hand.submit(Served(frozenset({plugin}), served=served))

    # -- plugins ------------------------------------------------------------------------------------------------------

    def gate_changes(self, gate, is_open):
        if is_open:
            self.switches.closed_gates.discard(gate)
            opened = [info for info in self.engine.state.pending.values() if gate in info.labels]
            self.engine.plugins.activate(opened)
        else:
            self.switches.closed_gates.add(gate)

    def plugin_answer_changes(self, point, mood):
        setattr(self.switches, point, mood)

    def permit_waiting_changes(self, permit_waits):
        self.switches.permit_waits = permit_waits

    def extenders_change(self, leave):
        self.switches.extenders_leave = leave

    def _asked(self, ask):
        """The extender's answer."""
        nodes = ask.question["nodes"]
        if ask.verb == "prioritize":
            return {name: score for score, name in enumerate(nodes)}
        return {"all": nodes, "some": nodes[1:], "none": []}[self.switches.extenders_leave]

    def waiting_pod_is_decided(self, which, allowed):
        waiting = list(self.engine.waiting_pods)
        if waiting and allowed:
            waiting[which % len(waiting)].allow("Doorman")
        elif waiting:
            waiting[which % len(waiting)].reject("Doorman", "no")

    def pod_in_pre_bind_is_cancelled(self, which):
        pods = self.engine.context.pods_in_pre_bind
        uids = pods.uids()
        if uids:
            pods.get(uids[which % len(uids)]).cancel("somebody needs the room more")

    # -- the end ------------------------------------------------------------------------------------------------------

    def check_final_state(self):
        self._quiesce()
        self._state_is_the_cluster()
        self._pending_pods_cannot_be_placed()

    def shuts_down(self):
        """In the middle of everything."""
        self.hand.submit(Stopped())
        self.hand.answer_all()
        self.engine.queue.close()
        self.hand.submit(Closing())
        self.hand.answer_all()
        assert self.engine.statuses.idle
        assert self.engine.under_way <= self.engine.resting, "only timers are left"

    def _quiesce(self):
        """Answer, deliver and allow everything, and advance time; not so far that pods are flushed from the
        unschedulable pods."""
        self.switches.accept_everything()
        for plugin in PLUGINS:
            self.hand.submit(Served(frozenset({plugin}), served=True))
        for seconds in range(60):
            self._settle()
            if not seconds:
                self._wake_rejected_pods()
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

    def _wake_rejected_pods(self):
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
            pod.metadata.uid for pod in pods if not pod.spec.node_name and scheduler_name_of(pod) != "stranger"
        }
        assert set(state.table.row_of) == {node.metadata.name for node in self.store.list(Node)}
        assert not self.engine.bindings.under_way

    def _pending_pods_cannot_be_placed(self):
        for info in self.engine.state.pending.values():
            queued = self.engine.queue.get(info.key)
            assert queued is not None, f"{info.key} is pending and not queued"
            # Parity: an attempt without any node ends in an error.
            fails = queued.place is Place.ERROR_BACKOFF and not self.store.list(Node)
            assert fails or queued.place is Place.UNSCHEDULABLE, f"{info.key} is {queued.place}"
            if not info.pod.spec.scheduling_gates:
                found = [node.metadata.name for node in self.store.list(Node) if self._takes(node, info.pod)]
                assert not found, f"{info.key} fits {found}; rejected by {queued.rejectors}"

    def _takes(self, node, pod):
        """Whether the pod fits the node, once it has evicted pods of lower priority if it may."""
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


def actions():
    """Strategy: one action, with its arguments."""
    return st.sampled_from([what for often, *what in ACTIONS for _ in range(often)]).flatmap(
        lambda what: st.tuples(st.just(what[0]), *map(st.sampled_from, what[1:]))
    )


def random_actions(chance, number):
    """A list of random actions, without hypothesis."""
    known, often = [what for _, *what in ACTIONS], [times for times, *_ in ACTIONS]
    return [(action, *map(chance.choice, args)) for action, *args in chance.choices(known, often, k=number)]
