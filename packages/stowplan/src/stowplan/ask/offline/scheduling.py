"""`Cluster.schedule`: the virtual-time driver on the cluster's own objects, with time standing still.

Reservations are made inside a transaction; undoing them runs Unreserve, last pod first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import takewhile

from msgspec.structs import replace

from stowplan.ask.offline.arguments import ClusterError
from stowplan.drivers.hang_guard.hang_guard import CallGuard
from stowplan.drivers.virtual_time.agenda import Agenda
from stowplan.drivers.virtual_time.driver import VirtualTime
from stowplan.drivers.virtual_time.state_store import StateStore
from stowplan.drivers.virtual_time.stopped_clock import StoppedClock
from stowplan.drivers.virtual_time.virtual_api import VirtualApi
from stowplan.kube.api import types as t
from stowplan.kube.api.port import Change
from stowplan.kube.config import Configuration, FeatureGates
from stowplan.kube.klog import get_logger, without_log
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key
from stowplan.scheduler.cluster.pod_names import PodNames
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.groups.equal_pods import end_of_run, quorum_of, reserves_nothing
from stowplan.scheduler.engine.inputs import Cancelled, Changes, Rejected, Started, Stopped
from stowplan.scheduler.engine.schedule_one import Attempt, Failure, schedule_pod
from stowplan.scheduler.extenders.calls import extenders_without_binders
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import FeasibleSets, Plugin
from stowplan.scheduler.framework.handle import Random
from stowplan.scheduler.framework.requests import Ask, Outcome
from stowplan.scheduler.framework.runtime.binding import run_unreserve
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.registry import Registry
from stowplan.scheduler.framework.status import unschedulable
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.scheduler.queue.queued_pod import QueuedPod

_log = get_logger(__name__)


#: Asked between pods: True ends a question early, with the decisions until then.
Stop = Callable[[], bool]
#: Equal pods that are decided together, if the question may end early.
_TOGETHER = 250


def never() -> bool:
    return False


class Reservations:
    """Reservations of plugins inside transactions, as a participant: undoing runs Unreserve, last pod first."""

    def __init__(self) -> None:
        self._depth = 0
        self._made: list[tuple[Framework, CycleState, PodInfo, str]] = []

    def add(self, framework: Framework, state: CycleState, info: PodInfo) -> None:
        if self._depth:
            self._made.append((framework, state, info, info.node_name))

    def begin(self) -> int:
        self._depth += 1
        return len(self._made)

    def undo(self, mark: int) -> None:
        while len(self._made) > mark:
            _report(run_unreserve(*self._made.pop()))
        self.keep(mark)

    def keep(self, mark: int) -> None:
        self._depth -= 1
        if not self._depth:
            self._made.clear()

    def changed_nodes(self, mark: int) -> tuple[str, ...]:
        return ()

    def dump(self) -> None:
        """Empty: there is no dump while a transaction is open."""

    def load(self, dumped: None) -> None:
        pass


def _report(problems: Iterable[str]) -> None:
    for problem in problems:
        _log.error(None, problem)


#: Maximum number of attempts per pod: a plugin whose rejection message changes each time wakes its own pod.
MAX_ATTEMPTS = 100
#: Maximum number of failures that are kept.
_MAX_FAILURES = 100
#: Why a pod has no decision, and why a binding that waits for time to pass fails.
UNTRIED = f"not tried: another pod was tried {MAX_ATTEMPTS} times before"
NO_TIME_PASSES = "no time passes in a Cluster, and PreBind waits for something that does not come without"


class Attempts:
    """Listens to the engine's decisions about the pods that are being scheduled."""

    def __init__(self, agenda: Agenda, names: PodNames, reservations: Reservations) -> None:
        self._agenda = agenda
        self._names = names
        self._reservations = reservations
        #: UID -> the last decision, in the order in which pods were first tried.
        self.decisions: dict[str, Decision] = {}
        self._counts: dict[str, int] = {}
        #: Messages of attempts in which a plugin or extender failed, in order of appearance.
        self.failures: dict[str, None] = {}
        self.stop: Stop = never
        #: Whether the engine was told to try no more pods.
        self.stopped = False

    def clear(self) -> None:
        """Forget the pods; failures are kept."""
        self.stopped = False
        self.decisions.clear()
        self._counts.clear()

    def decided(self, decision: Decision) -> None:
        uid = decision.pod.uid
        self.decisions[uid] = decision
        self._counts[uid] = attempts = self._counts.get(uid, 0) + 1
        if attempts == MAX_ATTEMPTS:
            self.failures[f"pod {decision.pod.key} was tried {attempts} times, as if time passed, and is left"] = None
        if not self.stopped and (attempts == MAX_ATTEMPTS or self.stop()):
            self.stopped = True
            self._agenda.put(self._agenda.now, Stopped())

    def failed(self, queued: QueuedPod, failure: Failure) -> None:
        if not failure.status.rejected and len(self.failures) < _MAX_FAILURES:
            self.failures[failure.message] = None
        known = self.decisions.get(queued.pod.uid)
        if known is None:
            # Its group failed before it was its turn.
            self.decisions[queued.pod.uid] = Decision(queued.pod, status=failure.status)
        elif known.node_name:
            self.decisions[queued.pod.uid] = replace(known, node_name="", status=failure.status)

    def bound(self, attempt: Attempt) -> None:
        pod = attempt.pod
        self._names.put(pod.key, pod.uid)
        self._reservations.add(attempt.framework, attempt.state, pod)


