"""Options that select a live cluster, and the connection that they lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stowplan.cli.shell_completion import complete_context, complete_file
from stowplan.command_line.errors import InputError

if TYPE_CHECKING:
    from stowplan.client.connection import Connection
    from stowplan.config import Configuration

KUBECONFIG = click.option(
    "--kubeconfig",
    metavar="FILE",
    shell_complete=complete_file,
    help="Kubeconfig of the live cluster. Default: found as kubectl finds it.",
)
CONTEXT = click.option(
    "--context",
    metavar="NAME",
    shell_complete=complete_context,
    help="Context of the kubeconfig. Default: the current one.",
)


def connection_of(configuration: Configuration, kubeconfig: str | None, context: str | None) -> Connection:
    """The connection according to flags, configuration and environment; raises InputError."""
    # The HTTP client is slow to import.
    from stowplan.client.connection import ClientConfigError, connect_from_flags

    try:
        return connect_from_flags(
            kubeconfig=kubeconfig or configuration.client_connection.kubeconfig or None, context=context
        )
    except ClientConfigError as error:
        raise InputError(str(error)) from error
