"""Validate IP addresses and CIDRs.

Upstream: k8s.io/apimachinery/pkg/util/validation/ip.go.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.validation.fields import Errors, invalid

if TYPE_CHECKING:
    from collections.abc import Sequence


_LEADING_ZERO_RE = re.compile(r"(^|\.)0+(?=[0-9])")


@lru_cache(maxsize=16384)
def _address_problem(text: str) -> str:
    version = _version_of(text)
    if version == 0 or "%" in text:
        if _version_of(_LEADING_ZERO_RE.sub(r"\1", text)) == 4:
            return "must not have leading 0s"
        return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    if version == 6 and ipaddress.IPv6Address(text).ipv4_mapped is not None:
        return "must not be an IPv4-mapped IPv6 address"
    return ""


def _version_of(text: str) -> int:
    """4 or 6; 0 if it is not an address."""
    try:
        return ipaddress.ip_address(text).version
    except ValueError:
        return 0


def check_ip(errors: Errors, path: str, text: str) -> None:
    if problem := _address_problem(text):
        errors.append(invalid(path, text, problem))


def check_network(errors: Errors, path: str, text: str) -> None:
    try:
        if "/" not in text:
            raise ValueError(text)
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        errors.append(invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"))


def check_strict_network(errors: Errors, path: str, text: str) -> None:
    """Check a CIDR that must not be ambiguous."""
    network = network_of(text)
    if network is None:
        check_network(errors, path, text)
    elif _version_of(text.partition("/")[0]) == 0 or text.rpartition("/")[2] != str(network.prefixlen):
        errors.append(invalid(path, text, "must not have leading 0s in IP or prefix length"))
    elif network.version == 6 and network.network_address.ipv4_mapped is not None:
        errors.append(invalid(path, text, "must not have an IPv4-mapped IPv6 address"))
    elif ipaddress.ip_address(text.partition("/")[0]) != network.network_address:
        errors.append(invalid(path, text, "must not have bits set beyond the prefix length"))


def network_of(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """A CIDR, read generously; None if it is none."""
    address, slash, prefix = text.partition("/")
    if not slash or not prefix.isdecimal() or "%" in address:
        return None
    try:
        return ipaddress.ip_network(f"{_without_leading_zeros(address)}/{int(prefix)}", strict=False)
    except ValueError:
        return None


def is_address(text: str) -> bool:
    """Whether it is an address, read generously."""
    return _version_of(_without_leading_zeros(text)) != 0


def _without_leading_zeros(address: str) -> str:
    return _LEADING_ZERO_RE.sub(r"\1", address)


def is_dual_stack(texts: Sequence[str]) -> bool:
    """Whether the addresses or CIDRs include both families."""
    return {_version_of(text.partition("/")[0]) for text in texts} >= {4, 6}


def is_ipv6(text: str) -> bool:
    return _version_of(text) == 6
