"""Random histories of evictions: no pod is evicted in vain, every plan ends, and no preemptor is forgotten.

Plans compete for victims. The API server answers in random order and with random outcomes (done, refused, lost with and
without effect), the scheduler sees changes later, and other clients delete, replace and bind pods and delete nodes.
Each request to the API server is compared with the plain rule at that moment.
"""

from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import Conflict, Forbidden, InternalError
from stowplan.kube.api.port import Unreachable
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.scheduler.engine.eviction.eviction_records import EvictionStage
from stowplan.scheduler.engine.eviction.victim_evictions import MAX_CONCURRENT_EVICTIONS
from stowplan.scheduler.framework.requests import Done
from support.api.embedded import pod as a_manifest
from support.examples import examples
from support.observing.metrics import numbers
from support.scheduling.evicting import NODES, World

PREEMPTORS = tuple(f"{priority}-{i}" for priority in ("low", "high", "top") for i in range(2))

FINALIZER = "example.com/wait"

#: Outcomes of a request, besides success.
FATES = {
    "refused": {"refusals": Forbidden("no")},
    "a conflict": {"refusals": Conflict("webhook")},
    "trouble": {"refusals": InternalError("trouble")},
    "no server": {"refusals": Unreachable("refused")},
    "lost on its way": {"refusals": OutcomeUnknown("reset")},
    "its answer lost": {"lost_answers": OutcomeUnknown("reset")},
}

ASSUMED = ("waiting", "allowed", "in PreBind", "through PreBind")

#: Weights of the next action.
STEPS = {"plan": 4, "answer": 4, "carry_out": 3, "time_passes": 1, "news_come": 3, "something_else": 4}

ELSE = (
    "another_client_deletes",
    "victims_are_deleted",
    "terminated_pods_end",
    "bindings_are_undone",
    "a_preemptor_finds_a_node",
    "a_node_is_deleted",
)

NODE, GRACE = st.sampled_from(NODES), st.sampled_from((0, 30))
ANSWERS = st.tuples(st.integers(0, 15), st.sampled_from(("done", *FATES)))


class Planned:
    """A plan, and the plain rule for it."""

    def __init__(self, plan, preemption):
        self.plan, self.preemption = plan, preemption
        self.preemptor, self.node = plan.preemptor, plan.node_name
        self.victims = [victim.uid for victim in plan.victims if not victim.terminating]
        self.superseded = False
        #: Victims reported as deleted.
        self.deleted = set()
        #: Whether the preemptor was activated, or a victim's end has woken it.
        self.woken = False

    def is_wanted(self, state):
        """Whether the preemptor still needs the room."""
        pod = state.newest(self.preemptor.uid)
        return (
            pod is not None
            and pod.metadata.deletion_timestamp is None
            and state.placed(self.preemptor.uid) is None
            and self.node in state.table.row_of
            and not self.superseded
        )


