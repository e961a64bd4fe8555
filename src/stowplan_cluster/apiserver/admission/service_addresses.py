"""Allocate cluster IPs and node ports of Services.

Nothing routes traffic to these addresses; they exist so that a Service looks as in any cluster. The search for a free
address starts at a position derived from the Service's name, so the result is the same each time.

Upstream: pkg/registry/core/service/storage (alloc.go), pkg/registry/core/service/ipallocator.
"""

from __future__ import annotations

import ipaddress
import zlib
from typing import TYPE_CHECKING

from stowplan.api.api_errors import InternalError
from stowplan_cluster.apiserver.objects import metadata_of

if TYPE_CHECKING:
    from collections.abc import Container

    from stowplan_cluster.apiserver.admission.cluster import List
    from stowplan_cluster.apiserver.objects import JsonObject

_NETWORK = ipaddress.IPv4Network("10.96.0.0/12")
#: The first addresses are reserved for Services that request a fixed one, such as DNS.
_FIRST = 256
_NODE_PORTS = range(30000, 32768)


def allocate_addresses(service: JsonObject, list_: List) -> None:
    """Allocate addresses and ports that the Service type needs and that are not set yet."""
    spec, metadata = service["spec"], metadata_of(service)
    if spec.get("type") not in ("ClusterIP", "NodePort", "LoadBalancer"):
        return
    place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    if spec.get("clusterIPs") and not spec.get("clusterIP"):
        spec["clusterIP"] = spec["clusterIPs"][0]
    if not spec.get("clusterIP"):
        spec["clusterIP"] = _free_address(place, {stored.field("spec.clusterIP") for stored in list_("services")})
    if not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv6" if ":" in spec["clusterIP"] else "IPv4"]
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = "SingleStack"
    wants_ports = spec["type"] == "NodePort" or (
        spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )
    if wants_ports and any(not port.get("nodePort") for port in spec.get("ports") or ()):
        _allocate_node_ports(spec["ports"], place, list_)


def _free_address(place: str, taken: Container[str]) -> str:
    count = _NETWORK.num_addresses - _FIRST - 1
    start = zlib.crc32(place.encode("utf-8", "surrogatepass")) % count
    for step in range(count):
        address = str(_NETWORK[_FIRST + (start + step) % count])
        if address not in taken:
            return address
    raise InternalError(f"failed to allocate IP {place}: range is full")


def _allocate_node_ports(ports: list[JsonObject], place: str, list_: List) -> None:
    taken = {
        port.get("nodePort")
        for stored in list_("services")
        for port in (stored.to_dict().get("spec") or {}).get("ports") or ()
    }
    taken |= {port.get("nodePort") for port in ports}
    start = zlib.crc32(place.encode("utf-8", "surrogatepass"))
    candidates = (_NODE_PORTS[(start + step) % len(_NODE_PORTS)] for step in range(len(_NODE_PORTS)))
    for port in ports:
        if not port.get("nodePort"):
            number = next((candidate for candidate in candidates if candidate not in taken), None)
            if number is None:
                raise InternalError(f"failed to allocate a nodePort for {place}: range is full")
            port["nodePort"] = number
            taken.add(number)
