"""Rebalancing from time to time: a plan is made, and carried out step by step, as by `stowplan rebalance --apply`.

A step begins when the replacements of the one before run. Pods that are not where they were, budgets that refuse, or
replacements that do not run in time end the plan; the next event makes a new one. While one is carried out, no other
begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from stowplan.ask.offline import Cluster
from stowplan.ask.rebalance import ByPolicy, Goal, read_policy, rebalance
from stowplan.ask.rebalance.goals import goal_named
from stowplan.ask.rebalance.moves import Limits
from stowplan.ask.rebalance.plan_records import PlannedMoveRecord
from stowplan.ask.rebalance.policy.pods_in_full import PodsInFull
from stowplan.ask.rebalance.policy.policy_file import Policy
from stowplan.kube.api.manifest_files import LoadError
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.types import Pod
from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan_cluster.reconcile.nodes import CHECK_AGAIN
from stowplan_lab.simulation.definition.scenario_fields import RebalanceSpec, Scenario
from stowplan_lab.simulation.nodes.drains import Drains
from stowplan_lab.simulation.nodes.fleet import Fleet
from stowplan_lab.simulation.nodes.modelled_use import ModelledUse
from stowplan_lab.simulation.results.ledger import Entry
from stowplan_lab.simulation.scenario_errors import Problems, ScenarioError
from stowplan_lab.simulation.simulation_context import SimulationContext

#: Why pods are deleted.
REBALANCED = "rebalanced"
#: How long a step waits for its replacements, in seconds.
_STEP_TIMEOUT = 300.0


def rebalanced_by(scenario: Scenario, policy: str) -> Scenario:
    """The scenario with another policy, a file, in its events; "": without these events. Raises ScenarioError."""
    events = []
    for event in scenario.events:
        if event.rebalance is None:
            events.append(event)
        elif policy:
            spec = replace(event.rebalance, goal="", weights={}, policy=str(Path(policy).absolute()))
            events.append(replace(event, rebalance=spec))
    if policy and not any(event.rebalance for event in events):
        raise ScenarioError(f"{policy}: the scenario has no event rebalance, which says when to rebalance")
    return replace(scenario, events=tuple(events))


class _Plan(PlainStruct, eq=False):
    moves: Sequence[PlannedMoveRecord]
    #: By the pods' keys.
    uids: dict[str, str]
    uncordon: Sequence[str]
    #: Nodes that were cordoned for it.
    cordoned: list[str] = field(default_factory=list)


class Rebalancing:
    def __init__(
        self, context: SimulationContext, fleet: Fleet, drains: Drains, use: ModelledUse, copy: Callable[[], Cluster]
    ) -> None:
        """`copy`: the cluster as it is now, to plan in."""
        self._context = context
        self._fleet = fleet
        self._drains = drains
        self._use = use
        self._copy = copy
        self._policies: dict[int, Policy] = {}
        self._works = False
        self.moves = 0

    def read(self, scenario: Scenario, folder: Path) -> None:
        """Read the policies of a scenario's events; raises ScenarioError."""
        problems = Problems()
        for event in scenario.events:
            if event.rebalance is None or event.rebalance.policy is None:
                continue
            given = event.rebalance.policy
            with problems.collected():
                try:
                    policy = read_policy(folder / given if isinstance(given, str) else given)
                except LoadError as error:
                    raise ScenarioError(*error.errors) from None
                if any(one.is_prometheus for one in policy.metrics):
                    raise ScenarioError(f"{policy.name}: a simulation has no Prometheus, but KubernetesMetrics")
                self._policies[id(event.rebalance)] = policy
        problems.raise_any()

    def begin(self, spec: RebalanceSpec) -> None:
        if self._works:
            self._context.note("rebalancing took longer than until the next time, which was left out")
            return
        cluster = self._copy()
        limits = Limits(
            total=spec.max_moves,
            at_once=spec.at_once,
            at_once_per_owner=spec.at_once_per_owner,
            lost_work=spec.max_lost_work,
        )
        found = rebalance(cluster, self._goal(spec, cluster), limits=limits)
        uids = {move.pod: cluster.pod(move.pod).uid for move in found.moves}
        plan = _Plan(found.moves, uids, found.uncordon)
        for node in found.cordon:
            self._cordon(plan, node)
        if found.moves:
            at = self._context.now - self._context.start
            self._context.events.append((at, f"rebalance: {count(len(found.moves), 'move')}"))
        self._works = True
        self._step(plan, 0)

    def _goal(self, spec: RebalanceSpec, cluster: Cluster) -> Goal:
        policy = self._policies.get(id(spec))
        if policy is None:
            goal = goal_named(spec.goal, spec.weights)
            assert goal is not None
            return goal
        cluster.documents.keep_also((Pod,))
        for entry in self._context.ledger.entries():
            if entry.restarts:
                status = {"containerStatuses": [{"restartCount": entry.restarts}]}
                cluster.documents.keep(entry.pod, msgspec.json.encode({"status": status}))
        full = PodsInFull(cluster.documents)
        if not policy.metrics:
            return ByPolicy(policy, full)
        use = self._use.now()
        return ByPolicy(policy, full, use.nodes, use.pods)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _step(self, plan: _Plan, done: int) -> None:
        """The step that begins with the move of this number."""
        if done == len(plan.moves):
            self._end(plan.uncordon)
            return
        moves = [move for move in plan.moves[done:] if move.step == plan.moves[done].step]
        owners = set()
        for move in moves:
            if move.cordons:
                self._cordon(plan, move.from_)
            entry = self._delete(plan.uids[move.pod], move.from_)
            if entry is None:
                self._end(plan.cordoned)
                return
            owner = controller_of(entry.pod.metadata)
            owners.add("" if owner is None else owner.uid)
        uids = [plan.uids[move.pod] for move in moves]
        self._wait(plan, done + len(moves), uids, owners, self._context.now + _STEP_TIMEOUT)

    def _delete(self, uid: str, node: str) -> Entry | None:
        """Evict a pod; None if it is not there any more, or a budget refuses."""
        entry = self._context.ledger.of(uid)
        if entry is None or entry.why or entry.node != node or not self._drains.may_evict(entry):
            return None
        self._context.delete(entry, REBALANCED)
        self.moves += 1
        return entry

    def _wait(self, plan: _Plan, done: int, uids: Sequence[str], owners: set[str], until: float) -> None:
        if not any(map(self._context.ledger.of, uids)) and self._all_run(owners):
            self._step(plan, done)
        elif self._context.now >= until:
            self._end(plan.cordoned)
        else:
            self._context.later(CHECK_AGAIN, partial(self._wait, plan, done, uids, owners, until))

    def _all_run(self, owners: set[str]) -> bool:
        for entry in self._context.ledger.entries():
            owner = controller_of(entry.pod.metadata)
            if owner is not None and owner.uid in owners and not entry.why and entry.starts > self._context.now:
                return False
        return True

    def _end(self, uncordon: Sequence[str]) -> None:
        """A plan that ends early gives back all that it has cordoned: nobody else would."""
        self._works = False
        for node in uncordon:
            if node in self._fleet.nodes:
                self._fleet.cordon(node, unschedulable=False)

    def _cordon(self, plan: _Plan, node: str) -> None:
        known = self._fleet.nodes.get(node)
        if known is not None and not known.spec.unschedulable:
            plan.cordoned.append(node)
            self._fleet.cordon(node)
