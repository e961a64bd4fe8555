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


def is_dual_stack(texts: Sequence[str]) -> bool:
    """Whether the addresses or CIDRs include both families."""
    return {_version_of(text.partition("/")[0]) for text in texts} >= {4, 6}
