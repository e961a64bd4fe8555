"""Transactions on the cluster state, undone exactly.

Inside a transaction every mutator may be used. Leaving it undoes all changes exactly, versions and change logs
included, so what was worked out before stays reusable. `commit` keeps the changes instead. Transactions nest, and end
in the reverse order of their beginning.

What a transaction restores is kept by *participants*: nodes and pods, lookup objects, nominations, pending pods, and
whatever plugins register of their own. Each participant notes what it needs while a transaction is open, in its own
way: a log of what undoes each change (`placements.py`), or a copy made before the first change (`CopiedBeforeChange`).
Numbers of versions are wound back, but never given twice: a reader that remembers one from inside an undone
transaction must not take it for another state of the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType


class TransactionError(RuntimeError):
    """A transaction is used in a way that it cannot be."""


class Participant(Protocol):
    """A part of the cluster's state that transactions restore.

    `begin` is called when a transaction opens, and either `undo` or `keep` when it ends, with what `begin` returned.
    Transactions nest: the last mark is the first to end. The participant that was registered last is undone first.
    """

    def begin(self) -> Any:
        """A mark to come back to."""

    def undo(self, mark: Any) -> None:
        """Restore everything as it was at the mark."""

    def keep(self, mark: Any) -> None:
        """The changes since the mark stay, unless an outer transaction undoes them."""

    def changed_nodes(self, mark: Any) -> Iterable[str] | None:
        """Nodes about which the part may say something else than at the mark; None when it cannot tell."""

    def dump(self) -> Any:
        """The whole part as plain data (API objects as they are), with every order that a decision depends on."""

    def load(self, dumped: Any) -> None:
        """Replace the whole part by what was dumped."""


class Transactions:
    """The participants of one cluster, and the transactions that are open, outermost first."""

    def __init__(self) -> None:
        self._participants: dict[str, Participant] = {}
        self._open: list[Transaction] = []

    def register(self, name: str, participant: Participant) -> None:
        """Let transactions restore the participant, and dumps contain it under the name.

        A participant takes over the name of an earlier one: a profile's plugins may be built anew.
        """
        if self._open:
            raise TransactionError(f'participant "{name}" cannot be registered while a transaction is open')
        self._participants[name] = participant

    def unregister(self, prefix: str) -> None:
        """Leave out, from now on, the participants whose names begin so."""
        if self._open:
            raise TransactionError(f'participants "{prefix}…" cannot go while a transaction is open')
        self._participants = {n: p for n, p in self._participants.items() if not n.startswith(prefix)}

    def begin(self) -> Transaction:
        return Transaction(self)

    @property
    def depth(self) -> int:
        """Open transactions."""
        return len(self._open)

    def opened(self, transaction: Transaction) -> None:
        self._open.append(transaction)
        try:
            for name, participant in self._participants.items():
                transaction.joined_by(name, participant)
        except BaseException:
            transaction.end(undo=True)
            raise

    def closed(self, transaction: Transaction) -> None:
        if not self._open or self._open[-1] is not transaction:
            raise TransactionError("transactions end in reverse order: leave the inner one first")
        self._open.pop()

    def leave_inner(self, transaction: Transaction) -> bool:
        """Undo the transactions inside this one that are still open; whether there were any."""
        inner = self._open[self._open.index(transaction) + 1 :]
        for one in reversed(inner):
            one.end(undo=True)
        return bool(inner)

    def dump(self) -> dict[str, Any]:
        """Every participant's part by its name."""
        return {name: participant.dump() for name, participant in self._participants.items()}

    def load(self, dumped: dict[str, Any]) -> None:
        """Replace every participant's part."""
        if self._open:
            raise TransactionError("a dump cannot be loaded while a transaction is open")
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
        """End the transaction and undo its changes, as leaving it does."""
        self._require_open()
        self.end(undo=True)

    def changed_nodes(self) -> set[str] | None:
        """Nodes on which something may differ from the beginning, gone ones included; None when it is not known."""
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
        self._marks.append((name, participant, participant.begin()))

    def end(self, *, undo: bool) -> None:
        self._transactions.closed(self)
        self._ended = True
        failed: list[tuple[str, BaseException]] = []
        # Last registered, first undone: what plugins set aside is given back while the pods are still there.
        for name, participant, mark in reversed(self._marks):
            try:
                (participant.undo if undo else participant.keep)(mark)
            except BaseException as e:
                # Whatever it is, the others must get their turn: half an undo is no state at all.
                failed.append((name, e))
        self._marks.clear()
        interrupted = next((e for _, e in failed if isinstance(e, KeyboardInterrupt)), None)
        if interrupted is not None:
            raise interrupted
        if failed:
            names = _listed(name for name, _ in failed)
            verb = "undo" if undo else "keep"
            raise TransactionError(f"{names} failed to {verb} the changes of a transaction") from failed[0][1]


class CopiedAtBeginning:
    """A participant so small that it is copied whenever a transaction begins."""

    def __init__(self, copy: Callable[[], Any], restore: Callable[[Any], None]) -> None:
        """`copy` is asked for a copy that does not change any more; `restore` takes one over and leaves it as it is."""
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
    """One open transaction as a `CopiedBeforeChange` sees it."""

    __slots__ = ("copied", "copy", "outer")

    def __init__(self, outer: _Level | None) -> None:
        self.outer = outer
        self.copied = False
        self.copy: Any = None


class CopiedBeforeChange:
    """A participant that copies itself before its first change in a transaction.

    Mutators do `if self._uncopied: self._copy_now()` before they change anything.
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
        level = self._level
        assert level is not None
        level.copied, level.copy = True, self._copied()
        self._uncopied = False

    def begin(self) -> _Level:
        self._level = _Level(self._level)
        self._uncopied = True
        return self._level

    def undo(self, mark: _Level) -> None:
        if mark.copied:
            self._restore(mark.copy)
        self._leave(mark)

    def keep(self, mark: _Level) -> None:
        outer = mark.outer
        if mark.copied and outer is not None and not outer.copied:
            # Nothing had changed when the inner transaction began.
            outer.copied, outer.copy = True, mark.copy
        self._leave(mark)

    def _leave(self, mark: _Level) -> None:
        self._level = mark.outer
        self._uncopied = mark.outer is not None and not mark.outer.copied
