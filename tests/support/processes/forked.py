"""Our commands as processes that need not import anything.

Most of a short command's CPU is imports: a second, a thousand times in the suite. So `ForkedProcess` lets a server fork
that has imported everything (`fork_server.py`, one per test process). What comes of it is a process like any other: a
child of ours, with its own streams, environment, working directory and signals, and the exit code of the interpreter.
Only its command line, as others see it, is the server's.

Whatever depends on how an interpreter starts gets a new one: other programs, closed streams, `PYTHON...` variables that
differ from ours, and systems without Linux's subreapers. Tests of starting itself use `subprocess`.
"""

import atexit
import ctypes
import json
import os
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path

__all__ = ["ForkedProcess", "run"]

_SET_CHILD_SUBREAPER = 36
#: What an interpreter and the libraries below it read when they start.
_READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "OPENBLAS_", "OMP_", "MALLOC_")
#: A packet may not be larger than the socket's buffer.
_MOST_BYTES = 100_000


class ForkedProcess(subprocess.Popen):
    """A `Popen` whose process is forked where that makes no difference to its program."""

    def _execute_child(
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *others,
    ):  # fmt: skip
        request = None if executable or preexec_fn or pass_fds or shell else _request(args, cwd, env)
        if request is None:
            super()._execute_child(  # type: ignore[misc] # a part of it that typeshed leaves out
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
                p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *others,
            )  # fmt: skip
            return
        streams = [theirs if theirs != -1 else ours for ours, theirs in enumerate((p2cread, c2pwrite, errwrite))]
        try:
            self.pid = _server(_at_start(os.environ)).fork(request, streams)
            self._child_created = True
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


def run(command, *, input=None, capture_output=False, timeout=60, check=False, **options):
    """`subprocess.run`."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with ForkedProcess(command, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    finished = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        finished.check_returncode()
    return finished


def _request(args, cwd, env):
    """What the server needs to know; None: it cannot do it."""
    match args:
        case [sys.executable, "-m", str(module), *arguments]:
            pass
        case _:
            return None
    environment = dict(os.environ if env is None else env)
    folder = os.fspath(cwd or ".")
    if not sys.platform.startswith("linux") or _at_start(environment) != _at_start(os.environ):
        return None
    if not os.path.isdir(folder):
        return None
    known = {"module": module, "arguments": list(map(os.fspath, arguments)), "folder": os.path.abspath(folder)}
    request = json.dumps({**known, "environment": environment}).encode()
    return request if len(request) <= _MOST_BYTES else None


def _at_start(environment):
    return tuple(sorted((name, value) for name, value in environment.items() if name.startswith(_READ_AT_START)))


@cache
def _server(read_at_start):
    """Some libraries change our environment for good (Dask does): a server of its own for what they leave."""
    return _Server()


class _Server:
    def __init__(self):
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = Path(__file__).with_name("fork_server.py")
        command = [sys.executable, str(program), str(theirs.fileno())]
        # Forking is for processes with one thread; OpenBLAS would start more.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
        theirs.close()
        atexit.register(self._end)

    def _end(self):
        self._socket.close()
        self._process.wait()

    def fork(self, request, streams):
        """The new process's ID. A process whose parent exits becomes a child of ours while we are a subreaper; not for
        longer, as orphans of other processes would become ours, too."""
        _set_subreaper(True)
        try:
            socket.send_fds(self._socket, [request], streams)
            pid = int(self._socket.recv(32))
        finally:
            _set_subreaper(False)
        return pid


def _set_subreaper(on):
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, int(on), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
