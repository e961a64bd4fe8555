"""Commands of installed packages: found by entry points, imported on demand, and isolated from each other."""

import subprocess
import sys
import tomllib

import click
import pytest
from click.testing import CliRunner

from stowplan.app.cli.main import cli
from stowplan.app.command_line import contributed_commands
from stowplan.app.command_line.commands import Commands, Section
from stowplan.app.command_line.contributed_commands import ENTRY_POINT_GROUP
from support.processes.deployments import ROOT

COMMAND = """
import click
from stowplan.app.command_line.commands import Command, Section

WITH_TRAINS = Section("With trains:", (("stowplan trains", "all of them"),))

@click.command(cls=Command, section=WITH_TRAINS, short_help="Trains.")
def trains():
    click.echo("choo")

@click.command(short_help="Ships.")
def ships():
    click.echo("toot")

no_command = "choo"
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a distribution: its modules by name, its commands as names with entry points."""
    monkeypatch.setattr(sys, "modules", dict(sys.modules))

    def installed(distribution, modules, **commands):
        folder = tmp_path / distribution
        info = folder / f"{distribution}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in commands.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{ENTRY_POINT_GROUP}]", *lines]))
        for name, source in modules.items():
            (folder / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(folder)

    return installed


@click.group(cls=Commands, sections=(Section("On foot:", (("stowplan walk", ""),)),))
def group():
    """A way to go."""


@group.command(short_help="Walk.")
def walk():
    click.echo("step")


def run(*args):
    return CliRunner().invoke(group, args, prog_name="stowplan")


def test_a_command_of_another_package_runs(install):
    install("trains", {"trains_commands": COMMAND}, trains="trains_commands:trains")
    ran = run("trains")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, "choo\n", "")


def test_its_module_is_imported_on_demand(install):
    install("trains", {"trains_commands": "raise AssertionError"}, trains="trains_commands:trains")
    ran = run("walk")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, "step\n", "")


def test_help_has_its_section_after_those_of_the_group(install):
    install("trains", {"trains_commands": COMMAND}, trains="trains_commands:trains", ships="trains_commands:ships")
    text = run("--help").stdout
    places = [text.index(head) for head in ("A way to go.", "On foot:", "With trains:", "Commands:")]
    assert places == sorted(places)
    assert "    stowplan trains" in text
    lines = text.split("Commands:\n")[1].splitlines()
    listed = [line.split()[0] for line in lines if line[2] != " "]
    assert {"ships", "trains", "walk"} <= set(listed)
    assert listed == sorted(listed)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param("broken_commands:x", "ZeroDivisionError: division by zero", id="raises"),
        pytest.param("broken_commands.x:x", "ModuleNotFoundError: No module named 'broken_commands.x'", id="no module"),
        pytest.param("trains_commands:nothing", "AttributeError: ", id="no such name"),
        pytest.param(
            "trains_commands:no_command", "trains_commands:no_command is not a click command", id="no command"
        ),
    ],
)
def test_a_broken_command_is_one_line_and_does_not_affect_others(install, value, said):
    modules = {"trains_commands": COMMAND, "broken_commands": "1 / 0" if value == "broken_commands:x" else ""}
    install("trains", modules, trains="trains_commands:trains", broken=value)
    listed = run("--help")
    assert listed.exit_code == 0
    assert "  trains " in listed.stdout
    assert "  broken " not in listed.stdout
    warning = [line for line in listed.stderr.splitlines() if "broken" in line]
    assert len(warning) == 1
    assert warning[0].startswith(f"warning: command 'broken' of trains ({value}) cannot be loaded: ")
    assert said in warning[0]
    assert run("trains").stderr == ""
    ran = run("broken")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr.strip() == warning[0].replace("warning:", "error:")


def test_built_in_commands_cannot_be_replaced(install):
    install("trains", {"trains_commands": COMMAND}, walk="trains_commands:trains")
    assert run("walk").stdout == "step\n"
    assert run("walk").stderr == ""
    listed = run("--help")
    assert (
        "warning: command 'walk' of trains (trains_commands:trains) is not used: stowplan has a command of that name"
        in listed.stderr
    )


def test_the_first_of_two_equal_names_on_the_path_is_used(install):
    install("ships", {"ships_commands": COMMAND}, go="ships_commands:ships")
    install("trains", {"trains_commands": COMMAND}, go="trains_commands:trains")
    ran = run("go")
    assert ran.stdout == "choo\n"
    assert "is not used: command 'go' of trains (trains_commands:trains) comes first" in ran.stderr


def test_an_unknown_command_is_an_error(install):
    ran = run("fly")
    assert ran.exit_code == 2
    assert "No such command 'fly'" in ran.stderr


def test_the_installed_entry_points_are_up_to_date():
    """An editable installation keeps its original entry points."""
    files = (tomllib.loads(path.read_text()) for path in ROOT.glob("packages/*/pyproject.toml"))
    # The compiled form is not installed by default, and has no entry points.
    projects = [found["project"] for found in files if "project" in found]
    declared = {name for one in projects for name in one.get("entry-points", {}).get(ENTRY_POINT_GROUP, ())}
    listed = f"sorted(point.name for point in entry_points(group={ENTRY_POINT_GROUP!r}))"
    script = f"from importlib.metadata import entry_points; print({listed})"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert found.strip() == str(sorted(declared)), "install again: make .venv/.installed"


@pytest.mark.parametrize("args", [("explain", "--help"), ("run", "--help")])
def test_the_scheduler_s_own_commands_do_not_import_the_embedded_cluster(args):
    script = (
        "import sys; from stowplan.app.cli.main import cli\n"
        f"try: cli({list(args)!r}, prog_name='stowplan')\n"
        "finally: print(sorted(name for name in sys.modules if name.startswith('stowplan_cluster')))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[-1] == "[]"


def test_commands_of_distributions_that_are_not_installed_say_which(monkeypatch):
    ours = {point.name: point.dist.name for point in contributed_commands.entry_points(group=ENTRY_POINT_GROUP)}
    monkeypatch.setattr(contributed_commands, "entry_points", lambda group: ())
    for command, distribution in ours.items():
        result = CliRunner().invoke(cli, [command], prog_name="stowplan")
        assert result.exit_code == 2
        # Not by its name alone: no index has it, and anyone may claim the name there.
        assert f"`stowplan {command}` is in {distribution}, which is not installed: pip install ./" in result.stderr
