"""What jobs of tests do, in a module that worker processes can import."""

from __future__ import annotations

import os
import signal


def behave(job):
    """Square a number; a negative one raises, and "die" kills the process."""
    if job == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job < 0:
        raise ValueError(f"{job} is negative")
    return job * job


def die_once(path):
    """Kill the process unless the file is there, which is made first."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return os.getpid()
    os.kill(os.getpid(), signal.SIGKILL)
    return None
