"""Transactions on the cluster state, undone exactly.

Inside a transaction every mutator may be used. Leaving it undoes all changes exactly, including versions and change
logs, so earlier results stay reusable. `commit` keeps the changes instead. Transactions nest, and end in reverse order.

What a transaction restores belongs to *participants*: nodes and pods, lookup objects, nominations, pending pods, and
whatever plugins register. Each participant prepares for the undo in its own way while a transaction is open: with a log
of inverse changes (`placements.py`), or a copy made before the first change (`CopiedBeforeChange`). Versions are
rewound, but numbers are never reused: a reader that remembers a version from inside an undone transaction must not
mistake it for another state of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Protocol

from stowplan.kube.compiled import mypyc_attr


@mypyc_attr(native_class=False)
class TransactionError(RuntimeError):
    """Invalid use of a transaction."""


class Participant(Protocol):
    """A part of the cluster's state that transactions restore.

    `begin` is called when a transaction opens, and either `undo` or `keep` when it ends, with the value that `begin`
    returned. Transactions nest: the last mark ends first. The participant that was registered last is undone first.
    """

    def begin(self) -> Any:
        """A mark to return to."""

    def undo(self, mark: Any) -> None:
        """Restore the state as of the mark."""

    def keep(self, mark: Any) -> None:
        """Keep the changes since the mark, unless an outer transaction undoes them."""

    def changed_nodes(self, mark: Any) -> Iterable[str] | None:
        """Nodes for which the state may differ from that at the mark; None if unknown."""

    def dump(self) -> Any:
        """The whole state as plain data (API objects as they are), including every order that decisions depend on."""

    def load(self, dumped: Any) -> None:
        """Replace the whole state by a dump."""


class Transactions:
    """The participants of one cluster, and the open transactions, outermost first."""

    def __init__(self) -> None:
        self._participants: dict[str, Participant] = {}
        self._open: list[Transaction] = []

    def register(self, name: str, participant: Participant) -> None:
        """Include the participant in transactions, and in dumps under the name.

        An earlier participant of the same name is replaced, because a profile's plugins may be rebuilt.
        """
        # It has no mark in the open transactions, so they could not undo its changes.
        if self._open:
            raise TransactionError(f'participant "{name}" cannot be registered while a transaction is open')
        self._participants[name] = participant

    def unregister(self, prefix: str) -> None:
        """Exclude the participants whose names have the prefix from now on."""
        if self._open:
            raise TransactionError(f'participants "{prefix}…" cannot go while a transaction is open')
        self._participants = {n: p for n, p in self._participants.items() if not n.startswith(prefix)}

    def begin(self) -> Transaction:
        return Transaction(self)

    @property
    def depth(self) -> int:
        """The number of open transactions."""
        return len(self._open)

    def opened(self, transaction: Transaction) -> None:
        self._open.append(transaction)
        try:
            for name, participant in self._participants.items():
                transaction.joined_by(name, participant)
        except BaseException:
            # Those that have joined have a mark open, and would log changes for ever.
            transaction.end(undo=True)
            raise

    def closed(self, transaction: Transaction) -> None:
        # Before anything is undone: inverse changes only fit the state that the inner transaction found.
        if not self._open or self._open[-1] is not transaction:
            raise TransactionError("transactions end in reverse order: leave the inner one first")
        self._open.pop()

    def leave_inner(self, transaction: Transaction) -> bool:
        """Undo the open transactions inside this one; return whether there were any."""
        # A generator or an exception has left them open: they end as if they had been left in order.
        inner = self._open[self._open.index(transaction) + 1 :]
        for one in reversed(inner):
            one.end(undo=True)
        return bool(inner)

    def dump(self) -> dict[str, Any]:
        """Every participant's dump, by name."""
        return {name: participant.dump() for name, participant in self._participants.items()}

    def load(self, dumped: dict[str, Any]) -> None:
        """Load every participant's dump."""
        if self._open:
            raise TransactionError("a dump cannot be loaded while a transaction is open")
        # Before anything is loaded: a cluster that is partly another one is of no use.
        if set(dumped) != set(self._participants):
            raise TransactionError(
                f"the dump has the parts {_listed(dumped)}, and this cluster has {_listed(self._participants)}: "
                "load it into a cluster with the same profiles, plugins and source of randomness"
            )
        for name, participant in self._participants.items():
            participant.load(dumped[name])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in sorted(names))


