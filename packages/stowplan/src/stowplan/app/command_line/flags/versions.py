"""--emulated-version and --min-compatibility-version.

Upstream: k8s.io/component-base/compatibility.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stowplan.app.command_line.flags.flag_set import FlagError
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.kubernetes_versions import (
    BINARY_VERSION,
    DEFAULT_VERSION,
    OLDEST_VERSION,
    KubernetesVersion,
)
from stowplan.kube.structs import PlainStruct

_COMPONENT = "kube"
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


class Versions(PlainStruct, frozen=True):
    emulated: KubernetesVersion
    min_compatibility: KubernetesVersion


def versions_of(emulated: Sequence[str] = (), min_compatibility: Sequence[str] = ()) -> Versions:
    """Parse both flags; raises FlagError if either is invalid by itself."""
    version = _only(emulated) or DEFAULT_VERSION
    # Parity: an emulated version is compatible with the one before it.
    before = KubernetesVersion(version.major, version.minor - 1)
    return Versions(version, _only(min_compatibility) or max(OLDEST_VERSION, before))


def version_errors(versions: Versions) -> Iterator[str]:
    """Validate them against the binary version."""
    if not OLDEST_VERSION <= versions.emulated <= BINARY_VERSION:
        yield f"emulation version {versions.emulated} is not between [{OLDEST_VERSION}, {BINARY_VERSION}.0]"
    if not OLDEST_VERSION <= versions.min_compatibility <= versions.emulated:
        least = versions.min_compatibility
        yield f"minCompatibilityVersion version {least} is not between [{OLDEST_VERSION}, {versions.emulated}]"


def _only(items: Sequence[str]) -> KubernetesVersion | None:
    found: KubernetesVersion | None = None
    for item in items:
        component, equals, text = (part.strip() for part in item.rpartition("="))
        component = component if equals else _COMPONENT
        match = _VERSION.fullmatch(text)
        if match is None:
            raise FlagError(f"could not parse {go_quote(text)} as version")
        if int(match[3] or 0):
            raise FlagError(f"patch version not allowed, got: {component}={text.removeprefix('v')}")
        version = KubernetesVersion(int(match[1]), int(match[2]))
        if component != _COMPONENT:
            raise FlagError(f"component not registered: {component}")
        if found is not None:
            raise FlagError(f"duplicate version flag, {component}={found} and {component}={version}")
        found = version
    return found
