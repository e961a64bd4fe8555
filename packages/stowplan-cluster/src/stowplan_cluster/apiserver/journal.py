"""Append-only journal of the store: an acknowledged write survives a crash.

The file is JSON lines. The first is a header with the format and the starting version; each other line is the new state
of an object, or the name of a deleted one. On opening, the changes are replayed, a last line truncated by a crash is
dropped, and the file is compacted; it is compacted again when it has doubled in size. A compacted file is synced to
disk before it replaces the old one.

A full disk does not stop the server: the failure is logged, and the whole file is rewritten as soon as that works.

Only one process may use a file: `FILE.lock` is held for as long as the journal is open.

The directory may be writable by others. Neither file is opened through a symbolic link or if another user owns it: that
user could read the store, or plant objects in it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.store import Event, Store

_FORM = "stowplan-state/v1"
#: Compacted when it is larger than twice its compacted size plus this.
_SLACK_BYTES = 32 << 20

_log = logging.getLogger(__name__)

_decode = msgspec.json.decode
_encode = msgspec.json.encode


class JournalError(Exception):
    """A state file that cannot be used; the message names file, line and reason."""


class Journal:
    """Records a store's changes in a file until `close()`. The store must be empty; it is filled from the file."""

    def __init__(self, path: Path, store: Store, *, slack_bytes: int = _SLACK_BYTES) -> None:
        self._path = path
        self._store = store
        self._slack = slack_bytes
        #: Whether some change is missing from the file.
        self._behind = False
        self._lock = _locked(path)
        try:
            if os.path.lexists(path):
                objects, version = _read(path)
                store.load(objects.values(), version=version)
            self._file = self._rewrite()
        except OSError as error:
            self._lock_off()
            raise JournalError(f"{path}: {error.strerror or error}") from error
        except BaseException:
            self._lock_off()
            raise
        self._ends = store.on_change(self._append)

    def close(self) -> None:
        """Write what is missing from the file; raise JournalError if that fails."""
        self._ends()
        try:
            if self._behind:
                self._switch_to_new_file()
            os.fsync(self._file)
        except OSError as error:
            why = error.strerror or error
            raise JournalError(f"{self._path}: the last changes could not be saved: {why}") from error
        finally:
            os.close(self._file)
            self._lock_off()

    def _lock_off(self) -> None:
        os.close(self._lock)

    def _append(self, event: Event) -> None:
        stored = event.stored
        if event.type == "DELETED":
            gone = {"storage": stored.resource, "version": stored.version, "gone": stored.key}
            line = _encode(gone) + b"\n"
        else:
            line = _line(stored.resource, stored.data)
        try:
            if self._behind or self._size > 2 * self._size_when_rewritten + self._slack:
                self._switch_to_new_file()
            else:
                self._write(line)
        except OSError as error:
            if not self._behind:
                # Log once, not for every change until there is space again.
                text = "cannot write state file %s: %s; changes from version %d on are in memory only until it can be"
                _log.error(text, self._path, error.strerror or error, stored.version)
            self._behind = True

    def _write(self, line: bytes) -> None:
        # One unbuffered write: if the process dies now, the line is complete or missing.
        if os.write(self._file, line) != len(line):
            os.ftruncate(self._file, self._size)
            raise OSError("no space for a whole line")
        self._size += len(line)

    def _switch_to_new_file(self) -> None:
        old, self._file = self._file, self._rewrite()
        os.close(old)
        if self._behind:
            _log.warning("%s: everything is saved again", self._path)
        self._behind = False

    def _rewrite(self) -> int:
        """Write the store to a new file, replace the old one with it, and return it open for appending."""
        temporary = self._path.with_name(f"{self._path.name}.new")
        # Contains Secrets: readable by the owner only.
        descriptor = _made(temporary)
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(_encode({"form": _FORM, "version": self._store.version}) + b"\n")
                for storage in self._store.storages():
                    file.writelines(_line(storage, stored.data) for stored in self._store.list(storage))
                file.flush()
                os.fsync(descriptor)
            self._size = self._size_when_rewritten = os.fstat(descriptor).st_size
            temporary.replace(self._path)
            _sync_folder(self._path.parent)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor


def _line(storage: str, data: bytes) -> bytes:
    return b'{"storage":%b,"object":%b}\n' % (_encode(storage), data)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int:
    if not path.parent.is_dir():
        raise JournalError(f"{path}: {path.parent} is not a directory")
    descriptor = _opened(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise JournalError(f"{path}: another server is using this state file") from None
    return descriptor


def _opened(path: Path, flags: int) -> int:
    """Open a file that we own, or raise JournalError."""
    try:
        # Without O_NONBLOCK, opening a planted FIFO would block forever.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        why = "a symbolic link; name the file itself" if path.is_symlink() else error.strerror
        raise JournalError(f"{path}: {why}") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        os.close(descriptor)
        what = f"belongs to user {found.st_uid}" if stat.S_ISREG(found.st_mode) else "is no file"
        raise JournalError(f"{path}: {what}, and may have been put there for us to use")
    return descriptor


def _made(path: Path) -> int:
    """Create a new file, open for appending."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileExistsError:
        # Left by a crash; if it is a link, only the link is removed.
        path.unlink()
        return os.open(path, flags, 0o600)


def _read(path: Path) -> tuple[dict[tuple[str, str], tuple[str, JsonObject]], int]:
    """The objects after replaying the file, and the version of its last change."""
    objects: dict[tuple[str, str], tuple[str, JsonObject]] = {}
    version = -1
    for number, line in _lines(path):
        try:
            version = max(version, _play(_decode(line, type=dict[str, Any]), objects, first=number == 1))
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
            raise JournalError(f"{path}, line {number}: not a line of a stowplan state file ({error})") from None
    if version < 0 and path.lstat().st_size:
        raise JournalError(f"{path}: not a stowplan state file")
    return objects, max(version, 0)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with os.fdopen(_opened(path, os.O_RDONLY), "rb") as file:
        for number, line in enumerate(file, start=1):
            # Only complete lines were acknowledged.
            if line.endswith(b"\n"):
                yield number, line


def _play(entry: dict[str, Any], objects: dict[tuple[str, str], tuple[str, JsonObject]], *, first: bool) -> int:
    if first:
        if entry["form"] != _FORM:
            raise ValueError(f"form {entry['form']!r} is not {_FORM!r}")
        return int(entry["version"])
    storage: str = entry["storage"]
    if "gone" in entry:
        objects.pop((storage, entry["gone"]), None)
        return int(entry["version"])
    obj: JsonObject = entry["object"]
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    key = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
    objects[storage, key] = (storage, obj)
    return int(metadata["resourceVersion"])
