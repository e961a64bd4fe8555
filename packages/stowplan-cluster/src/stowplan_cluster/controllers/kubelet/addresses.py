"""Deterministic IP addresses for simulated nodes and pods; none is assigned twice.

A pool iterates over its network and wraps around, so a released address is not reused at once. Pools may overlap: they
share the set of taken addresses.
"""

from __future__ import annotations

from ipaddress import ip_network


def is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


class AddressPool:
    def __init__(self, network: str, taken: set[str]) -> None:
        self._network = ip_network(network, strict=False)
        #: Excludes the network address and the broadcast address.
        self._size = max(self._network.num_addresses - 2, 0)
        self._next = 0
        self._taken = taken

    def take(self) -> str | None:
        """Allocate a free address; None if there is none. The caller releases it by discarding it from the set."""
        for _ in range(self._size):
            address = str(self._network.network_address + 1 + self._next)
            self._next = (self._next + 1) % self._size
            if address not in self._taken:
                self._taken.add(address)
                return address
        return None
