"""The embedded cluster and a simulation that go on from one time at which something is due to the next, side by side.

Times are seconds from the start.
"""

from __future__ import annotations

from math import inf

import msgspec

from stowplan_lab.simulation.simulate import Simulation
from support.live.controller_cluster import START, LiveCluster


class SteppedCluster(LiveCluster):
    def __init__(self, controllers):
        #: (when, action)
        self._actions = []
        super().__init__(controllers)

    @property
    def passed(self):
        return self.now - START

    def at(self, when, action):
        self._actions.append((when, action))

    @property
    def next(self):
        due = self.loop.next_due()
        return min([inf if due is None else due - START, *(when for when, _ in self._actions)])

    def go_on(self, until):
        """Do everything that is due until then, each at its time."""
        while self.next <= until:
            self.now = max(self.now, START + self.next)
            due = [one for one in self._actions if one[0] <= self.passed]
            self._actions = [one for one in self._actions if one[0] > self.passed]
            for _, action in due:
                action()
            self.settle()
        self.now = max(self.now, START + until)
        self.settle()


class SteppedSimulation:
    def __init__(self, scenario, objects=(), folder=None):
        """`objects`: of the initial cluster, which are written to a file in the folder."""
        if objects:
            file = folder / "objects.yaml"
            file.write_text("\n---\n".join(msgspec.json.encode(one).decode() for one in objects))
            scenario["cluster"]["files"] = [str(file)]
        self._simulation = Simulation(scenario)
        self._simulation.prepare()
        self._context = self._simulation.context

    @property
    def next(self):
        return self._context.time.next - START

    def go_on(self, until):
        """Do everything that is due until then."""
        time = self._context.time
        time.advance(max(0.0, START + until - time.now))
