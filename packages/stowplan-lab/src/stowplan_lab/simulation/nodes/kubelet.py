"""Model kubelets: pods take a while to start, run for their time and end; on a failed node they do neither."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from stowplan.drivers.virtual_time.driver import Call
from stowplan.kube.api.pod import Pod

if TYPE_CHECKING:
    from stowplan.kube.api.port import Change
    from stowplan_lab.simulation.results.ledger import Entry
    from stowplan_lab.simulation.world import World


class Kubelets:
    """A `simulate.cluster.Watcher`; must come after the ledger."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._startup = world.models.startup
        self._chance = world.chance("startup")
        #: Failed nodes.
        self._stopped: set[str] = set()

    def changed(self, change: Change[Any]) -> None:
        new, old = change.new, change.old
        if type(new) is not Pod or not new.spec.node_name or (old is not None and old.spec.node_name):
            return
        entry = self._world.ledger.of(new.metadata.uid)
        if entry is not None and new.spec.node_name not in self._stopped:
            self._run(entry)

    def _run(self, entry: Entry) -> None:
        startup = self._startup.always
        if startup is None:
            startup = self._startup.draw(self._chance)
        now = self._world.time.now
        entry.starts = starts = now + startup
        if entry.origin.on_start is not None:
            self._world.later(startup, partial(self._start, entry, starts))
        lifetime = entry.origin.lifetime
        if lifetime is None:
            return
        entry.ends = ends = now + startup + lifetime
        self._world.time.at(now + (startup + lifetime), Call(partial(self._end, entry, ends)))

    @staticmethod
    def _start(entry: Entry, starts: float) -> None:
        if entry.starts == starts and entry.origin.on_start is not None:
            entry.origin.on_start()

    def _end(self, entry: Entry, ends: float) -> None:
        # Otherwise it was stopped, and possibly restarted, in the meantime.
        if entry.ends == ends:
            self._world.time.end(entry.pod)

    def stop(self, node: str) -> None:
        """The node fails: its pods neither start nor end."""
        self._stopped.add(node)
        for entry in self._world.entries_on(node):
            entry.starts = entry.ends = inf

    def resume(self, node: str) -> None:
        """The node returns: its remaining pods start again."""
        self._stopped.discard(node)
        for entry in self._world.entries_on(node):
            self._run(entry)

    def forget(self, node: str) -> None:
        self._stopped.discard(node)
