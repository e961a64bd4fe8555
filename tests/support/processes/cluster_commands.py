"""Commands that serve a cluster, as processes."""

import sys
from contextlib import contextmanager

from support.processes import forked
from support.processes.api_client import Client
from support.processes.servers import running, until

__all__ = ["refused", "serving", "until"]


@contextmanager
def serving(command, folder, *args, **options):
    """(process, client, output file), once the command has announced its address."""
    kubeconfig, log = folder / "kubeconfig", folder / "log"
    line = [sys.executable, "-m", "stowplan", command, f"--kubeconfig-out={kubeconfig}", *args]
    with running(line, log, **options) as process:
        # The kubeconfig is written just before the announcement, which is written in one piece.
        until(lambda: kubeconfig.exists() and "Serving on " in log.read_text(), process, log)
        yield process, Client(kubeconfig), log


def refused(command, *args, cwd):
    """(exit code, stderr) of a command that does not start."""
    line = [sys.executable, "-m", "stowplan", command, *args]
    result = forked.run(line, capture_output=True, text=True, cwd=cwd, timeout=60)
    assert "Traceback" not in result.stderr
    return result.returncode, result.stderr
