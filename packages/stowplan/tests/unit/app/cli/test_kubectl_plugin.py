"""`kubectl stowplan`: its help names calls of kubectl, and its completion has the form that kubectl reads."""

import json
import re

import click
import pytest
from click.testing import CliRunner

from stowplan.app.cli.kubectl_plugin import choices, cli
from stowplan.app.cli.main import cli as stowplan
from stowplan.testing import a_node

COMMANDS = cli.list_commands(click.Context(cli))


def said(*words):
    result = CliRunner().invoke(cli, words, prog_name="kubectl stowplan")
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_calls_of_kubectl(command):
    text = said(command, "--help")
    assert text.startswith(f"Usage: kubectl stowplan {command} ")
    assert re.findall(rf"(?<!kubectl )stowplan {command}\b", text) == []
    # The command is shared with `stowplan`, whose help stays as it is.
    assert "kubectl stowplan" not in CliRunner().invoke(stowplan, [command, "--help"], prog_name="stowplan").output


def test_what_schedules_is_not_there():
    assert not {"run", "up", "simulate", "config"} & set(COMMANDS)


def test_help_and_version_are_words_too():
    assert said("help", "fit") == said("fit", "--help")
    assert said("version").startswith("kubectl stowplan ")


def test_choices_end_with_a_directive():
    assert [*choices([], "expl")] == ["explain\tWhy a pod gets its node, or none.", ":4"]
    assert [*choices(["explain", "-f"], "x")] == [":0"]
    assert [*choices(["no-such-command"], "")][-1] == ":4"


def test_names_are_choices(tmp_path):
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [a_node("n1").obj(), a_node("n2").obj()]}))
    assert [*choices(["drain", "-f", str(path)], "n")] == ["n1", "n2", ":4"]
