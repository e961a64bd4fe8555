"""`stowplan config schema`: the JSON schema of a configuration, for editors."""

from __future__ import annotations

import json

import click

from stowplan.app.cli.config.config_options import known_plugins
from stowplan.app.command_line.plugin_option import PLUGINS
from stowplan.kube.config.reports.json_schema import json_schema


@click.command(short_help="Write the JSON schema of v1, for editors.")
@PLUGINS
def schema(*, plugins: tuple[str, ...]) -> None:
    """Write the JSON schema (draft-07) of KubeSchedulerConfiguration v1. Editors complete and check fields by it.

    \b
    Example, for editors with the YAML language server:
      stowplan config schema > scheduler.schema.json
      # yaml-language-server: $schema=scheduler.schema.json   (first line of the configuration)
    """
    click.echo(json.dumps(json_schema(known_plugins(plugins)), indent=2, ensure_ascii=False))
