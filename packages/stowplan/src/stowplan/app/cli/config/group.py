"""The `stowplan config` command group."""

from __future__ import annotations

import click

from stowplan.app.cli.config.convert import convert
from stowplan.app.cli.config.defaults import defaults
from stowplan.app.cli.config.diff import diff
from stowplan.app.cli.config.explain import explain
from stowplan.app.cli.config.schema import schema
from stowplan.app.cli.config.validate import validate
from stowplan.app.cli.config.view import view


@click.group("config", short_help="Show, check and convert scheduler configurations.")
def config() -> None:
    """Show, check and convert scheduler configurations: KubeSchedulerConfiguration of every version, and policies.

    Files are YAML or JSON, FILE may be - for stdin. No cluster is contacted.

    \b
    Examples:
      stowplan config view scheduler.yaml
      stowplan config validate scheduler.yaml other.yaml
      stowplan config convert policy.json > scheduler.yaml
      stowplan config diff old.yaml scheduler.yaml
      stowplan config explain profiles.plugins.score
    """


for command in (view, validate, convert, diff, defaults, explain, schema):
    config.add_command(command)
