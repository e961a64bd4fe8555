"""`stowplan config defaults`: the complete default configuration."""

from __future__ import annotations

import click

from stowplan.app.cli.config.config_options import known_plugins, plugin_options
from stowplan.app.cli.data_output import output_option, write_data
from stowplan.app.command_line.feature_gates import features_of
from stowplan.kube.config.load import load_document


@click.command(short_help="Write the configuration that applies without a file.")
@plugin_options
@output_option("yaml", "json")
def defaults(*, plugins: tuple[str, ...], gates: tuple[str, ...], output: str) -> None:
    """Write the complete configuration that applies without a file, as kube-scheduler --write-config-to does."""
    loaded = load_document(None, plugins=known_plugins(plugins), features=features_of(gates))
    write_data(loaded.configuration.to_dict(), output)
