"""Files on a command line: names that the shell completes, looked at when they are read."""

from __future__ import annotations

import click

FILE = click.Path()
DIRECTORY = click.Path(file_okay=False)
