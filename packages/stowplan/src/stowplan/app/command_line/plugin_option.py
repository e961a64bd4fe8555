"""The --plugin option; `daemon.plugin_registry.registry_with` loads the plugins."""

import click

PLUGINS = click.option(
    "--plugin", "plugins", metavar="MODULE:CLASS", multiple=True, help="Load this plugin class of your own. Repeatable."
)
