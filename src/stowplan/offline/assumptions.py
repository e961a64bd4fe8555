"""What an answer takes for granted, as notes for the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def assumed(provisioners: Mapping[str, str]) -> Iterator[str]:
    """Provisioners that have to work, by the name of the class."""
    for name, provisioner in sorted(provisioners.items()):
        yield f"assumed that {provisioner} creates the volumes of class {name}"
