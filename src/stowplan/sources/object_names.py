"""Object names for shell completion, from files or a live cluster.

Completion must be fast: names that are not available quickly are not offered, and errors are not shown.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from stowplan import __version__
from stowplan.api.load import LoadError, load_files
from stowplan.client.connection import connect_from_flags
from stowplan.client.credentials.kubeconfig import kubeconfig_paths, load_kubeconfig, load_kubeconfigs
from stowplan.client.endpoint.config_error import ClientConfigError, CredentialsError
from stowplan.command_line.event_loop import run
from stowplan.config import ClientConnection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stowplan.api.meta import ApiStruct

_SECONDS = 2.0
_STDIN = "-"


def objects_of(
    kind: type[ApiStruct],
    *,
    files: Sequence[str] = (),
    recursive: bool = False,
    kubeconfig: str | None = None,
    context: str | None = None,
) -> list[Any]:
    """The objects of a kind; empty if they are not available."""
    if files:
        try:
            loaded = load_files([file for file in files if file != _STDIN], recursive=recursive)
            return [obj for obj in loaded.objects if type(obj) is kind]
        except LoadError:
            return []
    return run(_listed(kind, kubeconfig, context))


async def _listed(kind: type[ApiStruct], kubeconfig: str | None, context: str | None) -> list[Any]:
    from stowplan.api.api_errors import ApiError
    from stowplan.api.port import Unreachable
    from stowplan.client.http.user_agent import user_agent
    from stowplan.client.http_api import HttpApi

    agent = user_agent(command="stowplan", version=__version__, purpose="completion")
    try:
        connection = connect_from_flags(kubeconfig=kubeconfig, context=context)
        async with asyncio.timeout(_SECONDS):
            async with HttpApi.open(connection, client_settings=ClientConnection(qps=-1), agent=agent) as api:
                return list((await api.list(kind)).items)
    except (ClientConfigError, CredentialsError, ApiError, Unreachable, TimeoutError):
        return []


def names_of(objects: Iterable[Any]) -> list[str]:
    """As arguments of commands: pods include their namespaces, unless it is the default one."""
    names = []
    for obj in objects:
        metadata = cast("Any", obj).metadata
        if metadata.namespace and metadata.namespace != "default":
            names.append(f"{metadata.namespace}/{metadata.name}")
        else:
            names.append(metadata.name)
    return sorted(names)


def contexts(kubeconfig: str | None, environ: Mapping[str, str]) -> list[str]:
    try:
        found = load_kubeconfig(kubeconfig) if kubeconfig else load_kubeconfigs(kubeconfig_paths(environ))
    except ClientConfigError:
        return []
    return sorted(found.contexts)
