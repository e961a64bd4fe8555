"""percentageOfNodesToScore: select the feasible nodes to score.

Filtering all nodes at once is cheap, so all are filtered and all feasible ones are scored. If
`percentageOfNodesToScore` asks for fewer, the selection is the reference's: in node order, from where the last search
ended, until enough are found. The masks of all nodes are available, so only the selection remains. Node-level plugins
are called during the search, and not for nodes after its end.

A search in a placement (`listed`: the number of its nodes) does not see any other nodes.

Upstream: findNodesThatPassFilters in pkg/scheduler/schedule_one.go;
docs/reference/behaviour.md, Which nodes are examined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Status

if TYPE_CHECKING:
    #: Runs the node-level plugins on some rows and returns which pass; a Status is an error.
    Ask = Callable[[Rows], Mask | Status]

#: Minimum number of feasible nodes to find, if there are as many.
LEAST_FEASIBLE = 100

#: Minimum number of nodes per call; the reference checks this many in parallel.
_AT_ONCE = 16


class Found(NamedTuple):
    """The result of a search."""

    #: Rows to choose from.
    feasible: Mask
    feasible_count: int
    #: Number of nodes that were checked, including infeasible ones.
    evaluated: int


def nodes_to_find(percentage: int, nodes: int) -> int:
    """The number of feasible nodes that ends a search; a percentage of 0 asks for all."""
    if not percentage or nodes < LEAST_FEASIBLE:
        return nodes
    return max(LEAST_FEASIBLE, nodes * percentage // 100)


class Sampling:
    """Where searches start and end; shared by all profiles of a scheduler."""

    def __init__(self, table: NodeTable, percentage: int) -> None:
        self._table = table
        self._percentage = percentage
        #: Position in the node order at which the next search starts.
        self.start = 0

    def reconfigure(self, percentage: int) -> None:
        """Set the percentage for profiles without their own; the start of the next search is kept."""
        self._percentage = percentage

    def stops_early(self, framework: Framework, *, listed: int | None = None) -> bool:
        """Whether searches for this profile may end before all nodes were checked."""
        percentage = self._percentage_of(framework)
        if not percentage and not framework.takes_any_node:
            return False
        nodes = self._table.count if listed is None else listed
        return self.wanted(framework, nodes) < nodes

    def _percentage_of(self, framework: Framework) -> int:
        own = framework.profile.percentage_of_nodes_to_score
        return self._percentage if own is None else own

    def wanted(self, framework: Framework, nodes: int) -> int:
        """The number of feasible nodes that ends a search of this many nodes."""
        if framework.takes_any_node:
            # All feasible nodes are equally good.
            return min(1, nodes)
        return nodes_to_find(self._percentage_of(framework), nodes)

    def advance(self, nodes: int, *, listed: int | None = None) -> None:
        """Advance the start of the next search by the number of checked nodes."""
        self.start = (self.start + nodes) % (self._table.count if listed is None else listed)

    def search(
        self,
        framework: Framework,
        examined: Mask,
        feasible: Mask,
        *,
        ask: Ask,
        tried: int | None = None,
        listed: int | None = None,
    ) -> Found | Status:
        """Select among the feasible nodes.

        `examined`: rows to search; `tried`: a row that was checked before the search, and is infeasible; `listed`: the
        number of nodes to search (None: all).
        """
        rows = self._in_order(examined)
        places = np.flatnonzero(feasible[rows])
        wanted = self.wanted(framework, len(rows))
        picked: list[int] = []
        tried_places = 0
        while len(picked) < wanted and tried_places < len(places):
            chunk = places[tried_places : tried_places + max(wanted - len(picked), _AT_ONCE)]
            answer = ask(rows[chunk])
            if isinstance(answer, Status):
                # Past the failing node, so that it does not end every search.
                self.advance(int(chunk[-1]) + 1, listed=listed)
                return answer
            picked += chunk[answer].tolist()
            tried_places += len(chunk)
        # More may have passed than are wanted, as nodes are asked about in chunks; the search ends before these.
        found = self._found(rows, picked[:wanted], enough=len(picked) >= wanted, tried=tried)
        # With no node, the search is repeated for its reasons (`SchedulingAlgorithm._search`), and that one advances
        # the start.
        if picked:
            self.advance(found.evaluated, listed=listed)
        return found

    def _found(self, rows: Rows, picked: list[int], *, enough: bool, tried: int | None) -> Found:
        seen = picked[-1] + 1 if enough else len(rows)
        # The nominated node was checked in any case: it counts, too, if the search ended before it.
        beyond = tried is not None and bool((rows[seen:] == tried).any())
        chosen = np.zeros(self._table.n, np.bool_)
        chosen[rows[picked]] = True
        return Found(chosen, len(picked), seen + beyond)

    def _in_order(self, examined: Mask) -> Rows:
        rows = self._table.order.rows
        rows = rows[examined[rows]]
        # It may have been set with more nodes, or with those of another placement.
        start = self.start % max(1, len(rows))
        return np.concatenate((rows[start:], rows[:start]))
