"""Map `namespace/name` to the current UID, for placed and pending pods.

A participant of transactions with an undo log, as it contains every pod and few change in a transaction.
"""

from __future__ import annotations

from typing import Any


class PodNames:
    """`namespace/name` -> UID of the pod with this name."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}
        #: (name, previous UID) of each change since the outermost open transaction began; None while none is open.
        self._log: list[tuple[str, str | None]] | None = None

    def get(self, key: str) -> str | None:
        return self._uids.get(key)

    def put(self, key: str, uid: str) -> None:
        if self._log is not None:
            self._log.append((key, self._uids.get(key)))
        self._uids[key] = uid

    def remove(self, key: str) -> str | None:
        """Remove the name and return the pod's UID; None if there was none."""
        uid = self._uids.pop(key, None)
        if self._log is not None and uid is not None:
            self._log.append((key, uid))
        return uid

    # -- as a participant of transactions -----------------------------------------------------------------------------

    def begin(self) -> int:
        if self._log is None:
            self._log = []
            # The mark before the first entry; returning to it stops logging.
            return -1
        return len(self._log)

    def undo(self, mark: int) -> None:
        assert self._log is not None
        while len(self._log) > max(mark, 0):
            key, uid = self._log.pop()
            if uid is None:
                self._uids.pop(key, None)
            else:
                self._uids[key] = uid
        self.keep(mark)

    def keep(self, mark: int) -> None:
        if mark < 0:
            self._log = None

    def changed_nodes(self, mark: int) -> tuple[str, ...]:
        return ()

    def dump(self) -> dict[str, Any]:
        return dict(self._uids)

    def load(self, dumped: dict[str, Any]) -> None:
        self._uids = dict(dumped)