class Scheduling:
    """An engine that schedules pods while time stands still."""

    def __init__(
        self,
        config: Configuration,
        *,
        registry: Registry,
        features: FeatureGates,
        random: Random | None,
        reuse: bool,
        names: PodNames,
        guard: CallGuard,
        ask: Callable[[Ask], Outcome],
    ) -> None:
        """`ask` answers for extenders."""
        self._names = names
        reservations, agenda = Reservations(), Agenda(0.0)
        self.attempts = Attempts(agenda, names, reservations)
        self.engine = Engine(
            config,
            registry=registry,
            now=0.0,
            meter=StoppedClock(),
            random=random,
            features=features,
            settings=EngineSettings(stories=False, events=False, reuse=reuse),
            api=VirtualApi(),
            listener=self.attempts,
            extenders=extenders_without_binders(config),
        )
        self._guard = guard
        self.store = StateStore(self.engine.state, names)
        self._time = VirtualTime(self.engine, self.store, agenda=agenda, ask=ask, binds_volumes_after=0.0, pauses=0.0)
        # After the engine's and the plugins' own: Unreserve runs first, while the pods are on their nodes.
        self.engine.state.transactions.register("pod names", names)
        self.engine.state.transactions.register("reservations", reservations)

    def framework_of(self, info: PodInfo) -> Framework:
        """The profile that schedules a pod; raises ClusterError if there is none for its scheduler name."""
        framework = self.engine.framework_for(info)
        if framework is None:
            name = info.pod.spec.scheduler_name
            raise ClusterError(f'pod "{info.key}": no profile for scheduler name "{name}" in the configuration')
        return framework

    def displace(self, info: PodInfo) -> None:
        """Remove an older pod with the same name."""
        known = self._names.get(info.key)
        if known is not None and known != info.uid:
            self.engine.state.remove_pod(known)
            self.engine.state.nominator.delete(known)

    def in_order(self, infos: Sequence[PodInfo]) -> list[Decision]:
        """Schedule one pod after the other; those that may wait for each other together, at the position of the first.

        That is the pods of a group, and all of a profile whose Permit plugins make pods wait.
        """
        with without_log(), self._guard.series():
            return self._in_order(infos)

    def _in_order(self, infos: Sequence[PodInfo], stop: Stop = never) -> list[Decision]:
        turns = _turns(infos, self._waits_in) if len(infos) > 1 else {}
        if len(turns) == len(infos) or len(infos) == 1:
            return self._each(infos, stop)
        found: dict[str, Decision] = {}
        for pods in turns.values():
            if stop():
                break
            free = [info for info in pods if not info.node_name]
            for info in free:
                self.framework_of(info)
                self.displace(info)
            found |= {info.uid: Decision(info, info.node_name) for info in pods if info.node_name}
            found |= {decision.pod.uid: decision for decision in self._all_of(free)} if free else {}
        return [found[info.uid] for info in infos if info.uid in found]

    def _each(self, infos: Iterable[PodInfo], stop: Stop) -> list[Decision]:
        return [self._one(info) for info in takewhile(lambda _: not stop(), infos)]

    def _waits_in(self, info: PodInfo) -> str:
        """The profile in which the pod may wait for others on Permit; "" for none."""
        framework = self.engine.framework_for(info)
        waits = framework is not None and not info.node_name and quorum_of(framework, info) is None
        return info.shape.scheduler_name if waits else ""

    def places(self, infos: Sequence[PodInfo], stop: Stop = never) -> list[Decision]:
        """Like `in_order`, but only for the resulting nodes: equal pods are decided together.

        If some plugin has to be notified of each pod, it is the same as `in_order`.
        """
        with without_log(), self._guard.series():
            return self._in_order(infos, stop) if self.engine.schedules_groups else self._places(infos, stop)

    def _places(self, infos: Sequence[PodInfo], stop: Stop) -> list[Decision]:
        found: list[Decision] = []
        while len(found) < len(infos) and not stop():
            framework = self.framework_of(infos[len(found)])
            run = _next_run(framework, infos, len(found), stop)
            if self._unnoticed(framework, run) and all(map(self._is_new, run)):
                found += self._run(framework, run, stop)
            else:
                found += self._each(run, stop)
        return found

    def _run(self, framework: Framework, infos: Sequence[PodInfo], stop: Stop) -> list[Decision]:
        """Place equal pods without queue and bindings, which nobody would notice."""
        found = self._together(framework, infos) if len(infos) > 1 else []
        while len(found) < len(infos) and not stop():
            info = infos[len(found)]
            steps = schedule_pod(self.engine.algorithm, framework, info, run_post_filter=False)
            decision = run_at_once(steps, max_portions=0)
            if decision.node_name:
                self._bind(decision)
            else:
                # PostFilter may help it.
                decision = self._one(info)
            found.append(decision)
            if not decision.node_name:
                found += self.engine.algorithm.reject_equal(framework, decision, infos[len(found) :])
        return found

    def foreseen(self, infos: Sequence[PodInfo], stop: Stop = never) -> list[Decision] | None:
        """Where `places` would put new pods; None if that cannot be told without the queue.

        The pods stay on their nodes until the caller's transaction is undone, so that later ones see them.
        """
        if not self.engine.schedules_groups:
            return self._foreseen(infos, {}, stop)
        turns = _turns(infos)
        groups = self._groups(turns)
        in_turns = [info for pods in turns.values() for info in pods]
        found = None if groups is None else self._foreseen(in_turns, groups, stop)
        if found is None:
            return None
        of_pod = {decision.pod.uid: decision for decision in found}
        return [of_pod[info.uid] for info in infos if info.uid in of_pod]

    def _groups(self, turns: Mapping[str, Sequence[PodInfo]]) -> dict[str, int] | None:
        """The number of pods with a node that each group would have; None if something restricts where they go."""
        state, found = self.engine.state, {}
        for pods in turns.values():
            if pods[0].pod.spec.scheduling_group is None:
                continue
            key = group_key(pods[0].pod)
            group = state.objects.get(t.PodGroup, key)
            if group is None or group.spec.scheduling_constraints is not None or group.spec.resource_claims:
                return None
            if len({info.shape.scheduler_name for info in pods}) > 1:
                return None
            # Pods of removed nodes are still placed.
            found[key] = len(pods) + sum(info.row >= 0 for info in state.pod_groups.placed(key))
        return found

    def _foreseen(self, infos: Sequence[PodInfo], groups: Mapping[str, int], stop: Stop) -> list[Decision] | None:
        found: list[Decision] = []
        with without_log(), self._guard.series():
            while len(found) < len(infos) and not stop():
                framework = self.engine.framework_for(infos[len(found)])
                if framework is None:
                    return None
                run = _next_run(framework, infos, len(found), stop)
                if not self._unnoticed(framework, run, groups) or not all(map(self._displaces_nobody, run)):
                    return None
                decisions = self._foreseen_run(framework, run, stop)
                if decisions is None:
                    return None
                if groups and any(not decision.node_name and _has_group(decision.pod) for decision in decisions):
                    # What happens to the rest of its group is up to the group's cycle.
                    return None
                found += decisions
        return found

    def _foreseen_run(self, framework: Framework, infos: Sequence[PodInfo], stop: Stop) -> list[Decision] | None:
        """Place equal pods; None if one cannot be foreseen."""
        algorithm, state = self.engine.algorithm, self.engine.state
        found = algorithm.schedule_batch(framework, infos) if len(infos) > 1 else []
        state.place_all(infos[: len(found)], [decision.node_name for decision in found])
        while len(found) < len(infos) and not stop():
            decision = self._foreseen_one(framework, infos[len(found)])
            if decision is None:
                return None
            found.append(decision)
            if not decision.node_name:
                found += algorithm.reject_equal(framework, decision, infos[len(found) :])
        return found

    def _foreseen_one(self, framework: Framework, info: PodInfo) -> Decision | None:
        """Place a pod, and take off their nodes those that it preempts; None if that cannot be foreseen."""
        algorithm, state = self.engine.algorithm, self.engine.state
        free_of_effects = len(framework.effect_free_post_filter) == len(framework.post_filter)
        steps = schedule_pod(algorithm, framework, info, run_post_filter=free_of_effects)
        decision = run_at_once(steps, max_portions=0)
        if not decision.node_name and free_of_effects and _is_final(decision):
            return decision
        if not decision.node_name:
            if decision.plan is None or state.nominator or not self._may_preempt(framework):
                return None
            for victim in decision.plan.victims:
                state.remove_pod(victim.uid)
            # It is tried again once its victims have left.
            state.nominator.add(info, decision.plan.node_name)
            decision = run_at_once(schedule_pod(algorithm, framework, info, run_post_filter=False), max_portions=0)
            state.nominator.delete(info.uid)
        if not decision.node_name:
            return None
        state.place_all([info], [decision.node_name])
        return decision

    def _may_preempt(self, framework: Framework) -> bool:
        """Whether no plugin has to be notified of those that are preempted, and they leave alone."""
        return not self.engine.schedules_groups and self._has_only_our_plugins(framework)

    def guaranteed_feasible_sets(self, info: PodInfo, lost: int) -> FeasibleSets | None:
        """See `Cluster.guaranteed_feasible_sets`."""
        framework = self.engine.framework_for(info)
        if framework is None or not self._has_only_our_plugins(framework):
            return None
        with without_log(), self._guard.series():
            unnoticed = self._unnoticed(framework, [info])
            return self.engine.algorithm.guaranteed_feasible_sets(framework, info, lost) if unnoticed else None

    def _has_only_our_plugins(self, framework: Framework) -> bool:
        """Others may fail whenever they are called."""
        return all(type(plugin) in self._ours for plugin in framework.plugins.values())

    @cached_property
    def _ours(self) -> frozenset[type[Plugin]]:
        return frozenset(in_tree_registry())

    def _unnoticed(
        self, framework: Framework, infos: Sequence[PodInfo], groups: Mapping[str, int] | None = None
    ) -> bool:
        """Whether plugins only have to decide for these pods, and have no side effects; and each pod is new.

        `groups`: the number of pods with a node that groups will have once all of these have one.
        """
        if framework.suspends or framework.post_bind or [plugin.name for plugin in framework.bind] != ["DefaultBinder"]:
            return False
        if not set(framework.pre_bind) <= set(framework.reserve) or not reserves_nothing(framework, infos):
            return False
        if groups:
            firsts = {group_key(info.pod) if _has_group(info) else "": info for info in reversed(infos)}
            quorums = [(quorum_of(framework, info), groups.get(key, 0)) for key, info in firsts.items()]
            permitted = all(quorum is not None and quorum <= number for quorum, number in quorums)
        else:
            permitted = quorum_of(framework, infos[0]) == 0
        return permitted and all(
            not info.node_name and not info.terminating and framework.run_pre_enqueue(info) is None for info in infos
        )

    def _is_new(self, info: PodInfo) -> bool:
        """Whether no other pod has the name."""
        return self._names.get(info.key) in (None, info.uid)

    def _displaces_nobody(self, info: PodInfo) -> bool:
        """Whether no other pod has the name; those of removed nodes, and preempted ones, do not count."""
        uid = self._names.get(info.key)
        if uid is None or uid == info.uid:
            return True
        known = self.engine.state.placed(uid)
        return info.key not in self.engine.state.pending if known is None else known.row < 0

    def _together(self, framework: Framework, infos: Sequence[PodInfo]) -> list[Decision]:
        """Decide for as many of the first equal pods as possible together, and bind them."""
        decisions = self.engine.algorithm.schedule_batch(framework, infos)
        for decision in decisions:
            self._bind(decision)
        return decisions

    def _bind(self, decision: Decision) -> None:
        pod, info = decision.pod.pod, decision.pod
        bound = replace(pod, spec=replace(pod.spec, node_name=decision.node_name))
        self.engine.state.add_pod(bound, shape=info.shape)
        self._names.put(info.key, info.uid)

    def _one(self, info: PodInfo) -> Decision:
        if info.node_name:
            return Decision(info, info.node_name)
        self.framework_of(info)
        self.displace(info)
        return self._all_of([info])[0]

    def all_of(self, infos: Sequence[PodInfo], stop: Stop = never) -> list[Decision]:
        """Decisions for pods, in the order in which they were tried, followed by those of gated pods."""
        self.attempts.stop = stop
        try:
            with without_log(), self._guard.series():
                return self._all_of(infos)
        finally:
            self.attempts.stop = never

    def _all_of(self, infos: Sequence[PodInfo]) -> list[Decision]:
        time, decisions = self._time, self.attempts.decisions
        if len(infos) == 1:
            self.engine.state.expect(infos[0])
        time.submit(Changes(t.Pod, [Change(None, info.pod) for info in infos]))
        try:
            time.run()
            self._give_up_waiting()
            found = list(decisions.values())
            if len(found) < len(infos) and not self.attempts.stop():
                found += [self._gated(info) for info in infos if info.uid not in decisions]
            return found
        finally:
            if self.attempts.stopped:
                time.submit(Started())
            self.engine.queue.clear()
            self.store.forget()
            time.forget_volumes()
            self.attempts.clear()

    def _give_up_waiting(self) -> None:
        """End everything that waits for time. No pod is tried afterwards, as time would have passed."""
        time, waiting, preparing = self._time, self.engine.waiting_pods, self.engine.context.pods_in_pre_bind.uids()
        if not len(waiting) and not preparing:
            return
        time.submit(Stopped())
        for pod in waiting:
            time.submit(Rejected(pod.uid, pod.timeout))
        for uid in preparing:
            time.submit(Cancelled(uid, NO_TIME_PASSES))
        time.run()
        time.submit(Started())

    def _gated(self, info: PodInfo) -> Decision:
        return Decision(info, status=self.framework_of(info).run_pre_enqueue(info) or unschedulable(UNTRIED))


def _next_run(framework: Framework, infos: Sequence[PodInfo], first: int, stop: Stop) -> Sequence[PodInfo]:
    """The equal pods from this one on."""
    end = end_of_run(framework, infos, first)
    return infos[first : end if stop is never else min(end, first + _TOGETHER)]


def _is_final(decision: Decision) -> bool:
    """Whether a pod was rejected, and PostFilter has nothing to do for it."""
    rejected = decision.diagnosis is not None and decision.status is not None and decision.status.rejected
    return rejected and decision.plan is None and not decision.nominated_node_name


def _has_group(info: PodInfo) -> bool:
    return info.pod.spec.scheduling_group is not None


def _turns(infos: Sequence[PodInfo], waits_in: Callable[[PodInfo], str] | None = None) -> dict[str, list[PodInfo]]:
    """The pods, those of a group together; `waits_in`: the profile whose pods are together, as well."""
    found: dict[str, list[PodInfo]] = {}
    for info in infos:
        if _has_group(info):
            turn = f"group {group_key(info.pod)}"
        else:
            profile = "" if waits_in is None else waits_in(info)
            turn = f"profile {profile}" if profile else info.uid
        found.setdefault(turn, []).append(info)
    return found
