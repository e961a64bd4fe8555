"""Forked processes are like those that start anew: the rest of the suite relies on it."""

import json
import os
import signal
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


def test_without_options_it_has_our_streams_environment_and_folder(folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ONLY_HERE", "x")
    assert forked.run([sys.executable, "-m", "probe"], stdin=subprocess.DEVNULL).returncode == 0
    out, err = capfd.readouterr()
    seen = json.loads(out)
    assert (seen["folder"], dict(seen["environment"])["ONLY_HERE"], err) == (str(folder), "x", "to stderr\n")


def test_it_is_forked(folder):
    """Otherwise this file would compare a new process with another."""
    (folder / "imported.py").write_text("import sys; print('stowplan.daemon.process' in sys.modules)")
    run = forked.run([sys.executable, "-m", "imported"], capture_output=True, text=True, cwd=folder)
    assert run.stdout == "True\n"


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "TZ", "LC_ALL"])
def test_what_an_interpreter_reads_when_it_starts_makes_a_new_one(folder, name):
    (folder / "imported.py").write_text("import sys; print('stowplan.daemon.process' in sys.modules)")
    command = [sys.executable, "-m", "imported"]
    run = forked.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ, name: "1"})
    assert run.stdout == "False\n"


def test_what_others_leave_in_our_environment_is_passed_on(folder, monkeypatch):
    (folder / "imported.py").write_text(
        "import os, sys; print('stowplan.daemon.process' in sys.modules, os.environ['OMP_NUM_THREADS'])"
    )
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    run = forked.run([sys.executable, "-m", "imported"], capture_output=True, text=True, cwd=folder)
    assert run.stdout == "True 1\n"


def test_signals_and_waiting(folder):
    (folder / "sleeps.py").write_text("import time; print('ready', flush=True); time.sleep(1000)")
    command = [sys.executable, "-m", "sleeps"]
    with forked.ForkedProcess(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout.readline() == "ready\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == -signal.SIGTERM


def test_orphans_do_not_become_ours(folder):
    program = "import subprocess; print(subprocess.Popen(['sleep', '1000'], stdout=subprocess.DEVNULL).pid)"
    (folder / "leaves.py").write_text(program)
    run = forked.run([sys.executable, "-m", "leaves"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder)
    orphan = int(run.stdout)
    os.kill(orphan, signal.SIGKILL)
    with pytest.raises(ChildProcessError):
        os.waitpid(orphan, 0)


def test_a_folder_that_is_not_there(folder):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        forked.run([sys.executable, "-m", "probe"], cwd=folder / "nowhere")
