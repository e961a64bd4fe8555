"""Allocate cluster IPs and node ports of Services.

Nothing routes traffic to these addresses; they exist so that a Service looks as in any cluster. The search for a free
address starts at a position derived from the Service's name, so the result is the same each time.

Upstream: pkg/registry/core/service/storage (alloc.go), pkg/registry/core/service/ipallocator.
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Container
from typing import TYPE_CHECKING

from stowplan.kube.api.api_errors import InternalError
from stowplan_cluster.apiserver.objects import JsonObject, metadata_of

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.admission.plugins import List

_NETWORKS = {"IPv4": ipaddress.ip_network("10.96.0.0/12"), "IPv6": ipaddress.ip_network("fd00:10:96::/112")}
#: The first addresses are reserved for Services that request a fixed one, such as DNS.
_FIRST = 256
_NODE_PORTS = range(30000, 32768)


def allocate_addresses(service: JsonObject, list_: List) -> None:
    """Allocate addresses and ports that the Service type needs and that are not set yet."""
    spec, metadata = service["spec"], metadata_of(service)
    if spec.get("type") not in ("ClusterIP", "NodePort", "LoadBalancer"):
        return
    place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    _allocate_cluster_addresses(spec, place, list_)
    wants_ports = spec["type"] == "NodePort" or (
        spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )
    if wants_ports and any(not port.get("nodePort") for port in spec.get("ports") or ()):
        _allocate_node_ports(spec["ports"], place, list_)


def _allocate_cluster_addresses(spec: JsonObject, place: str, list_: List) -> None:
    """One of each family. A Service has IPv4 alone unless it names families or requires both."""
    first = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
    if not spec.get("ipFamilies"):
        families = ["IPv6", "IPv4"] if ":" in first else ["IPv4", "IPv6"]
        spec["ipFamilies"] = families if spec.get("ipFamilyPolicy") == "RequireDualStack" else families[:1]
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = "SingleStack" if len(spec["ipFamilies"]) == 1 else "RequireDualStack"
    addresses = list(spec.get("clusterIPs") or ([first] if first else []))
    if first != "None":
        taken = _taken_addresses(list_) if len(addresses) < len(spec["ipFamilies"]) else set()
        missing = (family for family in spec["ipFamilies"][len(addresses) :] if family in _NETWORKS)
        addresses += [_free_address(place, taken, family) for family in missing]
    spec["clusterIPs"] = addresses
    if not spec.get("clusterIP") and addresses:
        spec["clusterIP"] = addresses[0]


def _taken_addresses(list_: List) -> set[str]:
    specs = (stored.to_dict().get("spec") or {} for stored in list_("services"))
    return {address for spec in specs for address in (spec.get("clusterIP", ""), *(spec.get("clusterIPs") or ()))}


def _free_address(place: str, taken: Container[str], family: str) -> str:
    network = _NETWORKS[family]
    count = network.num_addresses - _FIRST - 1
    start = zlib.crc32(place.encode("utf-8", "surrogatepass")) % count
    for step in range(count):
        address = str(network[_FIRST + (start + step) % count])
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
