"""Host ports in use, per node.

Rows without host ports cost nothing. An agent with a port on every node is common, so conflicts are looked up by port
instead of row by row. Each port is counted per pod, and is free again after the last pod that holds it has left. (The
reference stores a set, and frees a port with its first holder; see docs/reference/differences.md.)

Upstream: pkg/scheduler/framework/types.go (HostPortInfo).
"""

from __future__ import annotations

from collections import Counter
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
        #: (protocol, port) -> ip -> rows on which a pod uses it.
        self._users: dict[tuple[str, int], dict[str, set[int]]] = {}

    def add(self, row: int, ports: Iterable[Port]) -> None:
        used = self._rows.setdefault(row, Counter())
        for port in set(ports):
            used[port] += 1
            if used[port] == 1:
                ip, protocol, number = port
                self._users.setdefault((protocol, number), {}).setdefault(ip, set()).add(row)

    def remove(self, row: int, ports: Iterable[Port]) -> None:
        used = self._rows[row]
        for port in set(ports):
            used[port] -= 1
            if not used[port]:
                del used[port]
                self._free(row, port)
        if not used:
            del self._rows[row]

    def _free(self, row: int, port: Port) -> None:
        ip, protocol, number = port
        by_ip = self._users[protocol, number]
        by_ip[ip].remove(row)
        if not by_ip[ip]:
            del by_ip[ip]
        if not by_ip:
            del self._users[protocol, number]

    def on(self, row: int) -> frozenset[Port]:
        return frozenset(self._rows.get(row, ()))

    def conflicting_rows(self, wanted: Iterable[Port]) -> list[int]:
        """The rows on which some wanted port is in use, in any order."""
        found: set[int] = set()
        for ip, protocol, number in wanted:
            for used_ip, rows in self._users.get((protocol, number), {}).items():
                if ip == used_ip or ANY_IP in (ip, used_ip):
                    found |= rows
        return list(found)
