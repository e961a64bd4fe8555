"""Conflicts: fields of an applied configuration that other managers own.

Upstream: k8s.io/apimachinery/pkg/util/managedfields/internal/conflict.go.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from stowplan.kube.api.api_errors import Conflict
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.status import StatusCause, StatusDetails
from stowplan_cluster.apiserver.managed_fields.managers import UPDATE
from stowplan_cluster.apiserver.managed_fields.path_elements import path_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan_cluster.apiserver.managed_fields.field_sets import Path
    from stowplan_cluster.apiserver.managed_fields.managers import ManagerKey

FIELD_MANAGER_CONFLICT = "FieldManagerConflict"


class FieldConflict(NamedTuple):
    owner: ManagerKey
    path: Path


def conflict_error(conflicts: Sequence[FieldConflict]) -> Conflict:
    """The error for a conflicting apply; conflicts are grouped by owner."""
    causes = [
        StatusCause(
            reason=FIELD_MANAGER_CONFLICT,
            message=f"conflict with {_owner_text(owner)}",
            field=path_text(path),
        )
        for owner, path in conflicts
    ]
    return Conflict(_message(conflicts), details=StatusDetails(causes=tuple(causes)))


def _message(conflicts: Sequence[FieldConflict]) -> str:
    if len(conflicts) == 1:
        owner, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {_owner_text(owner)}: {path_text(path)}"
    lines = []
    for owner, contested in groupby(conflicts, key=lambda conflict: conflict.owner):
        lines += [f"conflicts with {_owner_text(owner)}:", *(f"- {path_text(path)}" for _, path in contested)]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _owner_text(owner: ManagerKey) -> str:
    text = go_quote(owner.manager)
    if owner.subresource:
        text += f" with subresource {go_quote(owner.subresource)}"
    return f"{text} using {owner.api_version}" if owner.operation == UPDATE else text
