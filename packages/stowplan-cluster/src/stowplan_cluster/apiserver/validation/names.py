"""Formats of names and paths: each rule takes a string and returns the errors.

Rules for label keys and values are in `stowplan.kube.api.labels`. Those limits are in bytes, these in characters, and
the messages say so.

Upstream: k8s.io/apimachinery/pkg/util/validation/validation.go; pkg/apis/core/validation
(validateLocalDescendingPath and its neighbours).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from stowplan.kube.api.labels import dns1123_subdomain_errors
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import Errors

NameRule = Callable[[str], tuple[str, ...]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_WITH_UNDERSCORE = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SUBDOMAIN_WITH_UNDERSCORE = rf"{_LABEL_WITH_UNDERSCORE}(\.{_LABEL_WITH_UNDERSCORE})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_CONFIG_KEY = r"[-._a-zA-Z0-9]+"
_HTTP_HEADER = "[-A-Za-z0-9]+"
_PERCENT = "[0-9]+%"
_C_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


_LABEL_RE, _SUBDOMAIN_RE = re.compile(_LABEL), re.compile(_SUBDOMAIN)
_SUBDOMAIN_WITH_UNDERSCORE_RE = re.compile(_SUBDOMAIN_WITH_UNDERSCORE)
_LABEL_1035_RE = re.compile(_LABEL_1035)
_CONFIG_KEY_RE, _HTTP_HEADER_RE = re.compile(_CONFIG_KEY), re.compile(_HTTP_HEADER)
_PERCENT_RE, _C_IDENTIFIER_RE = re.compile(_PERCENT), re.compile(_C_IDENTIFIER)
_HTTP_PATH_RE = re.compile(_HTTP_PATH)
_PORT_NAME_RE = re.compile("[-a-z0-9]+")
_LETTER_RE = re.compile("[a-z]")

_LABEL_SAYS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_SAYS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, {}'-' or '.', "
    "and must start and end with an alphanumeric character"
)
_LABEL_1035_SAYS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)

MAX_LABEL = 63
MAX_SUBDOMAIN = 253


def _too_long(value: str, limit: int, unit: str = "characters") -> tuple[str, ...]:
    long = len(value.encode("utf-8", "surrogatepass")) > limit
    return (f"must be no more than {limit} {unit}",) if long else ()


def _says(what: str, pattern: str, *examples: str) -> str:
    # Parity: the reference has a stray comma before the alternative and the pattern.
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{what} (e.g. {shown}regex used for validation is '{pattern}')"


@lru_cache(maxsize=65536)
def dns_label(value: str) -> tuple[str, ...]:
    return _dns_label(value, "characters")


@lru_cache(maxsize=65536)
def dns_subdomain(value: str) -> tuple[str, ...]:
    errors = _too_long(value, MAX_SUBDOMAIN)
    if _SUBDOMAIN_RE.fullmatch(value):
        return errors
    return (*errors, _says(_SUBDOMAIN_SAYS.format(""), _SUBDOMAIN, "example.com"))


@lru_cache(maxsize=4096)
def short_name(value: str) -> tuple[str, ...]:
    """A DNS label, with the messages of declarative validation."""
    return _dns_label(value, "bytes")


@lru_cache(maxsize=4096)
def long_name(value: str) -> tuple[str, ...]:
    """A DNS subdomain, with the messages of declarative validation."""
    return tuple(dns1123_subdomain_errors(value))


def _dns_label(value: str, unit: str) -> tuple[str, ...]:
    errors = _too_long(value, MAX_LABEL, unit)
    if _LABEL_RE.fullmatch(value):
        return errors
    if _SUBDOMAIN_RE.fullmatch(value):
        return (*errors, "must not contain dots")
    return (*errors, _says(_LABEL_SAYS, _LABEL, "my-name", "123-abc"))


def dns_subdomain_with_underscore(value: str) -> tuple[str, ...]:
    errors = _too_long(value, MAX_SUBDOMAIN)
    if _SUBDOMAIN_WITH_UNDERSCORE_RE.fullmatch(value):
        return errors
    return (*errors, _says(_SUBDOMAIN_SAYS.format("'_', "), _SUBDOMAIN_WITH_UNDERSCORE, "example.com"))


def dns_1035_label(value: str) -> tuple[str, ...]:
    errors = _too_long(value, MAX_LABEL)
    if _LABEL_1035_RE.fullmatch(value):
        return errors
    return (*errors, _says(_LABEL_1035_SAYS, _LABEL_1035, "my-name", "abc-123"))


@lru_cache(maxsize=4096)
def path_segment(value: str) -> tuple[str, ...]:
    """A name that can be a URL path segment: for RBAC objects."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{part}'" for part in ("/", "%") if part in value)


