"""Sockets by which schedulers on this machine are found: whose they are, and what is left of those that ended."""

import os
import socket
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from stowplan.net.client.connection import Connection
from stowplan.net.client.credentials.request_credentials import UserCredentials
from stowplan.net.client.endpoint.file_content import InlineContent
from stowplan.net.client.endpoint.tls import TlsSettings
from stowplan.net.client.local_sockets import LocalSocketError, check_socket, listening, private_folder, sockets_of


def connection(server="https://10.0.0.1:6443", ca=b"CA"):
    tls = None if ca is None else TlsSettings(ca=InlineContent(ca, where="ca"))
    return Connection(server=server, namespace="default", credentials=UserCredentials(), tls=tls)


@pytest.fixture
def runtime():
    """A folder as XDG_RUNTIME_DIR is; pytest's own are too long for a socket's path."""
    with tempfile.TemporaryDirectory(prefix="xdg-") as folder:
        yield Path(folder)


@pytest.fixture
def environ(runtime):
    return {"XDG_RUNTIME_DIR": str(runtime)}


def test_it_is_found_while_it_listens(runtime, environ):
    with listening(connection(), environ) as opened:
        [path] = sockets_of(connection(), environ)
        assert path.parent == runtime / "stowplan"
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        check_socket(path)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            opened.setblocking(True)
            opened.accept()[0].close()
    assert sockets_of(connection(), environ) == []
    assert list((runtime / "stowplan").iterdir()) == []


def test_schedulers_of_other_clusters_are_not_found(environ):
    with listening(connection(), environ):
        assert sockets_of(connection("https://10.0.0.1:6444"), environ) == []
        assert sockets_of(connection(ca=b"another CA"), environ) == []
        assert sockets_of(connection(ca=None), environ) == []
        named = replace(connection(), tls=TlsSettings(ca=InlineContent(b"CA", where="ca"), server_name="b"))
        assert sockets_of(named, environ) == []


def test_the_same_authorities_from_a_file_that_ends_in_a_newline(environ):
    with listening(connection(ca=b"a\nb"), environ):
        assert len(sockets_of(connection(ca=b"a\nb\n"), environ)) == 1


def test_several_of_one_cluster(environ):
    with listening(connection(), environ), listening(connection(), environ):
        assert len(sockets_of(connection(), environ)) == 2


def test_the_next_one_removes_what_a_killed_one_left_and_nothing_else(runtime, environ):
    with listening(connection("https://alive"), environ):
        dead, finishing = runtime / "stowplan" / "dead-1.sock", runtime / "stowplan" / "begun-1.new"
        for path in (dead, finishing):
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(path))
        with listening(connection(), environ):
            assert not dead.exists()
            assert finishing.exists()
            assert len(sockets_of(connection("https://alive"), environ)) == 1


def test_without_a_place_there_is_none():
    assert private_folder({}) is None
    assert sockets_of(connection(), {}) == []
    with listening(connection(), {}) as opened:
        assert opened is None


def test_a_temporary_folder_of_the_users_own_will_do(runtime):
    assert private_folder({"TMPDIR": str(runtime)}) == runtime / "stowplan"
    runtime.chmod(0o777)
    assert private_folder({"TMPDIR": str(runtime)}) is None


def refused(environ):
    assert sockets_of(connection(), environ) == []
    with pytest.raises(LocalSocketError) as error, listening(connection(), environ):
        raise AssertionError("it listens")
    return str(error.value)


def test_a_folder_that_others_may_enter_is_not_trusted(runtime, environ):
    with listening(connection(), environ):
        (runtime / "stowplan").chmod(0o755)
        assert refused(environ) == f"{runtime}/stowplan is not private (mode 0755, expected 0700)"
        [path] = (runtime / "stowplan").iterdir()
        with pytest.raises(LocalSocketError, match="not private"):
            check_socket(path)
        (runtime / "stowplan").chmod(0o700)
    runtime.chmod(0o770)
    assert refused(environ) == f"{runtime} is not private (mode 0770, expected 0700)"


def test_a_symbolic_link_is_not_followed(runtime, environ):
    elsewhere = runtime / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (runtime / "stowplan").symlink_to(elsewhere)
    assert refused(environ) == f"{runtime}/stowplan is not a directory"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_folder_of_another_user_is_not_trusted(runtime, environ):
    (runtime / "stowplan").mkdir(mode=0o700)
    os.chown(runtime / "stowplan", 12345, -1)
    assert refused(environ) == f"{runtime}/stowplan belongs to another user (uid 12345)"


def test_what_cannot_be(runtime):
    assert refused({"XDG_RUNTIME_DIR": "relative"}) == "relative/stowplan is not an absolute path"
    assert refused({"XDG_RUNTIME_DIR": str(runtime / "gone")}).startswith(f"lstat {runtime}/gone: no such file")
    deep = runtime / ("x" * 90)
    deep.mkdir(mode=0o700)
    with (
        pytest.raises(LocalSocketError, match="is longer than 103 bytes"),
        listening(connection(), {"XDG_RUNTIME_DIR": str(deep)}),
    ):
        raise AssertionError("it listens")


def test_what_is_no_socket(runtime):
    (runtime / "file.sock").write_text("")
    with pytest.raises(LocalSocketError, match=r"file.sock is not a socket"):
        check_socket(runtime / "file.sock")
    with pytest.raises(LocalSocketError, match="no such file"):
        check_socket(runtime / "gone.sock")
