"""Whoever reads our output may leave: a command that serves goes on, and its end is no failure."""

import os
import signal
import subprocess
import sys


def test_a_cluster_whose_reader_leaves_ends_as_it_is_told(tmp_path):
    reading, writing = os.pipe()
    kubeconfig = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "stowplan", "up", "--nodes=1", f"--kubeconfig-out={kubeconfig}"]
    with subprocess.Popen(command, stdout=writing) as process:
        os.close(writing)
        # It says where it serves, or dies and lets go of the pipe.
        os.read(reading, 1)
        os.close(reading)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    assert not kubeconfig.exists()
