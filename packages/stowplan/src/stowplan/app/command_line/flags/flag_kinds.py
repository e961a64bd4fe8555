"""Flag types: parsing, formatting, and repeated use.

An invalid value is a ValueError with Go's text, which users know from their logs.

Upstream: github.com/spf13/pflag (one file per type), k8s.io/component-base/cli/flag.
"""

from __future__ import annotations

import csv
import io
import ipaddress
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stowplan.kube.api.durations import parse_duration
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.quantity import read_quantity
from stowplan.kube.api.urls import without_password
from stowplan.kube.kubernetes_versions import BINARY_VERSION
from stowplan.kube.structs import PlainStruct


class Kind(PlainStruct, frozen=True, kw_only=True):
    #: The name in help; "" for switches.
    name: str
    #: Parses a value, given the one from the flag's earlier uses (None at its first).
    read: Callable[[str, Any], Any]
    show: Callable[[Any], str] = str
    #: The meaning of the flag without a value; None if it requires one.
    alone: str | None = None
    #: Defaults that help omits.
    zero: tuple[str, ...] = ()
    quotes_default: bool = False


def _once(read: Callable[[str], Any]) -> Callable[[str, Any], Any]:
    """For a scalar the last use wins."""
    return lambda text, _: read(text)


# --- scalars

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_INTEGER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]*|[1-9][0-9_]*)")


def read_bool(text: str) -> bool:
    if text not in _TRUE | _FALSE:
        raise ValueError(f"strconv.ParseBool: parsing {go_quote(text)}: invalid syntax")
    return text in _TRUE


def _read_int(bits: int) -> Callable[[str], int]:
    """Parse like Go with base 0: the prefix determines the base."""

    def read(text: str) -> int:
        match = _INTEGER.fullmatch(text)
        digits = match[2] if match else ""
        if not digits or digits.endswith("_") or "__" in digits:
            raise ValueError(f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax")
        octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xXbBoO"
        value = int(digits.replace("_", ""), 8 if octal else 0)
        value = -value if text.startswith("-") else value
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise ValueError(f"strconv.ParseInt: parsing {go_quote(text)}: value out of range")
        return value

    return read


def read_level(text: str) -> int:
    """Parse a verbosity, which klog stores as a positive int32."""
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"strconv.ParseUint: parsing {go_quote(text)}: invalid syntax")
    value = int(text)
    if value >= 2**31:
        raise ValueError(f"strconv.ParseUint: parsing {go_quote(text)}: value out of range")
    return value


