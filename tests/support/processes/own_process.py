"""The `stowplan` command in this process."""

import json
from dataclasses import dataclass

from click.testing import CliRunner

from stowplan.app.cli.main import cli


@dataclass
class Ran:
    code: int
    out: str
    err: str


def run_here(*args, stdin=None):
    """`run_here("explain", "-f", "-", stdin=...)`; an object is passed as JSON."""
    data = stdin if stdin is None or isinstance(stdin, str | bytes) else json.dumps(stdin)
    result = CliRunner().invoke(cli, list(args), input=data, prog_name="stowplan")
    assert "Traceback" not in result.output
    assert "\x1b" not in result.stdout
    return Ran(result.exit_code, result.stdout, result.stderr)
