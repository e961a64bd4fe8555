"""Run the command in this process: `run("explain", "-f", "-", stdin=...)`."""

import json
from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from stowplan.cli.main import cli


@dataclass
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def run():
    def invoke(*args, stdin=None):
        data = stdin if stdin is None or isinstance(stdin, str | bytes) else json.dumps(stdin)
        result = CliRunner().invoke(cli, list(args), input=data, prog_name="stowplan")
        assert "Traceback" not in result.output
        assert "\x1b" not in result.stdout
        return Ran(result.exit_code, result.stdout, result.stderr)

    return invoke


@pytest.fixture
def files(tmp_path):
    """Write objects to a file and get its path."""

    def write(*objects, name="cluster.json"):
        path = tmp_path / name
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        return str(path)

    return write
