"""Options that select a live cluster, for commands that follow one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.command_line.errors import InputError

if TYPE_CHECKING:
    from stowplan.client.connection import Connection
    from stowplan.config import Configuration


def connection_of(configuration: Configuration, kubeconfig: str | None, context: str | None) -> Connection:
    """As flags, the configuration and the environment say; raise InputError."""
    # What talks HTTP takes a while to import.
    from stowplan.client.connection import ClientConfigError, connect_from_flags

    try:
        return connect_from_flags(
            kubeconfig=kubeconfig or configuration.client_connection.kubeconfig or None, context=context
        )
    except ClientConfigError as error:
        raise InputError(str(error)) from error
