"""Syntax of label keys and values, with the reference's messages.

Each function returns a list of errors; an empty list means valid. Lengths are in bytes.

Upstream: k8s.io/apimachinery/pkg/api/validate/content.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_NAME})?"
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"

_NAME_RE = re.compile(_NAME)
_VALUE_RE = re.compile(_VALUE)
_DNS_SUBDOMAIN_RE = re.compile(_DNS_SUBDOMAIN)

_MAX_NAME = 63
_MAX_SUBDOMAIN = 253

_ALPHANUMERIC = (
    "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)


def label_key_errors(key: str) -> list[str]:
    return list(_label_key_errors(key))


def label_value_errors(value: str) -> list[str]:
    return list(_label_value_errors(value))


def is_qualified_name_errors(name: str) -> list[str]:
    """Errors in a qualified name, which is the same as a label key."""
    return label_key_errors(name)


def dns1123_subdomain_errors(value: str) -> list[str]:
    errors = [_too_long(_MAX_SUBDOMAIN)] if _bytes(value) > _MAX_SUBDOMAIN else []
    if not _DNS_SUBDOMAIN_RE.fullmatch(value):
        what = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
            "and must start and end with an alphanumeric character"
        )
        errors.append(_must_match(what, _DNS_SUBDOMAIN, "example.com"))
    return errors


@lru_cache(maxsize=65536)
def _label_key_errors(key: str) -> tuple[str, ...]:
    parts = key.split("/")
    if len(parts) > 2:
        pattern = _must_match("must " + _ALPHANUMERIC, _NAME, "MyName", "my.name", "123-abc")
        return (
            f"a valid label key {pattern} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    prefix = _prefix_errors(parts[0]) if len(parts) == 2 else []
    return (*prefix, *_name_errors(parts[-1]))


def _prefix_errors(prefix: str) -> list[str]:
    errors = dns1123_subdomain_errors(prefix) if prefix else ["must be non-empty"]
    return [f"prefix part {error}" for error in errors]


def _name_errors(name: str) -> list[str]:
    errors = []
    if not name:
        errors.append("name part must be non-empty")
    elif _bytes(name) > _MAX_NAME:
        errors.append("name part " + _too_long(_MAX_NAME))
    if not _NAME_RE.fullmatch(name):
        errors.append("name part " + _must_match("must " + _ALPHANUMERIC, _NAME, "MyName", "my.name", "123-abc"))
    return errors


@lru_cache(maxsize=65536)
def _label_value_errors(value: str) -> tuple[str, ...]:
    errors = [_too_long(_MAX_NAME)] if _bytes(value) > _MAX_NAME else []
    if not _VALUE_RE.fullmatch(value):
        what = "a valid label must be an empty string or " + _ALPHANUMERIC
        errors.append(_must_match(what, _VALUE, "MyValue", "my_value", "12345"))
    return tuple(errors)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _must_match(what: str, pattern: str, *examples: str) -> str:
    # Parity: the reference leaves a stray comma and two spaces between examples.
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{what} (e.g. {shown}regex used for validation is '{pattern}')"
