"""The versions of Kubernetes that the scheduler can behave as.

What changes with a version has both variants next to each other, in the plugin or table that it belongs to, chosen once
when that is built:

    self._counts_volumes = handle.features.emulated_version >= V1_37

Changes behind a feature gate are rows of `gate_table.py` instead. To drop the oldest version, delete its successor's
constant: the type checker names each place where only the newer variant is to be kept.

Upstream: k8s.io/component-base/compatibility, version.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TEXT = re.compile(r"v?(\d+)\.(\d+)")


class KubernetesVersion(NamedTuple):
    """A minor release; versions are ordered."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


V1_36 = KubernetesVersion(1, 36)
V1_37 = KubernetesVersion(1, 37)

#: The version of kube-scheduler that this is, and the oldest that it can behave as.
BINARY_VERSION, OLDEST_VERSION = V1_37, KubernetesVersion(1, 34)
#: What it behaves as unless told otherwise.
DEFAULT_VERSION = V1_37


class VersionError(ValueError):
    """A version that the scheduler cannot behave as."""


def version_or_default(text: str | None) -> KubernetesVersion:
    """Raises VersionError."""
    return DEFAULT_VERSION if text is None else emulated_version_of(text)


class ClusterVersion(NamedTuple):
    """The version to behave as for a cluster."""

    version: KubernetesVersion
    #: For the user; empty for what is the default anyway.
    note: str = ""


def version_for(of_cluster: str) -> ClusterVersion:
    """`of_cluster`: as its server tells it, such as "1.36" or "1.36+"; empty: not known."""
    match = _TEXT.match(of_cluster)
    if match is None:
        why = f"the cluster's version {of_cluster!r} cannot be read"
        return ClusterVersion(DEFAULT_VERSION, f"as kube-scheduler {DEFAULT_VERSION}: {why}" if of_cluster else "")
    version = KubernetesVersion(int(match[1]), int(match[2]))
    used = min(max(version, OLDEST_VERSION), BINARY_VERSION)
    if used != version:
        which = "oldest" if used == OLDEST_VERSION else "newest"
        return ClusterVersion(used, f"as kube-scheduler {used}, the {which} that is known: the cluster is {version}")
    return ClusterVersion(
        used, "" if used == DEFAULT_VERSION else f"as kube-scheduler {used}, as the cluster is {used}"
    )


def emulated_version_of(text: str) -> KubernetesVersion:
    """A version as users write it, such as "1.36"; raises VersionError."""
    match = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise VersionError(f'want a version such as "{DEFAULT_VERSION}", got {text!r}')
    version = KubernetesVersion(int(match[1]), int(match[2]))
    if not OLDEST_VERSION <= version <= BINARY_VERSION:
        raise VersionError(f"{version} is not between {OLDEST_VERSION} and {BINARY_VERSION}")
    return version
