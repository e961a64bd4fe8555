"""Host ports in use, per node.

Few pods have host ports, so rows without any cost nothing. Each port is counted per pod, and is free again after the
last pod that holds it has left. (The reference stores a set, and frees a port with its first holder; see
docs/differences.md.)

Upstream: pkg/scheduler/framework/types.go (HostPortInfo).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Port = tuple[str, str, int]
ANY_IP = "0.0.0.0"


def ports_conflict(wanted: Iterable[Port], used: Iterable[Port]) -> bool:
    """Whether some wanted (ip, protocol, port) is in use; 0.0.0.0 conflicts with every address."""
    taken: dict[tuple[str, int], set[str]] = {}
    for ip, protocol, port in used:
        taken.setdefault((protocol, port), set()).add(ip)
    for ip, protocol, port in wanted:
        ips = taken.get((protocol, port))
        if ips and (ip == ANY_IP or ip in ips or ANY_IP in ips):
            return True
    return False


class UsedPorts:
    """Row -> port -> number of pods that use it."""

    def __init__(self) -> None:
        self._rows: dict[int, Counter[Port]] = {}

    def add(self, row: int, ports: Iterable[Port]) -> None:
        self._rows.setdefault(row, Counter()).update(set(ports))

    def remove(self, row: int, ports: Iterable[Port]) -> None:
        used = self._rows[row]
        for port in set(ports):
            used[port] -= 1
            if not used[port]:
                del used[port]
        if not used:
            del self._rows[row]

    def on(self, row: int) -> frozenset[Port]:
        return frozenset(self._rows.get(row, ()))

    def rows(self) -> list[int]:
        return list(self._rows)

    def conflicting_rows(self, wanted: Iterable[Port]) -> list[int]:
        return [row for row, used in self._rows.items() if ports_conflict(wanted, used)]
