"""The command itself: help, version, exit, interruption, the demo."""

import os
import re
import signal
import subprocess
import sys

import click
import pytest

import stowplan
from stowplan.__main__ import main
from stowplan.app.cli.main import cli
from stowplan.app.sources import cluster_source
from support.paths import STOWPLAN


def test_version(run):
    assert run("--version").out.startswith(f"stowplan {stowplan.__version__}")


def test_help_and_version_as_of_kubectl(run):
    assert run("version").out == run("--version").out
    assert run("help").out == run("--help").out
    assert run("help", "config", "view").out == run("config", "view", "--help").out


def commands_of(group, *words):
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from commands_of(command, *words, name)
        else:
            yield " ".join((*words, name)), command


def test_the_help_of_every_option_is_a_sentence():
    options = [
        (name, one) for name, command in commands_of(cli) for one in command.params if isinstance(one, click.Option)
    ]
    shown = [(name, one.opts[0], one.help or "") for name, one in options if not one.hidden and one.name != "help"]
    assert len(shown) > 100
    assert [one for one in shown if not re.fullmatch(r"[A-Z].*\w.*[.)]", one[2])] == []


@pytest.mark.parametrize(
    ("name", "hint"), [("explian", " Did you mean 'explain'?"), ("dran", " Did you mean 'drain'?"), ("x", "")]
)
def test_an_unknown_command(run, name, hint):
    ran = run(name)
    assert ran.code == 2
    assert ran.err.endswith(f"Error: No such command {name!r}.{hint}\n")


@pytest.mark.parametrize("args", [("--help",), ("-h",), ("explain", "--help"), ("demo", "--help"), ("up", "--help")])
def test_help_has_examples(run, args):
    ran = run(*args)
    assert ran.code == 0
    assert "  stowplan " in ran.out or "| stowplan " in ran.out


def test_an_internal_error_is_not_a_traceback(run, monkeypatch):
    def fail(*args, **kwargs):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(cluster_source, "objects_of_files", fail)
    monkeypatch.delenv("STOWPLAN_DEBUG", raising=False)
    ran = run("explain", "-f", "x")
    assert ran.code == 1
    assert ran.err.startswith("internal error: ZeroDivisionError: division by zero\n")


def test_interruption(run, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster_source, "objects_of_files", interrupt)
    assert run("explain", "-f", "x").code == 130


@pytest.mark.slow
def test_interrupted_while_reading(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, "-m", "stowplan", "explain", "-f", str(pipe)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(STOWPLAN)},
    )
    # Opening the pipe waits for the command to have opened its end.
    with pipe.open("w"):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err.strip()) == (130, "")


class Interrupting:
    """A module finder that sends a signal while the command is imported."""

    def __init__(self, number):
        self.number = number

    def find_spec(self, name, path, target=None):
        if name == "stowplan.app.cli.main":
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_during_startup(monkeypatch, capsys, number, code):
    """Not by an exception: Python 3.11 converts exceptions raised while a class is being created."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.delitem(sys.modules, "stowplan.app.cli.main")
    monkeypatch.delattr("stowplan.app.cli.main")
    monkeypatch.setattr(sys, "meta_path", [Interrupting(number), *sys.meta_path])
    monkeypatch.setattr(os, "_exit", sys.exit)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert ended.value.code == code
    assert capsys.readouterr().err == ""


def test_signal_handlers_are_restored_after_startup(monkeypatch):
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    found = []
    monkeypatch.setattr(
        "stowplan.app.cli.main.main",
        lambda: found.extend(signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)),
    )
    main()
    assert found == before


def test_only_the_command_that_is_run_is_imported():
    heavy = "{'numpy', 'aiohttp', 'rich', 'stowplan.scheduler.engine'}"
    code = f"import sys; from stowplan.app.cli.main import cli; print(*sorted({heavy} & sys.modules.keys()))"
    env = {**os.environ, "PYTHONPATH": str(STOWPLAN)}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert (told.returncode, told.stdout, told.stderr) == (0, "\n", "")


def test_commands_have_the_names_in_the_list():
    context = click.Context(cli)
    assert [cli.get_command(context, name).name for name in cli.list_commands(context)] == cli.list_commands(context)
