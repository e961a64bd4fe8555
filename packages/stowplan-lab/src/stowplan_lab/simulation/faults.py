"""Events of a scenario: nodes fail, are drained, upgraded, reclaimed and tainted; zones fail; prices and sizes change;
workloads are scaled and rolled out; pods are rebalanced.

Upstream: kubectl drain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any

from stowplan.drivers.virtual_time.driver import Call
from stowplan.kube.api.affinity import Taint
from stowplan_lab.simulation.definition import scenario_fields
from stowplan_lab.simulation.nodes.autoscaler import REMOVED
from stowplan_lab.simulation.nodes.drains import Drains
from stowplan_lab.simulation.nodes.fleet import Fleet
from stowplan_lab.simulation.nodes.node_lifecycle import NodeLifecycle
from stowplan_lab.simulation.nodes.rebalancing import Rebalancing
from stowplan_lab.simulation.simulation_context import SimulationContext
from stowplan_lab.simulation.workloads.templates import Change, Rollout

RECLAIMED = "stowplan.dev/reclaimed"
#: Why pods are deleted.
DRAINED, UPGRADED, SPOT = "drained", "upgraded", "reclaimed"


class Faults:
    def __init__(
        self,
        context: SimulationContext,
        fleet: Fleet,
        lifecycle: NodeLifecycle,
        drains: Drains,
        rebalancing: Rebalancing,
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._lifecycle = lifecycle
        self._drains = drains
        self._rebalancing = rebalancing
        #: Zone -> when its last outage ends.
        self._zone_out: dict[str, float] = {}

    def begin(
        self,
        scenario: scenario_fields.Scenario,
        controllers: Mapping[str, Collection[Any]],
        rollouts: Mapping[int, Rollout | Change],
    ) -> None:
        """`rollouts`: and patches, by the number of their event."""
        self._controllers = controllers
        self._rollouts = rollouts
        for index, event in enumerate(scenario.events):
            self._context.time.feed(self._feed(index, event, scenario.duration))

    def _feed(
        self, index: int, event: scenario_fields.EventSpec, duration: float | None
    ) -> Iterator[tuple[float, Call]]:
        name = next(name for name in scenario_fields.EVENTS if getattr(event, name) is not None)
        chance = self._context.chance(f"event {index}")
        about = self._rollouts[index] if name in ("rollout", "patch") else getattr(event, name)
        happens, text = partial(getattr(self, f"_{name}"), about, chance), _event_text(name, getattr(event, name))
        for at in scenario_fields.times_of(
            event, self._context.chance(f"times of event {index}"), duration, self._context.start
        ):
            yield self._context.start + at, Call(partial(self._happens, at, text, happens))

    def _happens(self, at: float, text: str, happens: Callable[[], object]) -> None:
        self._context.events.append((at, text))
        happens()

    # -- failures -----------------------------------------------------------------------------------------------------

    def _fail(self, spec: scenario_fields.FailSpec, chance: Random) -> None:
        for node in self._fleet.chosen(spec, chance):
            self._lifecycle.fail(node, None if spec.for_ is None else spec.for_.draw(chance))

    def _outage(self, spec: scenario_fields.OutageSpec, chance: Random) -> None:
        seconds = spec.for_.draw(chance)
        self._zone_out[spec.zone] = max(self._zone_out.get(spec.zone, 0.0), self._context.now + seconds)
        self._fleet.zones_out.add(spec.zone)
        self._context.later(seconds, partial(self._zone_returns, spec.zone))
        for node in self._fleet.chosen(scenario_fields.NodesSpec(zone=spec.zone), chance):
            self._lifecycle.fail(node, seconds)

    def _zone_returns(self, zone: str) -> None:
        if self._context.now >= self._zone_out[zone]:
            self._fleet.zones_out.discard(zone)

    # -- administrators and providers ----------------------------------------------------------------------------------

    def _drain(self, spec: scenario_fields.DrainSpec, chance: Random) -> None:
        for node in self._fleet.chosen(spec, chance):
            then: Callable[[], object] = partial(self._uncordon, node)
            if spec.then == "remove":
                then = partial(self._lifecycle.take_out, node, DRAINED)
            self._drains.begin(node, DRAINED, partial(self._context.later, spec.for_, then))

    def _upgrade(self, spec: scenario_fields.UpgradeSpec, chance: Random) -> None:
        left = self._fleet.chosen(spec, chance)
        for _ in range(min(spec.at_once, len(left))):
            self._upgrade_next(left, spec, chance)

    def _upgrade_next(self, left: list[str], spec: scenario_fields.UpgradeSpec, chance: Random) -> None:
        if not left:
            return
        node = left.pop(0)
        if node not in self._fleet.nodes:
            self._upgrade_next(left, spec, chance)
            return
        replaced = partial(self._replace, node, left, spec, chance)
        self._drains.begin(node, UPGRADED, replaced)

    def _replace(self, node: str, left: list[str], spec: scenario_fields.UpgradeSpec, chance: Random) -> None:
        fleet = self._fleet
        if node not in fleet.nodes:
            self._upgrade_next(left, spec, chance)
            return
        old, group = fleet.nodes[node], fleet.group_of.get(node, "")
        self._lifecycle.take_out(node, UPGRADED)
        fleet.away[group] += 1

        def comes() -> None:
            fleet.away[group] -= 1
            fleet.put(fleet.as_new(old), group)
            self._upgrade_next(left, spec, chance)

        self._context.later(spec.takes.draw(chance), comes)

    def _reclaim(self, spec: scenario_fields.ReclaimSpec, chance: Random) -> None:
        for node in self._fleet.chosen(spec, chance):
            self._fleet.taint(node, Taint(key=RECLAIMED, effect="NoSchedule"))
            self._drains.begin(node, SPOT, _nothing, asks_budgets=False)
            self._context.later(spec.notice, partial(self._lifecycle.take_out, node, SPOT))

    def _taint(self, spec: scenario_fields.TaintEventSpec, chance: Random) -> None:
        taint = Taint(key=spec.key, value=spec.value, effect=spec.effect)
        for node in self._fleet.chosen(spec, chance):
            self._fleet.taint(node, taint)
            if spec.for_ is not None:
                self._context.later(spec.for_, partial(self._fleet.untaint, node, spec.key))

    def _price(self, spec: scenario_fields.PriceSpec, chance: Random) -> None:
        self._fleet.set_price(spec.group, spec.price)

    def _scale(self, spec: scenario_fields.ScaleSpec, chance: Random) -> None:
        for controller in self._controllers.get(spec.workload, ()):
            controller.scale(spec.replicas)

    def _rollout(self, rollout: Rollout, chance: Random) -> None:
        for controller in rollout.controllers:
            controller.roll_out(rollout.template)

    def _patch(self, change: Change, chance: Random) -> None:
        for controller in list(change.controllers):
            controller.change(change.fields)

    def _resize(self, spec: scenario_fields.ResizeSpec, chance: Random) -> None:
        group = self._fleet.groups[spec.group]
        for _ in range(spec.count - len(group.names)):
            self._fleet.add_to(group)
        for node in list(group.names)[spec.count :]:
            self._lifecycle.take_out(node, REMOVED)

    def _rebalance(self, spec: scenario_fields.RebalanceSpec, chance: Random) -> None:
        self._rebalancing.begin(spec)

    def _uncordon(self, node: str) -> None:
        self._fleet.cordon(node, unschedulable=False)


def _nothing() -> None:
    pass


def _event_text(name: str, spec: Any) -> str:
    """The event and what it is about."""
    fields = ((field, getattr(spec, field, "")) for field in ("zone", "group", "workload", "nodes"))
    about = [f"{field} {value}" if isinstance(value, str) else ", ".join(value) for field, value in fields if value]
    return ": ".join((name, *about[:1]))
