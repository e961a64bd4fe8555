"""String and number formats of schemas.

Unknown formats are ignored, and so are formats that do not apply to the type.

Upstream: k8s.io/kube-openapi/pkg/validation/strfmt, apiextensions-apiserver/pkg/apiserver/validation/formats.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from email.utils import parseaddr
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_network

from stowplan.kube.api.durations import parse_duration
from stowplan.kube.api.whole_numbers import whole_number
from stowplan_cluster.apiserver.validation import names

Format = Callable[[str], bool]

INTEGER_FORMATS = ("int32", "int64")
NUMBER_FORMATS = ("float", "double")

_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SCALA_DURATION = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
#: Nanoseconds, what the unit is called, and how its long name begins.
_UNITS = (
    (1, ("ns",), "nano"),
    (10**3, ("us", "µs"), "micro"),
    (10**6, ("ms",), "milli"),
    (10**9, ("s",), "sec"),
    (60 * 10**9, ("m",), "min"),
    (3_600 * 10**9, ("h", "hr"), "hour"),
    (86_400 * 10**9, ("d",), "day"),
    (604_800 * 10**9, ("w", "wk"), "week"),
)
_LEADING_ZEROS = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
_HOST_LABEL = re.compile(r"[^\W_](?:[^\W_]|-){0,62}")


def _regex(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> Format:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    day, separator, time = text.lower().partition("t")
    match = _TIME.fullmatch(time.partition("t")[0])
    if not separator or match is None or not _is_date(day):
        return False
    return match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def duration_of(text: str) -> int | None:
    """The nanoseconds of a duration as Go or Scala write it; None if it is none."""
    try:
        return int(parse_duration(text))
    except ValueError:
        parts = []
    for match in _SCALA_DURATION.finditer(text):
        number, unit = whole_number(match[1]), match[2].lower()
        if number is None:
            return None
        parts += [number * size for size, names, long_name in _UNITS if unit in names or unit.startswith(long_name)]
    return sum(parts) if parts else None


def _is_duration(text: str) -> bool:
    return duration_of(text) is not None


def _is_ipv4(text: str) -> bool:
    # Parity: leading zeros pass, as they did before Go 1.17.
    return _is_address(IPv4Address, _LEADING_ZEROS.sub("", text))


def _is_ipv6(text: str) -> bool:
    return "%" not in text and _is_address(IPv6Address, text)


def _is_address(kind: type[IPv4Address] | type[IPv6Address], text: str) -> bool:
    try:
        kind(text)
    except AddressValueError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    address, slash, prefix = text.partition("/")
    if not slash or not prefix.isdigit():
        return False
    try:
        ip_network(f"{_LEADING_ZEROS.sub('', address)}/{prefix}", strict=False)
    except ValueError:
        return False
    return True


def _is_hostname(text: str) -> bool:
    labels = text.split(".")
    return (
        len(text) <= 255
        and all(_HOST_LABEL.fullmatch(label) and not label.endswith("-") for label in labels)
        and (len(labels) == 1 or (len(labels[-1]) > 1 and labels[-1].isalpha()))
    )


def _is_email(text: str) -> bool:
    _, address = parseaddr(text)
    local, at, domain = address.rpartition("@")
    return bool(at and local and domain) and address in text and not re.search(r"\s", address)


def _is_mac(text: str) -> bool:
    for separator, width in ((":", 2), ("-", 2), (".", 4)):
        groups = text.split(separator)
        if all(re.fullmatch(rf"[0-9A-Fa-f]{{{width}}}", group) for group in groups):
            return len(groups) * width // 2 in (6, 8, 20)
    return False


_HEX4, _HEX12 = "[0-9a-f]{4}", "[0-9a-f]{12}"
_UNCHECKED = ("password", "bsonobjectid", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor")
_FORMATS: dict[str, Format] = {
    "uri": _regex(r"(?:[A-Za-z][A-Za-z0-9+.-]*:(?://[^\s/?#]*)?[^\s]*|/[^\s]*)"),
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": _is_mac,
    "uuid": _regex(rf"[0-9a-f]{{8}}-?{_HEX4}-?{_HEX4}-?{_HEX4}-?{_HEX12}", re.IGNORECASE),
    "uuid3": _regex(rf"[0-9a-f]{{8}}-?{_HEX4}-?3[0-9a-f]{{3}}-?{_HEX4}-?{_HEX12}", re.IGNORECASE),
    "uuid4": _regex(rf"[0-9a-f]{{8}}-?{_HEX4}-?4[0-9a-f]{{3}}-?[89ab][0-9a-f]{{3}}-?{_HEX12}", re.IGNORECASE),
    "uuid5": _regex(rf"[0-9a-f]{{8}}-?{_HEX4}-?5[0-9a-f]{{3}}-?[89ab][0-9a-f]{{3}}-?{_HEX12}", re.IGNORECASE),
    "byte": _regex(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    # Known, but not checked.
    **dict.fromkeys(_UNCHECKED, lambda _text: True),
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8sshortname": lambda text: not names.dns_label(text),
    "k8slongname": lambda text: not names.dns_subdomain(text),
}


def string_format(name: str) -> Format | None:
    return _FORMATS.get(name.replace("-", ""))


def is_known(name: str, type: str) -> bool:
    """Whether the format is known and applies to values of this type."""
    if type in ("", "string"):
        return string_format(name) is not None
    return name in (INTEGER_FORMATS if type == "integer" else NUMBER_FORMATS if type == "number" else ())
