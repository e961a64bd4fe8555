"""The option for plugins of one's own; `daemon.plugin_registry.registry_with` loads them."""

import click

PLUGINS = click.option(
    "--plugin", "plugins", metavar="MODULE:CLASS", multiple=True, help="Plugin of your own. Repeatable."
)
