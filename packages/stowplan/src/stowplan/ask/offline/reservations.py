"""Reservations made inside a transaction; undoing them runs Unreserve, last pod first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.klog import get_logger
from stowplan.scheduler.framework.runtime.binding import run_unreserve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.framework.cycle_state import CycleState
    from stowplan.scheduler.framework.runtime.framework import Framework

_log = get_logger(__name__)


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
