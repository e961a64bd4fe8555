"""Drain nodes: cordon them, evict pods subject to disruption budgets, and continue when none are left.

An eviction that a budget does not allow is retried every 5 seconds. Pods of DaemonSets stay.

Upstream: k8s.io/kubectl/pkg/drain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.reconcile.nodes import CHECK_AGAIN, EVICT_AGAIN
from stowplan_lab.simulation.nodes.budgets import BudgetController
from stowplan_lab.simulation.nodes.fleet import Fleet
from stowplan_lab.simulation.results.ledger import Entry
from stowplan_lab.simulation.simulation_context import SimulationContext


class _Drain(PlainStruct, eq=False):
    """A node being drained."""

    node: str
    why: str
    then: Callable[[], object]
    asks_budgets: bool
    #: When it ends if some pods are not evicted.
    until: float
    give_up: Callable[[], object]


class Drains:
    def __init__(self, context: SimulationContext, fleet: Fleet, budgets: BudgetController) -> None:
        self._context = context
        self._fleet = fleet
        self._budgets = budgets

    def may_evict(self, entry: Entry) -> bool:
        """Whether budgets allow it now."""
        return self._budgets.allows(entry)

    def begin(
        self,
        node: str,
        why: str,
        then: Callable[[], object],
        *,
        asks_budgets: bool = True,
        until: float = inf,
        give_up: Callable[[], object] = lambda: None,
    ) -> None:
        """`why`: the reason recorded for its pods; `then` is called when they, or the node, are gone.

        `give_up` is called instead if some of them could not be evicted until then.
        """
        self._fleet.cordon(node)
        self._evict(_Drain(node, why, then, asks_budgets, until, give_up))

    def _evict(self, drain: _Drain) -> None:
        if drain.node not in self._fleet.nodes:
            drain.then()
            return
        left = [
            entry
            for entry in self._context.entries_on(drain.node)
            if eviction_outcome(entry.pod) is not EvictionOutcome.BELONGS_TO_NODE
        ]
        for entry in left:
            if not entry.why and (not drain.asks_budgets or self.may_evict(entry)):
                self._context.delete(entry, drain.why)
        all_leave = all(entry.why for entry in left)
        if not all_leave and self._context.now >= drain.until:
            drain.give_up()
        elif left:
            # Pods that are terminating are gone soon.
            self._context.later(CHECK_AGAIN if all_leave else EVICT_AGAIN, partial(self._evict, drain))
        else:
            drain.then()
