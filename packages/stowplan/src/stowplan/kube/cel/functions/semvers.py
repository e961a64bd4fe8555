"""Semantic versions, in the order of SemVer 2.0. Upstream: k8s.io/apiserver/pkg/cel/library/semverlib.go."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from stowplan.kube.cel import static_types as t
from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.cel.declarations import function, member, overload
from stowplan.kube.cel.values import Value

_NUMBER_RE = re.compile(r"[0-9]+")
_IDENTIFIER_RE = re.compile(r"[A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True)
class Semver:
    #: Determines order and equality: numbers, and the pre-release in a sortable form.
    key: tuple[Value, ...]
    major: int = field(compare=False)
    minor: int = field(compare=False)
    patch: int = field(compare=False)
    text: str = field(compare=False)


v.register(Semver, t.SEMVER)
v.register_strict_equality(Semver)
v.UNHASHABLE[Semver] = "cel.Semver"


@lru_cache(maxsize=4096)
def read_semver(text: str) -> Semver:
    """Parse a version. Raises a `ValueProblem` with the reference's message."""
    if not text:
        raise ValueProblem("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueProblem("No Major.Minor.Patch elements found")
    rest, plus, build = parts[2].partition("+")
    rest, minus, prerelease = rest.partition("-")
    major = _number(parts[0], "Major", "major number")
    minor = _number(parts[1], "Minor", "minor number")
    patch = _number(rest, "Patch", "patch number")
    identifiers = tuple(_identifier(part) for part in prerelease.split(".")) if minus else ()
    for part in build.split(".") if plus else ():
        if not part:
            raise ValueProblem("Build meta data is empty")
        if not _IDENTIFIER_RE.fullmatch(part):
            raise ValueProblem(f"Invalid character(s) found in build meta data {quoted(part)}")
    # A pre-release sorts before its release, and before any longer one with the same prefix.
    return Semver((major, minor, patch, not identifiers, identifiers), major, minor, patch, text)


def _number(text: str, name: str, long_name: str) -> int:
    if not _NUMBER_RE.fullmatch(text):
        raise ValueProblem(f"Invalid character(s) found in {long_name} {quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        raise ValueProblem(f"{name} number must not contain leading zeroes {quoted(text)}")
    return _uint64(text)


def _identifier(text: str) -> tuple[Value, ...]:
    if not text:
        raise ValueProblem("Prerelease is empty")
    if _NUMBER_RE.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise ValueProblem(f"Numeric PreRelease version must not contain leading zeroes {quoted(text)}")
        return (0, _uint64(text), "")
    if not _IDENTIFIER_RE.fullmatch(text):
        raise ValueProblem(f"Invalid character(s) found in prerelease {quoted(text)}")
    return (1, 0, text)


def _uint64(text: str) -> int:
    if len(text) > 20 or int(text) > v.UINT_MAX:
        raise ValueProblem(f"strconv.ParseUint: parsing {quoted(text)}: value out of range")
    return int(text)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def _normalized(text: str) -> str:
    """Normalize a version with a `v` prefix, leading zeros, or missing parts."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1].isascii() and stripped[:1].isdigit() else f"0{stripped}"
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise ValueProblem("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _parsed(text: str, normalize: bool = False) -> Semver:
    return read_semver(_normalized(text) if normalize else text)


def _is_semver(text: str, normalize: bool = False) -> Value:
    try:
        _parsed(text, normalize)
    except ValueProblem:
        return False
    return True


def _compare(left: Semver, right: Semver) -> int:
    return (left.key > right.key) - (left.key < right.key)


def _is_greater(left: Semver, right: Semver) -> Value:
    return _compare(left, right) > 0


def _is_less(left: Semver, right: Semver) -> Value:
    return _compare(left, right) < 0


FUNCTIONS = [
    function(
        "semver",
        overload("string_to_semver", "string -> Semver", _parsed),
        overload("string_bool_to_semver", "string, bool -> Semver", _parsed),
    ),
    function(
        "isSemver",
        overload("is_semver_string", "string -> bool", _is_semver),
        overload("is_semver_string_bool", "string, bool -> bool", _is_semver),
    ),
    function("isGreaterThan", member("semver_is_greater_than", "Semver, Semver -> bool", _is_greater)),
    function("isLessThan", member("semver_is_less_than", "Semver, Semver -> bool", _is_less)),
    function("compareTo", member("semver_compare_to", "Semver, Semver -> int", _compare)),
    function("major", member("semver_major", "Semver -> int", lambda version: version.major)),
    function("minor", member("semver_minor", "Semver -> int", lambda version: version.minor)),
    function("patch", member("semver_patch", "Semver -> int", lambda version: version.patch)),
]