class History:
    """A random history, drawn action by action."""

    def __init__(self, draw):
        self.draw = draw
        self.world = World(real_statuses=True)
        self.state, self.cluster, self.calls = self.world.state, self.world.cluster, self.world.calls
        self.evictions = self.world.evictions
        #: Preemptor's UID -> its last plan; and earlier ones.
        self.plans, self.earlier = {}, []
        #: Assumed pods whose bindings were cancelled and are not undone yet.
        self.turned_back = []
        #: Their UIDs, including those whose bindings were undone.
        self.ever_turned_back = set()
        self.seen_calls = self.seen_events = 0
        #: Evictions in progress, and their stages after the last step.
        self.seen_stages = set()

    def run(self, length):
        self.a_cluster()
        for _ in range(length):
            possible = [what for what, weight in STEPS.items() for _ in range(weight if self.can(what) else 0)]
            getattr(self, self.draw(st.sampled_from(possible)))()
            self.check_all()
        self.everything_ends()

    def can(self, what):
        match what:
            case "plan":
                return bool(self.candidates() and self.lesser_pods())
            case "answer" | "carry_out":
                return bool(self.calls.under_way)
            case "time_passes":
                return any(self.world.outbox.alarms)
        return True

    # -- the cluster --------------------------------------------------------------------------------------------------

    def a_cluster(self):
        for node in NODES:
            number = self.draw(st.sampled_from((1, 3, 20)))
            self.world.placed(*(f"{node}-{i}" for i in range(number)), node=node)
        for i, where in enumerate(self.draw(st.lists(st.sampled_from(ASSUMED), max_size=3))):
            self.assume(f"assumed-{i}", where)
        for name in PREEMPTORS:
            self.create_preemptor(name)
        self.world.deliver_changes()

    def create_preemptor(self, name):
        manifest = a_manifest(name, priorityClassName=name.partition("-")[0])
        if name.endswith("1"):
            manifest["metadata"]["finalizers"] = [FINALIZER]
        self.cluster.create("pods", manifest)

    def assume(self, name, where):
        info = self.world.assumed(name)
        if where in ("waiting", "allowed"):
            waiting = self.world.waiting_pods.add(info, {"Gang": 60.0})
            if where == "allowed":
                waiting.allow("Gang")
            else:
                waiting.on_decided(lambda decision: self.turned_back.append(info))
        else:
            stoppable = self.world.pods_in_pre_bind.add(info.uid, lambda reason: self.turned_back.append(info))
            if where == "through PreBind":
                stoppable.mark_prebound()

    def names(self):
        return sorted(stored.name for stored in self.cluster.store.list("pods", ""))

    def node_of(self, name):
        return self.cluster.get("pods", "default", name)["spec"].get("nodeName", "")

    def all_plans(self):
        return [*self.plans.values(), *self.earlier]

    def step(self):
        """The end of a step: checks the requests that it made."""
        self.world.end_step()
        self.check_requests()
        self.check_stages()
        self.check_events()
        self.check_activations()

    # -- preemptions --------------------------------------------------------------------------------------------------

    def candidates(self):
        """Pods that would be tried."""
        pending = [self.state.pending.get(f"default/{name}") for name in PREEMPTORS]
        return [info for info in pending if info is not None and self.is_tried(info)]

    def is_tried(self, info):
        placed = self.state.placed(info.uid) is not None
        return not (info.terminating or placed or self.evictions.under_way(info))

    def lesser_pods(self):
        """Pods that preemptors may evict, by node."""
        found = {}
        for info in self.state.placed_pods():
            if info.priority < 10 and info.node_name in self.state.table.row_of:
                found.setdefault(info.node_name, []).append(info)
        return found

    def plan(self):
        preemptor = self.draw(st.sampled_from(self.candidates()))
        node, there = self.draw(st.sampled_from(sorted(self.lesser_pods().items())))
        first = self.draw(st.integers(0, len(there) - 1))
        number = self.draw(st.sampled_from((len(there), 1, 2, 3)))
        victims = [*there[first:], *there[:first]][:number]
        nominated = {info.uid for info in self.state.nominator.on(node) if info.priority < preemptor.priority}
        plan = self.world.preempt(preemptor, *victims, node=node)
        if not all(victim.terminating for victim in victims):
            for uid in nominated & self.plans.keys():
                self.plans[uid].superseded = True
            if preemptor.uid in self.plans:
                self.earlier.append(self.plans[preemptor.uid])
            self.plans[preemptor.uid] = Planned(plan, self.evictions._preemptions[preemptor.uid])
        self.step()
        name = preemptor.pod.metadata.name
        if self.draw(st.booleans()) and name in self.names() and not self.node_of(name):
            # The nomination was written to the API server.
            status = {"status": {"nominatedNodeName": node}}
            self.cluster.patch("pods", "default", name, status, subresource="status")

    # -- the API server -----------------------------------------------------------------------------------------------

    def answer(self):
        for which, fate in self.draw(st.lists(ANSWERS, min_size=1, max_size=6)):
            if not self.calls.under_way:
                return
            self.complete(self.calls.under_way[which % len(self.calls.under_way)], FATES.get(fate, {}))

    def carry_out(self):
        for call in self.calls.under_way[: self.draw(st.integers(1, MAX_CONCURRENT_EVICTIONS))]:
            self.complete(call)

    def complete(self, call, fate=MappingProxyType({})):
        """Complete a call or let it fail; errors about pods that are gone are expected."""
        for outcomes, error in fate.items():
            getattr(self.calls, outcomes)[call.key] = error
        outcome = self.calls.carry_out(call)
        self.calls.refusals, self.calls.lost_answers = {}, {}
        complaints = len(self.world.reports)
        call.answer(outcome)
        self.step()
        stands = call.verb == "get" and isinstance(outcome, Done) and outcome.value.metadata.deletion_timestamp is None
        assert fate or stands or len(self.world.reports) == complaints

    def time_passes(self):
        self.world.outbox.now = min(alarm.at for alarm in self.world.outbox.alarms)
        self.world.outbox.ring()
        self.step()

    def news_come(self):
        before = [info.uid for info in self.state.placed_pods()]
        self.world.deliver_changes()
        self.left({uid for uid in before if self.state.placed(uid) is None})
        self.step()

    def left(self, uids):
        """These pods have left their nodes, which wakes pods that wait for that and are not gated."""
        for uid in uids:
            self.world.waiting_pods.remove(uid)
            self.world.pods_in_pre_bind.remove(uid)
        for planned in self.plans.values():
            if uids.intersection(planned.victims) and not self.evictions.under_way(planned.preemptor):
                planned.woken = True

    # -- other clients ------------------------------------------------------------------------------------------------

    def something_else(self):
        getattr(self, self.draw(st.sampled_from(ELSE)))()

    def another_client_deletes(self):
        """Deletes a pod, and may create another with its name."""
        names = self.names()
        if preemptors := [name for name in PREEMPTORS if name in names]:
            names = self.draw(st.sampled_from((names, preemptors)))
        if not names:
            return
        name = self.draw(st.sampled_from(names))
        node = self.node_of(name)
        self.world.delete(name, grace=self.draw(GRACE))
        if not self.draw(st.booleans()) or name in self.names():
            return
        if name in PREEMPTORS:
            self.create_preemptor(name)
        else:
            self.cluster.create("pods", a_manifest(name, **({"nodeName": node} if node else {})))

    def victims_are_deleted(self):
        """All victims of a plan at once."""
        victims = set(self.draw(st.sampled_from(self.all_plans())).victims) if self.plans else set()
        for stored in self.cluster.store.list("pods", ""):
            if stored.uid in victims:
                self.world.delete(stored.name, grace=self.draw(GRACE))
        self.news_come()

    def terminated_pods_end(self):
        for name in self.names():
            if self.world.terminating(name):
                self.end(name)

    def end(self, name):
        manifest = self.cluster.get("pods", "default", name)
        if manifest["metadata"].pop("finalizers", None):
            self.cluster.update("pods", manifest)
        if name in self.names():
            self.world.delete(name)

    def a_preemptor_finds_a_node(self):
        """In a scheduling cycle, which may fail later; or bound by another client."""
        if not (candidates := self.candidates()):
            return
        info, node = self.draw(st.sampled_from(candidates)), self.draw(NODE)
        if self.draw(st.booleans()):
            self.state.assume(info, node)
            self.step()
            return
        name = info.pod.metadata.name
        if name in self.names() and not self.node_of(name) and not self.world.terminating(name):
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
            self.cluster.registry.bind("default", name, {"apiVersion": "v1", "kind": "Binding", **binding})

    def bindings_are_undone(self):
        """Bindings of pods that were rejected, and of preemptors whose bindings failed."""
        known = {stored.uid for stored in self.cluster.store.list("pods", "")}
        turned_back = {info.uid for info in self.turned_back}
        self.turned_back.clear()
        for info in self.state.placed_pods():
            ours = info.uid in turned_back or info.pod.metadata.name in PREEMPTORS
            if ours and info.uid in known and self.state.is_assumed(info.uid):
                self.state.forget(info)
                self.left({info.uid})
        self.step()

    def a_node_is_deleted(self):
        if len(self.state.table.row_of) == len(NODES):
            self.state.remove_node(self.draw(NODE))
            self.step()

    # -- what must hold -----------------------------------------------------------------------------------------------

    def check_all(self):
        """The number of evictions is limited; preemptors whose victims are still running are gated."""
        assert len(self.evictions._victims._at_work) <= MAX_CONCURRENT_EVICTIONS
        assert sum(call.verb in ("delete", "get") for call in self.calls.under_way) <= MAX_CONCURRENT_EVICTIONS
        for planned in self.plans.values():
            if any(map(self.stays, planned.deleted)):
                assert self.evictions.under_way(planned.preemptor)

    def check_requests(self):
        """Only victims of wanted plans are deleted."""
        new, self.seen_calls = self.calls.log[self.seen_calls :], len(self.calls.log)
        wanted = {uid for planned in self.all_plans() if planned.is_wanted(self.state) for uid in planned.victims}
        assert {call[2] for call in new if call[0] == "delete"} <= wanted, "deleted for a plan that is not wanted"

    def check_stages(self):
        stages = {(eviction, eviction.stage) for eviction in self.evictions._victims._at_work}
        for eviction, stage in stages - self.seen_stages:
            self.check_stage(eviction, stage)
        self.seen_stages = stages

    def check_stage(self, eviction, stage):
        """Each stage starts for a wanted plan, and the last victim's once all others are done."""
        preemption, victim = eviction.preemption, eviction.victim
        planned = next(one for one in self.all_plans() if one.preemption is preemption)
        assert stage is EvictionStage.READING or planned.is_wanted(self.state), "started for a plan that is not wanted"
        if stage is EvictionStage.ANNOUNCING:
            here = self.state.placed(victim.uid)
            assert here is not None
            assert (here.node_name, here.terminating) == (planned.node, False)
        if victim.uid == planned.victims[-1]:
            others = [other for other in self.under_way() if other.preemption is preemption]
            assert others == [eviction], "the last victim is evicted last"
        elif planned in self.plans.values():
            assert self.evictions.under_way(planned.preemptor)

    def under_way(self):
        return [*self.evictions._victims._at_work, *self.evictions._victims._waiting]

    def check_events(self):
        """Pods with a preemption event are being deleted, for a plan in which they are victims."""
        recorder = self.world.recorder
        new = list(zip(recorder.events, recorder.uids, strict=True))[self.seen_events :]
        self.seen_events = len(recorder.events)
        for (_, _, _, _, note, _), uid in new:
            told = [one for one in self.all_plans() if one.preemptor.uid in note and uid in one.victims]
            assert told
            if note.endswith("(in kube-scheduler memory)."):
                assert uid in {info.uid for info in self.turned_back}
                assert any(one.is_wanted(self.state) for one in told), "rejected for a plan that is not wanted"
                self.ever_turned_back.add(uid)
            else:
                assert not self.stands(uid)
                # If several plans of one pod have a common victim, the event may be of any of them.
                if len(told) == 1:
                    told[0].deleted.add(uid)

    def stands(self, uid):
        """Whether the pod exists on the API server, and is not terminating."""
        found = [stored.name for stored in self.cluster.store.list("pods", "") if stored.uid == uid]
        return bool(found) and not self.world.terminating(found[0])

    def stays(self, uid):
        """Whether the pod is running, as far as the scheduler has seen."""
        here = self.state.placed(uid)
        return here is not None and not here.terminating

    def check_activations(self):
        for planned in self.plans.values():
            if planned.preemptor.key in self.world.activated:
                planned.woken = True
        self.world.activated.clear()

    # -- the end ------------------------------------------------------------------------------------------------------

    def everything_ends(self):
        """Once the API server has answered and events are delivered, nothing is left, and no preemptor waits
        forever."""
        for _ in range(2000):
            if self.calls.under_way:
                self.complete(self.calls.under_way[0])
            elif any(self.world.outbox.alarms):
                self.time_passes()
        left = self.under_way(), self.evictions.plans_under_way, self.evictions.delayed_retries
        assert left == ([], 0, 0)
        assert numbers(self.world.metrics.goroutines) == {}
        for planned in self.all_plans():
            if not planned.preemption.stopped:
                left = [uid for uid in planned.victims if self.stands(uid) and uid not in self.ever_turned_back]
                assert left == [], "these should have been evicted"
        self.terminated_pods_end()
        self.bindings_are_undone()
        self.news_come()
        for planned in self.plans.values():
            pending = self.state.pending.by_uid(planned.preemptor.uid)
            if pending is not None:
                assert not self.evictions.under_way(pending)
                assert planned.woken or self.state.placed(pending.uid) is not None, "it waits forever"


@examples(60)
@given(data=st.data(), length=st.integers(1, 60))
def test_random_histories_of_evictions(data, length):
    history = History(data.draw)
    try:
        history.run(length)
    finally:
        history.calls.close()
