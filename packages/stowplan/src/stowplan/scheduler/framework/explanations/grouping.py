"""Group rows by common properties."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Codes, Rows, Values
from stowplan.scheduler.framework.status import Code, Reason


class Refusal(PlainStruct, frozen=True, eq=False):
    """Nodes that one plugin rejected for the same reasons."""

    plugin: str
    code: Code
    reasons: tuple[Reason, ...]
    rows: Rows

    @property
    def text(self) -> str:
        return ", ".join(str(reason) for reason in self.reasons)


def classes(columns: Iterable[Values], length: int) -> Codes:
    """A class number per row; rows with equal values in all columns have the same."""
    ids = np.zeros(length, np.intp)
    for column in columns:
        values, of_row = np.unique(column, return_inverse=True)
        ids = np.unique(ids * len(values) + of_row.reshape(-1), return_inverse=True)[1].reshape(-1)
    return ids


def split(rows: Rows, ids: Codes) -> list[Rows]:
    """Rows by their class number, the largest class first."""
    parts = [rows[ids == i] for i in np.unique(ids).tolist()]
    return sorted(parts, key=lambda part: (-len(part), int(part[0])))
