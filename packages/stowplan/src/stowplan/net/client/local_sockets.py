"""Sockets of schedulers that run on this machine, as this user.

A scheduler listens on a Unix socket in `$XDG_RUNTIME_DIR/stowplan`, so that `stowplan explain` finds it. The folder
belongs to the user and nobody else may enter it, so the kernel authenticates both sides: whoever connects could read
the scheduler's kubeconfig anyway, and no credentials are sent. Both sides check owner and mode of the folder, without
following symbolic links. Where a system has no XDG_RUNTIME_DIR, TMPDIR is used if it is as private (macOS).

A socket's name begins with a digest of the API server's address and its CAs, so that only the schedulers of the
kubeconfig's cluster are asked. A socket that its scheduler left behind when it was killed refuses connections: the next
scheduler removes it, and everybody else passes over it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from stowplan.kube.config.config_errors import os_error_text
from stowplan.net.client.connection import Connection

_FOLDER, _SUFFIX, _UNFINISHED = "stowplan", ".sock", ".new"
_BACKLOG = 64
#: The kernel's limit for the path of a Unix socket, on the strictest system.
_MAX_PATH_BYTES = 103


class LocalSocketError(Exception):
    """There cannot be a socket, or it cannot be trusted."""


def private_folder(environ: Mapping[str, str]) -> Path | None:
    """The folder of the sockets, which may not exist yet; None if this system has no place for it."""
    if environ.get("XDG_RUNTIME_DIR"):
        return Path(environ["XDG_RUNTIME_DIR"], _FOLDER)
    temporary = environ.get("TMPDIR")
    return Path(temporary, _FOLDER) if temporary and not _why_not_private(Path(temporary)) else None


def sockets_of(connection: Connection, environ: Mapping[str, str]) -> list[Path]:
    """Sockets of the schedulers of this cluster, the newest first; some may be left over."""
    folder = private_folder(environ)
    if folder is None or why_no_sockets(environ):
        return []
    found = []
    for path in folder.glob(f"{_cluster_digest(connection)}-*{_SUFFIX}"):
        with suppress(OSError):
            found.append((path.lstat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]


def why_no_sockets(environ: Mapping[str, str]) -> str:
    """Why schedulers cannot be found by sockets; "" if they can, even if there are none."""
    folder = private_folder(environ)
    if folder is None:
        return "XDG_RUNTIME_DIR is not set"
    if not folder.is_absolute():
        return f"{folder} is not an absolute path"
    return _why_not_private(folder.parent) or (_why_not_private(folder) if folder.exists() else "")


def check_socket(path: Path) -> None:
    """Raise LocalSocketError unless it is a socket in a folder that only this user may enter."""
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        raise LocalSocketError(os_error_text("lstat", str(path), error)) from None
    reason = "" if stat.S_ISSOCK(mode) else f"{path} is not a socket"
    reason = reason or _why_not_private(path.parent)
    if reason:
        raise LocalSocketError(reason)


@contextmanager
def listening(connection: Connection, environ: Mapping[str, str]) -> Iterator[socket.socket | None]:
    """A socket that listens for questions about this cluster's scheduler, removed at the end; None if there is no place
    for one. Raises LocalSocketError.
    """
    folder = private_folder(environ)
    if folder is None:
        yield None
        return
    path = folder / f"{_cluster_digest(connection)}-{secrets.token_hex(4)}{_SUFFIX}"
    _make(folder)
    _remove_stale(folder)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as opened:
        _listen(opened, path)
        try:
            yield opened
        finally:
            with suppress(FileNotFoundError):
                path.unlink()


def _make(folder: Path) -> None:
    reason = "" if folder.is_absolute() else f"{folder} is not an absolute path"
    reason = reason or _why_not_private(folder.parent)
    if not reason:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            reason = os_error_text("mkdir", str(folder), error)
    reason = reason or _why_not_private(folder)
    if reason:
        raise LocalSocketError(reason)


def _listen(opened: socket.socket, path: Path) -> None:
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise LocalSocketError(f"{path} is longer than {_MAX_PATH_BYTES} bytes, which no socket's path may be")
    # Renamed once it listens: a socket that refuses connections is taken for a left-over one.
    unfinished = path.with_suffix(_UNFINISHED)
    try:
        opened.bind(str(unfinished))
        opened.listen(_BACKLOG)
        unfinished.rename(path)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        raise LocalSocketError(os_error_text("bind", str(path), error)) from None
    opened.setblocking(False)


def _remove_stale(folder: Path) -> None:
    for path in folder.glob(f"*{_SUFFIX}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(OSError):
            probe.setblocking(False)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()


def _why_not_private(folder: Path) -> str:
    """Why others could have put something into a folder; "" if they could not."""
    try:
        found = folder.lstat()
    except OSError as error:
        return os_error_text("lstat", str(folder), error)
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is not a directory"
    if found.st_uid != os.geteuid():
        return f"{folder} belongs to another user (uid {found.st_uid})"
    mode = stat.S_IMODE(found.st_mode)
    return f"{folder} is not private (mode {mode:04o}, expected 0700)" if mode & 0o077 else ""


def _cluster_digest(connection: Connection) -> str:
    """The same for every user and credentials of a cluster."""
    tls = connection.tls
    authorities = b"" if tls is None or tls.ca is None else b"".join(tls.ca.read().split())
    name = "" if tls is None else tls.server_name or ""
    # A separator that no part contains.
    parts = (connection.server.encode(), name.encode(), authorities)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
