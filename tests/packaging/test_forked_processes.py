"""Forked processes are like those that start anew: the rest of the suite relies on it."""

import json
import os
import subprocess
import sys

import pytest

from support.processes import forked

PROBE = '''"""Prints what a program can see of its process."""

import json, os, signal, sys

FILES = "/proc/self/fd"
SIGNALS = sorted(signal.valid_signals())
streams = (sys.stdin, sys.stdout, sys.stderr)
print(json.dumps({
    "parent": os.getppid(),
    "group": os.getpgrp(),
    "folder": os.getcwd(),
    "environment": sorted(os.environ.items()),
    "arguments": sys.argv,
    "all arguments": sys.orig_argv[1:],
    "path": sys.path,
    "name": __name__,
    "files": [name for name in os.listdir(FILES) if os.path.exists(f"{FILES}/{name}")],
    "streams": [(s.fileno(), s.encoding, s.errors, s.newlines, s.line_buffering, s.seekable()) for s in streams],
    "signals": [str(signal.getsignal(number)) for number in SIGNALS],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "input": sys.stdin.read(),
}))
print("to stderr", file=sys.stderr)
match sys.argv[1:]:
    case ["raise"]: raise ValueError("as wanted")
    case ["exit"]: sys.exit(7)
    case ["say why"]: sys.exit("why")
    case ["interrupt"]: os.kill(os.getpid(), signal.SIGINT)
    case ["kill"]: os.kill(os.getpid(), signal.SIGKILL)
'''
ENVIRONMENT = {**os.environ, "HOME": "/nowhere", "ONLY_THERE": "ä"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "probe.py").write_text(PROBE)
    return tmp_path


@pytest.mark.parametrize("wanted", ["return", "raise", "exit", "say why", "interrupt", "kill"])
def test_a_program_sees_no_difference(folder, wanted):
    command = [sys.executable, "-m", "probe", wanted]
    options = {"input": "a\r\nb", "capture_output": True, "text": True, "cwd": folder, "env": ENVIRONMENT}
    new, ours = subprocess.run(command, **options), forked.run(command, **options)
    assert ours.returncode == new.returncode
    assert (json.loads(ours.stdout) if ours.stdout else "") == (json.loads(new.stdout) if new.stdout else "")
    assert ours.stderr.splitlines()[:1] == new.stderr.splitlines()[:1] == ["to stderr"]
    # A traceback begins in the server.
    assert ours.stderr.splitlines()[-1] == new.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "is_forked"), [("ONLY_THERE", True), ("PYTHONHASHSEED", False), ("TZ", False), ("LC_ALL", False)]
)
def test_it_is_forked_unless_an_interpreter_reads_something_else_when_it_starts(folder, name, is_forked):
    (folder / "imported.py").write_text("import sys; print('stowplan.app.daemon.process' in sys.modules)")
    command = [sys.executable, "-m", "imported"]
    run = forked.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ, name: "1"})
    assert run.stdout == f"{is_forked}\n"
