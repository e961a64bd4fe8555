"""Answers about random clusters, carried out on the embedded cluster: a few of those that `python -m answers` tries."""

import sys
from pathlib import Path

from support.examples import times
from support.processes.forked import run


def test_what_is_said_happens():
    command = [sys.executable, "-m", "answers", "--answers", str(times(150))]
    tried = run(command, cwd=Path(__file__).parents[1], capture_output=True, timeout=600)
    assert tried.returncode == 0, tried.stdout.decode() + tried.stderr.decode()[-2000:]