def _read_float32(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"strconv.ParseFloat: parsing {go_quote(text)}: invalid syntax") from None
    try:
        (rounded,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        raise ValueError(f"strconv.ParseFloat: parsing {go_quote(text)}: value out of range") from None
    # The decimal as written, unless a float32 rounds it.
    return value if math.isclose(value, rounded, rel_tol=1e-7) or math.isnan(value) else float(rounded)


def _show_float(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)


def _read_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        address = ipaddress.ip_address(text.strip() if text else "0.0.0.0")
    except ValueError:
        raise ValueError(f"failed to parse IP: {go_quote(text)}") from None
    # As shown and used by Go; Python's format of the IPv6 form depends on its version.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _show_bool(value: bool) -> str:
    return "true" if value else "false"


STRING = Kind(name="string", read=_once(str), zero=("",), quotes_default=True)
#: A URL, shown without its password.
URL = Kind(name="string", read=_once(str), show=without_password, zero=("",), quotes_default=True)
BOOL = Kind(name="", read=_once(read_bool), show=_show_bool, alone="true", zero=("false",))
INT = Kind(name="int", read=_once(_read_int(64)), zero=("0",))
INT32 = Kind(name="int32", read=_once(_read_int(32)), zero=("0",))
FLOAT32 = Kind(name="float32", read=_once(_read_float32), show=_show_float, zero=("0",))
DURATION = Kind(name="duration", read=_once(parse_duration), zero=("0s",))
IP = Kind(name="ip", read=_once(_read_ip))
QUANTITY = Kind(name="quantity", read=_once(read_quantity), zero=("0",))
LEVEL = Kind(name="Level", read=_once(read_level), zero=("0",))


# --- lists and maps: the first use replaces the default, later ones add


def _read_csv(text: str) -> list[str]:
    if not text:
        return []
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise ValueError(f"parse error on line 1: {error}") from None


def _write_csv(values: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(values)
    return out.getvalue()


def _read_strings(text: str, before: tuple[str, ...] | None) -> tuple[str, ...]:
    return (*(before or ()), *_read_csv(text))


def _show_strings(values: Iterable[str]) -> str:
    return f"[{_write_csv(values)}]"


def _read_int32s(text: str, before: tuple[int, ...] | None) -> tuple[int, ...]:
    return (*(before or ()), *map(_read_int(32), text.split(",")))


def _show_int32s(values: Iterable[int]) -> str:
    return f"[{','.join(map(str, values))}]"


def _read_map(text: str, before: Mapping[str, str] | None) -> dict[str, str]:
    """Parse `key=value`, or several of them as one CSV record."""
    if "=" not in text:
        raise ValueError(f"{text} must be formatted as key=value")
    pairs = [text.strip('"')] if text.count("=") == 1 else _read_csv(text)
    read = dict(before or {})
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair} must be formatted as key=value")
        read[key] = value
    return read


def _show_map(values: Mapping[str, str]) -> str:
    return _show_strings(f"{key}={values[key]}" for key in sorted(values))


def _read_components(text: str, before: tuple[tuple[str, str], ...] | None) -> tuple[tuple[str, str], ...]:
    """Parse `[component:]value,...` as pairs; the component defaults to ""."""
    pairs = list(before or ())
    for item in filter(None, text.split(",")):
        component, colon, value = item.partition(":")
        pairs.append((component.strip(), value.strip()) if colon else ("", component.strip()))
    return tuple(pairs)


def _show_components(pairs: Iterable[tuple[str, str]]) -> str:
    return ",".join(f"{component}:{value}" for component, value in sorted(pairs, key=lambda pair: pair[0]))


def _read_modules(text: str, before: tuple[tuple[str, int], ...] | None) -> tuple[tuple[str, int], ...]:
    return (*(before or ()), *map(_module, filter(None, text.split(","))))


def _module(item: str) -> tuple[str, int]:
    parts = item.split("=")
    if len(parts) != 2 or not all(parts):
        raise ValueError(f"{go_quote(item)} does not have the pattern=N format")
    try:
        return parts[0], read_level(parts[1])
    except ValueError as error:
        raise ValueError(f"parsing verbosity in {go_quote(item)}: {error}") from None


def _show_modules(modules: Iterable[tuple[str, int]]) -> str:
    return ",".join(f"{pattern}={level}" for pattern, level in modules)


class NamedCertKey(PlainStruct, frozen=True):
    """A certificate for some host names; by default those in the certificate."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = f":{','.join(self.names)}" if self.names else ""
        return f"{self.cert_file},{self.key_file}{names}"


def _read_cert_key(text: str, before: tuple[NamedCertKey, ...] | None) -> tuple[NamedCertKey, ...]:
    files, colon, names = text.partition(":")
    if colon and not names.strip():
        raise ValueError("empty names list is not allowed")
    paths = files.split(",")
    if len(paths) != 2:
        raise ValueError("expected comma separated certificate and key file paths")
    listed = tuple(name.strip() for name in names.split(",")) if colon else ()
    return (*(before or ()), NamedCertKey(paths[0].strip(), paths[1].strip(), listed))


def _show_cert_keys(values: Iterable[NamedCertKey]) -> str:
    return f"[{';'.join(map(str, values))}]"


STRINGS = Kind(name="strings", read=_read_strings, show=_show_strings, zero=("[]",))
INT32_SLICE = Kind(name="int32Slice", read=_read_int32s, show=_show_int32s)
STRING_TO_STRING = Kind(name="stringToString", read=_read_map, show=_show_map)
COMPONENT_VALUES = Kind(
    name="colonSeparatedMultimapStringString", read=_read_components, show=_show_components, zero=("",)
)
VMODULE = Kind(name="pattern=N,...", read=_read_modules, show=_show_modules, zero=("",))
NAMED_CERT_KEYS = Kind(name="namedCertKey", read=_read_cert_key, show=_show_cert_keys)


# --- the version

#: The reported version.
KUBERNETES_VERSION = f"v{BINARY_VERSION}.1"
NO_VERSION = "false"
_VERSION = re.compile(r"v(\d+\.\d+\.\d+)(?:[-+][0-9A-Za-z.+-]+)?")


def _read_version(text: str) -> str:
    """Parse "true", "false", "raw", or the version to report."""
    if text == "raw":
        return text
    if not text.startswith("v"):
        return _show_bool(read_bool(text))
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"illegal version string {go_quote(text)}")
    if f"v{match[1]}" != KUBERNETES_VERSION:
        raise ValueError(
            f"version {go_quote(text)} must match major/minor/patch of default version {go_quote(KUBERNETES_VERSION)}"
        )
    return text


VERSION = Kind(name="version", read=_once(_read_version), alone="true", zero=(NO_VERSION,))
