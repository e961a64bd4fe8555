"""Jobs for tests, in a module that worker processes can import."""

from __future__ import annotations

import os
import signal
import time

SLEEP = 300.0


def behave(job):
    """Squares a number; negative ones raise. "die" kills the process, "pid" returns its number, "sleep" is slow."""
    if job == "pid":
        return os.getpid()
    if job == "sleep":
        time.sleep(SLEEP)
        return None
    if job == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job < 0:
        raise ValueError(f"{job} is negative")
    return job * job


def die_once(path):
    """Kills the process unless the file exists; creates the file first."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return os.getpid()
    os.kill(os.getpid(), signal.SIGKILL)
    return None
