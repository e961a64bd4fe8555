"""The socket on which a scheduler answers the user who runs it, so that `stowplan explain` finds it by itself.

Where it is, and why no credentials are needed: `client.local_sockets`. A scheduler without a place for a socket works
all the same; containers and system services usually have none.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from stowplan.net.client.connection import Connection
from stowplan.net.client.local_sockets import LocalSocketError, listening, private_folder
from stowplan.net.serving.loopback import served_on_socket
from stowplan.net.serving.requests.messages import Page


def has_place_for_socket() -> bool:
    """Whether this system has a place for the socket."""
    return private_folder(os.environ) is not None


@asynccontextmanager
async def answering_on_socket(
    connection: Connection, pages: Mapping[str, Page], *, report: Callable[[str], None]
) -> AsyncIterator[bool]:
    """Answer on the socket within the context; yields whether there is one, and reports why not if there should be."""
    async with AsyncExitStack() as stack:
        opened = None
        try:
            opened = stack.enter_context(listening(connection, os.environ))
        except LocalSocketError as error:
            report(f"stowplan explain does not find this scheduler by itself: {error}")
        if opened is not None:
            await stack.enter_async_context(served_on_socket(pages, opened))
        yield opened is not None
