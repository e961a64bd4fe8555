"""IP addresses and CIDR ranges. Upstream: k8s.io/apiserver/pkg/cel/library/ip.go, cidr.go; messages: Go's net/netip."""

from __future__ import annotations

import ipaddress
import math
import re
from typing import TypeAlias

from stowplan.kube.cel import static_types as t
from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.cel.declarations import function, member, overload
from stowplan.kube.cel.functions.semvers import quoted
from stowplan.kube.cel.values import Value
from stowplan.kube.structs import PlainStruct

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_PREFIX_LENGTH_RE = re.compile(r"0|[1-9][0-9]{0,2}")


class Ip(PlainStruct, frozen=True):
    address: _Address


class Cidr(PlainStruct, frozen=True):
    address: _Address
    bits: int

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network((self.address, self.bits), strict=False)


def _ip_size(value: Value) -> int:
    return value.address.max_prefixlen // 8 if isinstance(value, Ip) else 1


def _cidr_size(value: Value) -> int:
    return math.ceil(value.bits / 8) if isinstance(value, Cidr) else 1


for _class, _type, _size in ((Ip, t.IP, _ip_size), (Cidr, t.CIDR, _cidr_size)):
    v.register(_class, _type)
    v.register_strict_equality(_class)
    v.register_size(_class, _size)


def _read_address(text: str) -> _Address:
    """Parse an address like Kubernetes; errors are general, without the position of the character."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise ValueProblem(
            f"IP Address {quoted(text)} parse error during conversion from string:"
            f" ParseAddr({quoted(text)}): unable to parse IP"
        ) from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise ValueProblem(f"IP address {quoted(text)} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise ValueProblem(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return address


def _ip(text: str) -> Value:
    return Ip(_read_address(text))


def _is_ip(text: str) -> Value:
    try:
        _read_address(text)
    except ValueProblem:
        return False
    return True


def _is_canonical(text: str) -> Value:
    return str(_read_address(text)) == text


def _read_cidr(text: str) -> Cidr:
    address_text, slash, bits_text = text.rpartition("/")
    wrong = "network address parse error during conversion from string: netip.ParsePrefix"
    if not slash:
        raise ValueProblem(f"{wrong}({quoted(text)}): no '/'")
    try:
        address = ipaddress.ip_address(address_text)
    except ValueError:
        raise ValueProblem(f"{wrong}({quoted(text)}): ParseAddr({quoted(address_text)}): unable to parse IP") from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise ValueProblem(f"{wrong}({quoted(text)}): IPv6 zones cannot be present in a prefix")
        if address.ipv4_mapped is not None:
            raise ValueProblem(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    if not _PREFIX_LENGTH_RE.fullmatch(bits_text):
        raise ValueProblem(f"{wrong}({quoted(text)}): bad bits after slash: {quoted(bits_text)}")
    if int(bits_text) > address.max_prefixlen:
        raise ValueProblem(f"{wrong}({quoted(text)}): prefix length out of range")
    return Cidr(address, int(bits_text))


def _cidr(text: str) -> Value:
    try:
        return _read_cidr(text)
    except ValueProblem as error:
        raise ValueProblem(f"network address parse error during conversion from string: {error}") from None


def _is_cidr(text: str) -> Value:
    try:
        _read_cidr(text)
    except ValueProblem:
        return False
    return True


def _contains_ip(cidr: Cidr, ip: Ip) -> Value:
    return ip.address in cidr.network


def _contains_ip_text(cidr: Cidr, text: str) -> Value:
    try:
        return _read_address(text) in cidr.network
    except ValueProblem:
        raise ValueProblem("no such overload") from None


def _contains_cidr(cidr: Cidr, other: Cidr) -> Value:
    same_family = cidr.address.version == other.address.version
    return same_family and cidr.network.overlaps(other.network) and cidr.bits <= other.bits


def _contains_cidr_text(cidr: Cidr, text: str) -> Value:
    return _contains_cidr(cidr, _read_cidr(text))


def _is_global_unicast(ip: Ip) -> Value:
    address = ip.address
    if isinstance(address, ipaddress.IPv4Address) and int(address) == 0xFFFFFFFF:
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or _is_link_local(address))


def _is_link_local(address: _Address) -> bool:
    return address.is_link_local


def _is_link_local_multicast(ip: Ip) -> Value:
    if isinstance(ip.address, ipaddress.IPv4Address):
        return int(ip.address) >> 8 == 0xE00000
    return ip.address.packed[0] == 0xFF and ip.address.packed[1] & 0x0F == 0x02


def _cidr_text(cidr: Cidr) -> Value:
    return f"{cidr.address}/{cidr.bits}"


FUNCTIONS = [
    function(
        "ip",
        overload("string_to_ip", "string -> IP", _ip),
        member("cidr_ip", "CIDR -> IP", lambda cidr: Ip(cidr.address)),
    ),
    function("isIP", overload("is_ip", "string -> bool", _is_ip)),
    function("ip.isCanonical", overload("ip_is_canonical", "string -> bool", _is_canonical)),
    function("family", member("ip_family", "IP -> int", lambda ip: ip.address.version)),
    function("isUnspecified", member("ip_is_unspecified", "IP -> bool", lambda ip: ip.address.is_unspecified)),
    function("isLoopback", member("ip_is_loopback", "IP -> bool", lambda ip: ip.address.is_loopback)),
    function("isLinkLocalMulticast", member("ip_is_link_local_multicast", "IP -> bool", _is_link_local_multicast)),
    function(
        "isLinkLocalUnicast", member("ip_is_link_local_unicast", "IP -> bool", lambda ip: ip.address.is_link_local)
    ),
    function("isGlobalUnicast", member("ip_is_global_unicast", "IP -> bool", _is_global_unicast)),
    function("cidr", overload("string_to_cidr", "string -> CIDR", _cidr)),
    function("isCIDR", overload("is_cidr", "string -> bool", _is_cidr)),
    function(
        "containsIP",
        member("cidr_contains_ip_string", "CIDR, string -> bool", _contains_ip_text),
        member("cidr_contains_ip_ip", "CIDR, IP -> bool", _contains_ip),
    ),
    function(
        "containsCIDR",
        member("cidr_contains_cidr_string", "CIDR, string -> bool", _contains_cidr_text),
        member("cidr_contains_cidr", "CIDR, CIDR -> bool", _contains_cidr),
    ),
    function("prefixLength", member("cidr_prefix_length", "CIDR -> int", lambda cidr: cidr.bits)),
    function(
        "masked",
        member("cidr_masked", "CIDR -> CIDR", lambda cidr: Cidr(cidr.network.network_address, cidr.bits)),
    ),
    function(
        "string",
        overload("ip_to_string", "IP -> string", lambda ip: str(ip.address)),
        overload("cidr_to_string", "CIDR -> string", _cidr_text),
    ),
]