class Transaction:
    """A context in which the cluster can be changed; leaving it undoes the changes unless they were committed."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._marks: list[tuple[str, Participant, Any]] = []
        self._begun = self._ended = False

    def __enter__(self) -> Transaction:
        if self._begun:
            raise TransactionError("a transaction can be entered once only: begin another one")
        self._begun = True
        self._transactions.opened(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended and self._transactions.leave_inner(self):
            self.end(undo=True)
            raise TransactionError("a transaction was left before those inside it; all are undone") from error
        if not self._ended:
            self.end(undo=True)

    def commit(self) -> None:
        """End the transaction and keep its changes; an outer transaction can still undo them."""
        self._require_open()
        self.end(undo=False)

    def rollback(self) -> None:
        """End the transaction and undo its changes, like leaving the context."""
        self._require_open()
        self.end(undo=True)

    def changed_nodes(self) -> set[str] | None:
        """Nodes on which something may have changed, including removed ones; None if unknown."""
        self._require_open()
        found: set[str] = set()
        for _, participant, mark in self._marks:
            names = participant.changed_nodes(mark)
            if names is None:
                return None
            found.update(names)
        return found

    def _require_open(self) -> None:
        if not self._begun:
            raise TransactionError("the transaction has not begun: use it in a with statement")
        if self._ended:
            raise TransactionError("the transaction has ended: begin another one")

    # -- for `Transactions` -------------------------------------------------------------------------------------------

    def joined_by(self, name: str, participant: Participant) -> None:
        # A participant whose `begin` raises has no mark to end.
        self._marks.append((name, participant, participant.begin()))

    def end(self, *, undo: bool) -> None:
        self._transactions.closed(self)
        self._ended = True
        failed: list[tuple[str, BaseException]] = []
        # In reverse order of registration: plugins undo reservations while the pods still exist.
        while self._marks:
            name, participant, mark = self._marks.pop()
            try:
                if undo:
                    participant.undo(mark)
                else:
                    participant.keep(mark)
            except BaseException as e:
                # Continue after any error: a partial undo would leave an inconsistent state.
                failed.append((name, e))
        # Not earlier: Ctrl-C must not leave the others with changes that their counterparts have undone.
        interrupted = next((e for _, e in failed if isinstance(e, KeyboardInterrupt)), None)
        if interrupted is not None:
            raise interrupted
        if failed:
            names = _listed(name for name, _ in failed)
            verb = "undo" if undo else "keep"
            raise TransactionError(f"{names} failed to {verb} the changes of a transaction") from failed[0][1]


@mypyc_attr(allow_interpreted_subclasses=True)
class CopiedAtBeginning:
    """A participant that is small enough to be copied at the start of each transaction."""

    def __init__(self, copy: Callable[[], Any], restore: Callable[[Any], None]) -> None:
        """`copy` returns an immutable copy; `restore` takes one and must not modify it."""
        self._copy = copy
        self._restore = restore

    def begin(self) -> Any:
        return self._copy()

    def undo(self, mark: Any) -> None:
        self._restore(mark)

    def keep(self, mark: Any) -> None:
        pass

    def changed_nodes(self, mark: Any) -> tuple[str, ...]:
        return ()

    def dump(self) -> Any:
        return self._copy()

    def load(self, dumped: Any) -> None:
        self._restore(dumped)


class _Level:
    """One open transaction, as seen by a `CopiedBeforeChange`."""

    __slots__ = ("copied", "copy", "outer")

    def __init__(self, outer: _Level | None) -> None:
        self.outer = outer
        self.copied = False
        self.copy: Any = None


class CopiedBeforeChange:
    """A participant that copies itself before its first change in a transaction.

    Mutators run `if self._uncopied: self._copy_now()` before they change anything.
    """

    def __init__(self) -> None:
        self._level: _Level | None = None
        #: Whether the innermost transaction has no copy yet; False while none is open.
        self._uncopied = False

    def _copied(self) -> Any:
        """A copy of everything that mutators change."""
        raise NotImplementedError

    def _restore(self, copy: Any) -> None:
        raise NotImplementedError

    def _copy_now(self) -> None:
        # Of the innermost transaction alone. The outer ones have the same state to return to, unless it is kept: then
        # they get this copy (`keep`).
        level = self._level
        assert level is not None
        level.copied, level.copy = True, self._copied()
        self._uncopied = False

    def begin(self) -> _Level:
        self._level = _Level(self._level)
        self._uncopied = True
        return self._level

    def undo(self, mark: _Level) -> None:
        # Without a copy nothing has changed.
        if mark.copied:
            self._restore(mark.copy)
        self._leave(mark)

    def keep(self, mark: _Level) -> None:
        outer = mark.outer
        if mark.copied and outer is not None and not outer.copied:
            # Nothing had changed before the inner transaction began.
            outer.copied, outer.copy = True, mark.copy
        self._leave(mark)

    def _leave(self, mark: _Level) -> None:
        self._level = mark.outer
        self._uncopied = mark.outer is not None and not mark.outer.copied
