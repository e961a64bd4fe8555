"""percentageOfNodesToScore: select the feasible nodes to score.

Judging all nodes at once is cheap, so all are judged and all that fit are scored. When `percentageOfNodesToScore` asks
for fewer, the search does as the reference's: it goes through the nodes in their order, from where the last search
ended, until enough are found. The masks of all nodes are there; what is left is to pick. Only plugins that look at
nodes one by one are asked on the way, so that nodes beyond the end cost them nothing.

A search among the nodes of a placement alone (`listed`: how many they are) knows of no others.

Upstream: findNodesThatPassFilters in pkg/scheduler/schedule_one.go; docs/behaviour.md, Which nodes are examined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stowplan.framework.status import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from stowplan.cluster.node_table import NodeTable
    from stowplan.framework.runtime import Framework

    Mask = npt.NDArray[np.bool_]
    Rows = npt.NDArray[np.intp]
    #: Asks the plugins that look at nodes one by one which of some rows pass; a Status is an error.
    Ask = Callable[[Rows], Mask | Status]

#: Fewer feasible nodes than these are never enough, as long as there are more.
LEAST_FEASIBLE = 100

#: Nodes that are asked about at a time at least; the reference checks as many side by side.
_AT_ONCE = 16


class Found(NamedTuple):
    """The end of a search."""

    #: Rows that the choice is made from.
    feasible: Mask
    feasible_count: int
    #: Nodes that the search saw, those that do not fit included.
    evaluated: int


def nodes_to_find(percentage: int, nodes: int) -> int:
    """How many feasible nodes end a search among so many; a percentage of 0 asks for all."""
    if not percentage or nodes < LEAST_FEASIBLE:
        return nodes
    return max(LEAST_FEASIBLE, nodes * percentage // 100)


class Sampling:
    """Where searches begin and when they end; one for all profiles of a scheduler."""

    def __init__(self, table: NodeTable, percentage: int) -> None:
        self._table = table
        self._percentage = percentage
        #: Place in the order of nodes at which the next search begins.
        self.start = 0

    def reconfigure(self, percentage: int) -> None:
        """Another percentage holds for profiles without one of their own; the next search begins as it would have."""
        self._percentage = percentage

    def stops_early(self, framework: Framework, *, listed: int | None = None) -> bool:
        """Whether searches for pods of this profile may end before all nodes were seen."""
        percentage = self._percentage_of(framework)
        if not percentage and not framework.takes_any_node:
            return False
        nodes = self._table.count if listed is None else listed
        return self.wanted(framework, nodes) < nodes

    def _percentage_of(self, framework: Framework) -> int:
        own = framework.profile.percentage_of_nodes_to_score
        return self._percentage if own is None else own

    def wanted(self, framework: Framework, nodes: int) -> int:
        """How many feasible nodes a search of so many nodes ends with."""
        if framework.takes_any_node:
            # Nothing could tell feasible nodes apart.
            return min(1, nodes)
        return nodes_to_find(self._percentage_of(framework), nodes)

    def saw(self, nodes: int, *, listed: int | None = None) -> None:
        """A search has gone over so many nodes: the next one begins after them."""
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
        """Pick among the feasible nodes.

        `examined`: rows in question; `tried`: a row that was looked at before the search, and does not fit; `listed`:
        how many nodes there are to look at (None: all that there are).
        """
        rows = self._in_order(examined)
        places = np.flatnonzero(feasible[rows])
        wanted = self.wanted(framework, len(rows))
        picked: list[int] = []
        asked = 0
        while len(picked) < wanted and asked < len(places):
            chunk = places[asked : asked + max(wanted - len(picked), _AT_ONCE)]
            answer = ask(rows[chunk])
            if isinstance(answer, Status):
                # Past the node that failed, so that one bad node does not end all searches.
                self.saw(int(chunk[-1]) + 1, listed=listed)
                return answer
            picked += chunk[answer].tolist()
            asked += len(chunk)
        found = self._found(rows, picked[:wanted], enough=len(picked) >= wanted, tried=tried)
        if picked:
            self.saw(found.evaluated, listed=listed)
        return found

    def _found(self, rows: Rows, picked: list[int], *, enough: bool, tried: int | None) -> Found:
        seen = picked[-1] + 1 if enough else len(rows)
        beyond = tried is not None and bool((rows[seen:] == tried).any())
        chosen = np.zeros(self._table.n, np.bool_)
        chosen[rows[picked]] = True
        return Found(chosen, len(picked), seen + beyond)

    def _in_order(self, examined: Mask) -> Rows:
        rows = self._table.order.rows
        rows = rows[examined[rows]]
        start = self.start % max(1, len(rows))
        return np.concatenate((rows[start:], rows[:start]))
