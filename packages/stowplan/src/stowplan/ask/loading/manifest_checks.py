"""Validate manifests as an API server would, if a package provides the checks.

Packages provide a check through the entry-point group `stowplan.manifest_checks`: a function that takes an object and
yields (whether it is fatal, the problem), with `only_fields` for unknown fields alone. stowplan-cluster has one.
Objects that a cluster has stored were validated there, and are not checked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from stowplan.kube.api.manifest_files import LoadError
from stowplan.scheduler.framework.entry_points import entry_points
from stowplan.scheduler.framework.explanations.formatting import count

ENTRY_POINT_GROUP = "stowplan.manifest_checks"
#: Maximum number of notes.
_MAX_NOTES = 5


class Check(Protocol):
    def __call__(self, manifest: Mapping[str, Any], /, *, only_fields: bool = False) -> Iterable[tuple[bool, str]]: ...


def checked(
    manifests: Sequence[tuple[Mapping[str, Any], object]], unread: Sequence[tuple[Mapping[str, Any], object]] = ()
) -> list[str]:
    """Notes about the manifests; raises LoadError. Each manifest comes with its location.

    `unread`: those that the scheduler does not read, so that nothing in them misleads.
    """
    written = [(manifest, place, True) for manifest, place in manifests if _is_written_by_hand(manifest)]
    written += [(manifest, place, False) for manifest, place in unread if _is_written_by_hand(manifest)]
    errors: list[str] = []
    notes: list[str] = []
    for check in _checks() if written else ():
        for manifest, place, is_read in written:
            for misleads, problem in check(manifest):
                (errors if misleads and is_read else notes).append(f"{place}: {_name(manifest)}: {problem}")
    if errors:
        raise LoadError(errors)
    shown = [f"{note}; an API server would refuse it" for note in notes[:_MAX_NOTES]]
    left = len(notes) - len(shown)
    return [*shown, *([f"{count(left, 'more problem')} for which an API server would refuse objects"] if left else [])]


def unknown_fields(manifest: Mapping[str, Any]) -> list[str]:
    """Fields that an object's kind does not have, and wrong types; only of an object that no cluster has stored."""
    metadata = manifest.get("metadata") or {}
    if metadata.get("uid") or metadata.get("resourceVersion"):
        return []
    return [problem for check in _checks() for _, problem in check(manifest, only_fields=True)]


@cache
def _checks() -> list[Check]:
    return [point.load() for point in entry_points(group=ENTRY_POINT_GROUP)]


def _is_written_by_hand(manifest: Mapping[str, Any]) -> bool:
    metadata = manifest["metadata"]
    return not metadata.get("uid") and not metadata.get("resourceVersion") and not _runs(manifest)


def _runs(manifest: Mapping[str, Any]) -> bool:
    """A hand-written pod with a node name describes the node's usage rather than the pod itself."""
    spec = manifest.get("spec")
    return manifest["kind"] == "Pod" and isinstance(spec, dict) and bool(spec.get("nodeName"))


def _name(manifest: Mapping[str, Any]) -> str:
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace")
    return f"{manifest['kind']} {f'{namespace}/' if namespace else ''}{metadata.get('name', '')}"