@lru_cache(maxsize=4096)
def port_name(value: str) -> tuple[str, ...]:
    checks = (
        (len(value) <= 15, "must be no more than 15 characters"),
        (
            _PORT_NAME_RE.fullmatch(value) is not None,
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (_LETTER_RE.search(value) is not None, "must contain at least one letter (a-z)"),
        ("--" not in value, "must not contain consecutive hyphens"),
        (not value.startswith("-") and not value.endswith("-"), "must not begin or end with a hyphen"),
    )
    return tuple(complaint for holds, complaint in checks if not holds)


def port_number(value: int) -> tuple[str, ...]:
    return () if 1 <= value <= 65535 else ("must be between 1 and 65535, inclusive",)


@lru_cache(maxsize=4096)
def environment_name(value: str) -> tuple[str, ...]:
    if not value:
        return ("environment variable name must be non-empty",)
    if all(" " <= char <= "~" and char != "=" for char in value):
        return ()
    return ("a valid environment variable name must consist only of printable ASCII characters other than '='",)


def http_header_name(value: str) -> tuple[str, ...]:
    if _HTTP_HEADER_RE.fullmatch(value):
        return ()
    what = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return (_says(what, _HTTP_HEADER, "X-Header-Name"),)


def percent(value: str) -> tuple[str, ...]:
    if _PERCENT_RE.fullmatch(value):
        return ()
    what = "a valid percent string must be a numeric string followed by an ending '%'"
    return (_says(what, _PERCENT, "1%", "93%"),)


def c_identifier(value: str) -> tuple[str, ...]:
    if _C_IDENTIFIER_RE.fullmatch(value):
        return ()
    what = (
        "a valid C identifier must start with alphabetic character or '_', "
        "followed by a string of alphanumeric characters or '_'"
    )
    return (_says(what, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName"),)


@lru_cache(maxsize=4096)
def config_key(value: str) -> tuple[str, ...]:
    """A key of ConfigMaps and Secrets, which becomes a file name."""
    errors = _too_long(value, MAX_SUBDOMAIN)
    if not _CONFIG_KEY_RE.fullmatch(value):
        what = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        errors = (*errors, _says(what, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in (".", ".."):
        return (*errors, f"must not be '{value}'")
    return (*errors, "must not start with '..'") if value.startswith("..") else errors


def http_path(value: str) -> tuple[str, ...]:
    if _HTTP_PATH_RE.fullmatch(value):
        return ()
    return (f"Invalid path (regex used for validation is '{_HTTP_PATH}')",)


def mask_trailing_dash(prefix: str) -> str:
    """Replace a trailing dash before validating a generateName, as a suffix follows it."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


# Validate IP addresses and CIDRs.
#
# Upstream: k8s.io/apimachinery/pkg/util/validation/ip.go.

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
        errors.invalid(path, text, problem)


def check_network(errors: Errors, path: str, text: str) -> None:
    try:
        if "/" not in text:
            raise ValueError(text)
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        errors.invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")


def is_dual_stack(texts: Sequence[str]) -> bool:
    """Whether the addresses or CIDRs include both families."""
    return {_version_of(text.partition("/")[0]) for text in texts} >= {4, 6}


# Parse and compare semantic versions (semver.org 2.0.0).
#
# Upstream: github.com/blang/semver/v4, as the rules of several kinds use it.

# Numbers have 64 bits, hence at most 20 digits; Python refuses to parse thousands of them.
_NUMBER, _TAG = r"(0|[1-9][0-9]{0,19})", "[0-9a-zA-Z-]+"
_BEFORE = r"(?:0|[1-9][0-9]{0,19}|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION_RE = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_BEFORE}(?:\.{_BEFORE})*))?(?:\+{_TAG}(?:\.{_TAG})*)?")

#: A comparison key; build metadata is ignored.
Precedence = tuple[int, int, int, bool, tuple[tuple[int, int, str], ...]]
ZERO: Precedence = (0, 0, 0, True, ())


def parse(text: str) -> Precedence | None:
    """Parse a version; None if it is invalid."""
    match = _VERSION_RE.fullmatch(text)
    if match is None:
        return None
    parts = match[4].split(".") if match[4] else []
    # Numeric identifiers sort before alphanumeric ones.
    before = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)
    return int(match[1]), int(match[2]), int(match[3]), not before, before


_MODES = "must be a number between 0 and 0777 (octal), both inclusive"


def check_domain_prefixed_path(errors: Errors, path: str, value: str) -> None:
    host, _, rest = value.partition("/")
    if not value:
        errors.required(path)
    elif not host or not rest:
        errors.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        errors.check_texts(path, host, names.dns_subdomain(host))
        errors.check_texts(path, rest, names.http_path(rest))


def check_no_backsteps(errors: Errors, path: str, target: str) -> None:
    if ".." in target.split("/"):
        errors.invalid(path, target, "must not contain '..'")


def check_descending_path(errors: Errors, path: str, target: str) -> None:
    if target.startswith("/"):
        errors.invalid(path, target, "must be a relative path")
    check_no_backsteps(errors, path, target)


def check_non_reserved_path(errors: Errors, path: str, target: str) -> None:
    check_descending_path(errors, path, target)
    if target.startswith("..") and not target.startswith("../"):
        errors.invalid(path, target, "must not start with '..'")


def check_mode(errors: Errors, path: str, mode: int | None) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        errors.invalid(path, mode, _MODES)


def check_key_paths(errors: Errors, path: str, items: list[JsonObject] | None) -> None:
    for index, item in enumerate(items or ()):
        at = f"{path}[{index}]"
        errors.check_required_fields(at, item, ("key", "path"))
        check_non_reserved_path(errors, f"{at}.path", item.get("path", ""))
        check_mode(errors, f"{at}.mode", item.get("mode"))
