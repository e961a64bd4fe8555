"""Tables of role bindings; roles themselves are listed as any kind without a printer.

Upstream: pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.tables.cells import AGE, NAME, WIDE, Cell, Printer, age_of, name_of, part, text

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject


def _subjects(obj: JsonObject, kind: str) -> list[JsonObject]:
    return [subject for subject in obj.get("subjects") or [] if subject.get("kind") == kind]


def _binding(obj: JsonObject, now: float) -> list[Cell]:
    role = part(obj, "roleRef")
    accounts = _subjects(obj, "ServiceAccount")
    return [
        name_of(obj),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age_of(obj, now),
        ", ".join(user.get("name", "") for user in _subjects(obj, "User")),
        ", ".join(group.get("name", "") for group in _subjects(obj, "Group")),
        ", ".join(f"{account.get('namespace', '')}/{account.get('name', '')}" for account in accounts),
    ]


BINDINGS = Printer(
    (
        NAME,
        text("Role", "The role that is given."),
        AGE,
        text("Users", "Users it is given to.", priority=WIDE),
        text("Groups", "Groups it is given to.", priority=WIDE),
        text("ServiceAccounts", "Service accounts it is given to.", priority=WIDE),
    ),
    _binding,
)
