"""Commands with standard output or error closed or full."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

KUBE_SCHEDULER = "stowplan.app.cli.kube_scheduler"
FULL = Path("/dev/full")
#: Python's own buffers may also hold unwritten output.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
NO_SPACE = "standard output: No space left on device"

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="the system has no disk that is always full")


def ran(*arguments, redirected):
    command = f'exec "$0" -m "$@" {redirected}'
    full = ["sh", "-c", command, sys.executable, *arguments]
    return subprocess.run(full, capture_output=True, text=True, env=ENVIRONMENT, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((KUBE_SCHEDULER, "--help"), f"Error: {NO_SPACE}\n"),
        ((KUBE_SCHEDULER, "--version"), f"Error: {NO_SPACE}\n"),
        (("stowplan", "--help"), f"error: {NO_SPACE}\n"),
        (("stowplan", "explain", "--help"), f"error: {NO_SPACE}\n"),
    ],
)
def test_a_full_output_is_an_error_with_a_message(arguments, said):
    done = ran(*arguments, redirected=">/dev/full")
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((KUBE_SCHEDULER, "--nonsense"), 1),
        ((KUBE_SCHEDULER, "--feature-gates=Nonsense=true"), 1),
        ((KUBE_SCHEDULER, "--kubeconfig=/nowhere/at/all"), 1),
        (("stowplan", "explain", "--nonsense"), 2),
        (("stowplan", "explain", "pending", "-f", "/nowhere/at/all"), 2),
    ],
)
@pytest.mark.parametrize("redirected", ["2>/dev/full", "2>&-", ">&- 2>&-"])
def test_a_closed_stderr_does_not_change_the_exit_code(arguments, code, redirected):
    done = ran(*arguments, redirected=redirected)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@pytest.mark.parametrize("arguments", [(KUBE_SCHEDULER, "--version"), ("stowplan", "--version")])
def test_a_closed_stdout_is_no_error(arguments):
    done = ran(*arguments, redirected=">&-")
    assert (done.returncode, done.stderr) == (0, "")
