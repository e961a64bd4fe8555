"""The command itself: help, version, endings, the demo."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

import stowplan
from stowplan.cli import explain as explaining

SRC = pathlib.Path(__file__).parents[2] / "src"


def test_version(run):
    assert run("--version").out.startswith(f"stowplan {stowplan.__version__}")


@pytest.mark.parametrize("args", [("--help",), ("-h",), ("explain", "--help"), ("demo", "--help")])
def test_help_teaches_with_examples(run, args):
    ran = run(*args)
    assert ran.code == 0
    assert "  stowplan " in ran.out or "| stowplan " in ran.out


def test_a_bug_is_not_a_traceback(run, monkeypatch):
    def fail(*args, **kwargs):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(explaining, "load_files", fail)
    monkeypatch.delenv("STOWPLAN_DEBUG", raising=False)
    ran = run("explain", "-f", "x")
    assert ran.code == 1
    assert ran.err.startswith("internal error: ZeroDivisionError: division by zero\n")


def test_interruption(run, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(explaining, "load_files", interrupt)
    assert run("explain", "-f", "x").code == 130


def test_interrupted_while_reading(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, "-m", "stowplan", "explain", "-f", str(pipe)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    # Opening waits for the command to have opened its end.
    with pipe.open("w"):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err.strip()) == (130, "")


# -- demo


def test_demo_shows_the_placement_and_explains_three_pods(run):
    ran = run("demo")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("28 pods placed on 9 nodes\n")
    assert "gpu-a1   █████░░░░░" in ran.out
    assert "shop/api-0 runs on " in ran.out
    assert "1. tolerate nvidia.com/gpu:NoSchedule to gain 2 nodes (gpu-a1, gpu-b1)" in ran.out
    assert "would evict 1 pod from node-a1" in ran.out
    assert "stowplan demo --save demo.yaml" in ran.out


def test_demo_is_the_same_every_time(run):
    assert run("demo").out == run("demo").out


def test_what_the_demo_saves_can_be_explained(run, tmp_path):
    path = tmp_path / "demo.yaml"
    saved = run("demo", "--save", str(path))
    assert saved.code == 0
    assert saved.err == f"note: 42 objects written to {path}\n"
    ran = run("explain", "-f", str(path))
    assert (ran.code, ran.err) == (0, "")
    first, second = ran.out.split("\n\nshop/checkout-0")
    # The same pages as in the demo itself.
    assert first in saved.out
    assert second in saved.out


def test_the_demo_cannot_be_saved_just_anywhere(run, tmp_path):
    ran = run("demo", "--save", str(tmp_path / "no" / "demo.yaml"))
    assert ran.code == 2
    assert ran.err.startswith(f"error: {tmp_path}/no/demo.yaml: No such file or directory")
