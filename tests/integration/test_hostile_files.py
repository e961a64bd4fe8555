"""Commands as processes with hostile files: they end soon with an error, and use little memory."""

import json
import os
import subprocess
import sys
import time

import pytest

from stowplan.testing import a_node
from support.hostile.texts import hostile_texts
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.processes import forked

TEXTS = {name: data for name, data, _ in hostile_texts()}
#: Every command reads these and one of OTHERS. tests/api/test_hostile_files gives all texts to all readers.
REFUSED = ("billion laughs", "brackets")
OTHERS = ("merged laughs", "a chain of anchors", "a number of 100,000 digits")
#: Allowed beyond what the command needs for a file of one line.
SECONDS, MEBIBYTES = 1.0, 200

COMMANDS = {
    "config validate": ("configuration", ["-m", "stowplan", "config", "validate", "{}"]),
    "config view": ("policy", ["-m", "stowplan", "config", "view", "{}"]),
    "run": ("configuration", ["-m", "stowplan", "run", "--config", "{}"]),
    "kube-scheduler": ("configuration", ["-m", "stowplan.cli.kube_scheduler", "--secure-port=0", "--config", "{}"]),
    "a policy": ("policy", ["-m", "stowplan.cli.kube_scheduler", "--secure-port=0", "--policy-config-file", "{}"]),
    "explain": ("manifest", ["-m", "stowplan", "explain", "-f", "{}"]),
    "what-if": ("manifest", ["-m", "stowplan", "what-if", "-f", "{objects}", "--apply", "{}"]),
    "a kubeconfig": ("kubeconfig", ["-m", "stowplan", "explain", "--kubeconfig", "{}"]),
    "labels of metrics": (
        "nothing",
        ["-m", "stowplan.cli.kube_scheduler", "--secure-port=0", "--allow-metric-labels-manifest", "{}"],
    ),
}


@pytest.fixture
def run_measured(tmp_path):
    """Run a command with a file: exit code, stderr, seconds of CPU, MiB."""
    file, objects = tmp_path / "file.yaml", tmp_path / "objects.yaml"
    objects.write_text(json.dumps(a_node("n").obj()))
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", a_kubeconfig(cluster={"server": "http://127.0.0.1:1"}))

    def run(arguments, data):
        file.write_bytes(data)
        words = [sys.executable, *(word.format(file, objects=objects) for word in arguments)]
        with (tmp_path / "err").open("wb") as err:
            process = forked.ForkedProcess(
                words, stdout=subprocess.DEVNULL, stderr=err, env={**os.environ, "KUBECONFIG": str(kubeconfig)}
            )
            deadline = time.monotonic() + 60
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            while not ended:
                assert time.monotonic() < deadline, "the process did not exit"
                time.sleep(0.02)
                ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            process.returncode = os.waitstatus_to_exitcode(status)
        text = (tmp_path / "err").read_text(errors="replace")
        return process.returncode, text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_end_soon(run_measured, command):
    kind, arguments = COMMANDS[command]
    _, _, seconds, mebibytes = run_measured(arguments, b"{")
    for name in (*REFUSED, OTHERS[list(COMMANDS).index(command) % len(OTHERS)]):
        code, err, took, held = run_measured(arguments, TEXTS[f"{kind}: {name}"])
        assert code in (0, 1, 2)
        assert "Traceback" not in err
        assert "internal error" not in err
        assert took - seconds <= SECONDS, name
        assert held - mebibytes <= MEBIBYTES, name
        if name in REFUSED:
            assert code in (1, 2)
            assert "excessive aliasing" in err or "nested deeper" in err
