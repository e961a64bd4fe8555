"""The reader of our output may exit: a command that serves continues, and is not considered failed."""

import os
import signal
import subprocess
import sys


def test_up_continues_after_its_reader_exits_and_stops_on_request(tmp_path):
    reading, writing = os.pipe()
    kubeconfig = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "stowplan", "up", "--nodes=1", f"--kubeconfig-out={kubeconfig}"]
    with subprocess.Popen(command, stdout=writing) as process:
        os.close(writing)
        # It announces its address, or dies and closes the pipe.
        os.read(reading, 1)
        os.close(reading)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    assert not kubeconfig.exists()
