"""--emulated-version and --min-compatibility-version.

Upstream: k8s.io/component-base/compatibility.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stowplan.app.command_line.flags.flag_set import FlagError
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.structs import PlainStruct

_COMPONENT = "kube"
_FLOOR = (1, 33)
_BINARY = (1, 36)
_LEAST = (1, 35)
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


class Versions(PlainStruct, frozen=True):
    emulated: tuple[int, int] = _BINARY
    min_compatibility: tuple[int, int] = _LEAST


def versions_of(emulated: Sequence[str], min_compatibility: Sequence[str]) -> Versions:
    """Parse both flags; raises FlagError if either is invalid by itself."""
    version = _only(emulated)
    least = _only(min_compatibility)
    if version is None:
        return Versions(min_compatibility=least or _LEAST)
    # Parity: an emulated version is compatible with the one before it.
    return Versions(version, least or max(_FLOOR, (version[0], version[1] - 1)))


def version_errors(versions: Versions) -> Iterator[str]:
    """Validate them against the binary version."""
    floor, binary = shown(_FLOOR), shown(_BINARY)
    if not _FLOOR <= versions.emulated <= _BINARY:
        yield f"emulation version {shown(versions.emulated)} is not between [{floor}, {binary}.0]"
    if not _FLOOR <= versions.min_compatibility <= versions.emulated:
        least = shown(versions.min_compatibility)
        yield f"minCompatibilityVersion version {least} is not between [{floor}, {shown(versions.emulated)}]"


def _only(items: Sequence[str]) -> tuple[int, int] | None:
    found: tuple[int, int] | None = None
    for item in items:
        component, equals, text = (part.strip() for part in item.rpartition("="))
        component = component if equals else _COMPONENT
        match = _VERSION.fullmatch(text)
        if match is None:
            raise FlagError(f"could not parse {go_quote(text)} as version")
        if int(match[3] or 0):
            raise FlagError(f"patch version not allowed, got: {component}={text.removeprefix('v')}")
        version = int(match[1]), int(match[2])
        if component != _COMPONENT:
            raise FlagError(f"component not registered: {component}")
        if found is not None:
            raise FlagError(f"duplicate version flag, {component}={shown(found)} and {component}={shown(version)}")
        found = version
    return found


def shown(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
