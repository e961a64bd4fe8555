"""The other end of `forked.py`: a program that imports everything of ours, and forks for each request.

    fork_server.py FD      the descriptor of a socket: a request is a packet with a command and three descriptors

It forks twice. Once the process between has exited, the new one is a child of whoever asks.
"""

import gc
import importlib
import importlib.util
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys

import stowplan
import stowplan_cluster

#: Imported by name when it is needed; not everywhere.
OTHERS = [name for name in ("uvloop",) if importlib.util.find_spec(name)]


def serve(connection):
    """Return in each new process, with the request and its streams."""
    while True:
        request, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        if not request:
            os._exit(0)
        number, parent_is_final = os.pipe(), os.pipe()
        between = os.fork()
        if not between:
            child = os.fork()
            if child:
                os.write(number[1], str(child).encode())
                os._exit(0)
            os.close(parent_is_final[1])
            os.read(parent_is_final[0], 1)
            return json.loads(request), streams
        os.waitpid(between, 0)
        connection.send(os.read(number[0], 32))
        for descriptor in (*streams, *number, *parent_is_final):
            os.close(descriptor)


def become(request, streams):
    """Everything that a new process gets from its parent, and an interpreter from how it is started."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin = sys.__stdin__ = stream_like(sys.stdin, 0, "r")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = stream_like(sys.stdout, 1, "w")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = stream_like(sys.stderr, 2, "w")  # type: ignore[misc]
    signal.signal(signal.SIGINT, interrupted)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[0] = request["folder"]
    sys.argv = [request["module"], *request["arguments"]]
    sys.orig_argv = [sys.executable, "-m", *sys.argv]


def stream_like(ours, number, mode):
    """A text stream as the interpreter makes it. Ours knows whether its file could seek, which has been replaced."""
    # With PYTHONUNBUFFERED there is no buffer.
    buffer = os.fdopen(number, f"{mode}b", 0 if isinstance(ours.buffer, io.RawIOBase) else -1, closefd=False)
    how = {"line_buffering": ours.line_buffering or os.isatty(number), "write_through": ours.write_through}
    return io.TextIOWrapper(buffer, ours.encoding, ours.errors, newline="\n", **how)


if __name__ == "__main__":
    packages = (stowplan, stowplan_cluster)
    ours = [
        name for package in packages for _, name, _ in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    for name in (*ours, *OTHERS):
        if not name.endswith("__main__"):
            importlib.import_module(name)
    # Pages of objects that no collection touches stay shared.
    gc.collect()
    gc.freeze()
    # A terminal's SIGINT is for the tests.
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    wanted, passed = serve(socket.socket(fileno=int(sys.argv[1])))
    become(wanted, passed)
    # `runpy` warns of a module that is there already.
    sys.modules.pop(wanted["module"], None)
    runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)
