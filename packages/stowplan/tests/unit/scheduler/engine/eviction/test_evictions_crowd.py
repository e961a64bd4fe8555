"""Many preemptors at once: all are decided before the first victim is evicted, and each gets a node of its own.

Evictions, deletions and their events arrive in random order; in any order, there are as many victims as preemptors that
were placed, and no node is left empty.
"""

from functools import partial
from random import Random
from types import SimpleNamespace

from hypothesis import example, given
from hypothesis import strategies as st

from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.eviction.evictions import Evictions
from stowplan.scheduler.engine.leaving_pods import LeavingPods
from stowplan.scheduler.engine.outbox import Outbox
from stowplan.scheduler.engine.schedule_one import schedule_pod
from stowplan.scheduler.framework.requests import Delete, Done
from stowplan.scheduler.framework.waiting_pods import PodsInPreBind, WaitingPods
from stowplan.testing import a_node, a_pod
from support.observing.metrics import scheduler_metrics
from support.plugins.profiles import framework
from support.scheduling.worlds import struct

#: A preemptor's request; two fill a node.
CPU = st.sampled_from((1, 2))


class Draw:
    """The random source of decisions, drawn by the test."""

    def __init__(self, random):
        self._random = random

    def randrange(self, stop):
        return self._random.randrange(stop)


class Crowd:
    """A full cluster, a plain queue, and an API server that answers when the test says so."""

    def __init__(self, random, nodes):
        self.random = random
        self.state = ClusterState()
        self.profile = framework(self.state)
        self.scheduler = SchedulingAlgorithm(self.state, {"default-scheduler": self.profile}, random=Draw(random))
        self.pods, self.pending, self.died, self.calls = {}, [], [], []
        #: Nominations that may be lost because a pod of higher priority took the node or was nominated to it.
        self.overridden = 0
        self.outbox = Outbox()
        parts = SimpleNamespace(
            outbox=self.outbox,
            state=self.state,
            waiting_pods=WaitingPods(now=lambda: 0.0),
            pods_in_pre_bind=PodsInPreBind(),
            leaving=LeavingPods(),
            reporter=self,
            queue=SimpleNamespace(activate=lambda pods: None),
            statuses=self,
        )
        self.leaving = parts.leaving
        self.evictions = self.profile.handle.preemptions = Evictions(
            parts, metrics=scheduler_metrics(), now=lambda: 0.0
        )
        self.profile.handle.random = Draw(random)
        self.news = []
        for i in range(nodes):
            self.state.add_node(struct(a_node(f"n{i}").allocatable(cpu=2, pods=10)))

    def report(self, problem):
        raise AssertionError(problem)

    def run_victim(self, name, node):
        pod = struct(a_pod(name).uid(name).requests(cpu="1").on(node))
        self.pods[name] = pod
        self.state.add_pod(pod)

    def want(self, name, priority, cpu):
        pod = struct(a_pod(name).uid(name).priority(priority).requests(cpu=str(cpu)))
        info = self.state.pod_info(pod)
        self.state.pending.put(info)
        self.pending.append(info)

    # The API

    def patch(self, pod, listener, *, condition=None, nominated_node_name=None):
        self.calls.append(lambda: listener.status_written(None))

    def write(self, pod, *, nominated_node_name):
        """No-op: nominations are not read from the API here."""

    def delete(self, effect):
        request = effect.action
        assert type(request) is Delete
        if request.uid not in self.died:
            self.died.append(request.uid)
            self.news.append(("terminates", request.uid))
            self.news.append(("gone", request.uid))
        self.outbox.answered(effect.number, Done())

    # Steps

    def step(self):
        """One of: a pod is tried, a request is answered, an event is delivered."""
        steps = [(self.hear, self.news), (self.attempt, self.pending), (self.let_through, self.calls)]
        possible = [step for step, work in steps if work]
        self.random.choice(possible)()
        self.outbox.finish()
        self.calls += [partial(self.delete, effect) for effect in self.outbox.take()]
        assert self.evictions.problems() == []

    def let_through(self):
        self.calls.pop(self.random.randrange(len(self.calls)))()

    def hear(self):
        """Events arrive in the order of a watch."""
        what, uid = self.news.pop(0)
        pod = self.state.placed(uid).pod
        if what == "gone":
            self.state.remove_pod(uid)
            self.leaving.left(uid)
            del self.pods[uid]
            return
        builder = a_pod(uid).uid(uid).requests(cpu="1").on(pod.spec.node_name).deleted("2026-01-01T00:00:00Z")
        self.pods[uid] = struct(builder.condition("DisruptionTarget", "True", reason="PreemptionByScheduler"))
        self.state.add_pod(self.pods[uid])
        self.leaving.left(uid)

    def attempt(self):
        info = self.pending.pop(self.random.randrange(len(self.pending)))
        if self.profile_gates(info):
            self.pending.append(info)
            return
        decision = run_at_once(schedule_pod(self.scheduler, self.profile, info))
        nominated_to = self.state.nominator.on(decision.node_name or decision.nominated_node_name or "")
        self.overridden += sum(other.priority < info.priority for other in nominated_to)
        if decision.node_name:
            self.state.assume(info, decision.node_name)
            return
        if decision.plan is not None:
            self.evictions.carry_out(decision.plan, None)
        self.pending.append(info)
        if decision.nominated_node_name is not None:
            self.state.nominator.add(info, decision.nominated_node_name)

    def profile_gates(self, info):
        return any(plugin.pre_enqueue(info) is not None for plugin in self.profile.pre_enqueue)


def preemptors_of(share, nodes, cpu):
    return max(1, round(share * nodes * 2 / cpu))


# Of a preemption's two victims, the last was deleted by another client before the first was seen to be gone.
@example(seed=5, nodes=5, cpu=1, share=0.6875)
@given(seed=st.integers(0, 1 << 32), nodes=st.integers(1, 5), cpu=CPU, share=st.floats(0, 1))
def test_no_pod_is_evicted_in_vain(seed, nodes, cpu, share):
    preemptors = preemptors_of(share, nodes, cpu)
    crowd = play(Random(seed), nodes, preemptors, cpu, priorities=(10,))
    assert crowd.pending == [], "every preemptor is placed"
    assert len(crowd.died) == preemptors * cpu


@given(seed=st.integers(0, 1 << 32), nodes=st.integers(1, 5), cpu=CPU, share=st.floats(0, 1))
def test_extra_evictions_only_where_higher_priority_pods_take_nominated_room(seed, nodes, cpu, share):
    preemptors = preemptors_of(share, nodes, cpu)
    crowd = play(Random(seed), nodes, preemptors, cpu, priorities=(10, 20, 30))
    assert crowd.pending == [], "every preemptor is placed"
    assert preemptors * cpu <= len(crowd.died) <= (preemptors + crowd.overridden) * cpu


def play(random, nodes, preemptors, cpu, priorities):
    crowd = Crowd(random, nodes)
    for node in range(nodes):
        for i in range(2):
            crowd.run_victim(f"v{node}-{i}", f"n{node}")
    for i in range(preemptors):
        crowd.want(f"p{i}", random.choice(priorities), cpu)
    for _ in range(2000):
        if not (crowd.pending or crowd.news or crowd.calls):
            break
        crowd.step()
    return crowd
