"""Object names for shell completion, from files or a live cluster.

Completion must be fast, and most of its time is start-up: one small request is made with what Python has, as the HTTP
client of the other commands takes longer to import than to answer. Names that are not available are not offered, and
errors are not shown.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from http.client import HTTPConnection, HTTPException
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import msgspec

from stowplan import __version__
from stowplan.app.sources.object_references import collections_of
from stowplan.kube.structs import PlainStruct
from stowplan.net.client.connection import ClientConfigError, Connection, CredentialsError
from stowplan.net.client.credentials.kubeconfig import kubeconfig_paths, load_kubeconfig, load_kubeconfigs
from stowplan.net.client.http.user_agent import user_agent

if TYPE_CHECKING:
    from stowplan.net.client.cluster_flags import ClusterFlags

#: How long a cluster has to answer: with the start-up, half a second.
SECONDS = 0.3
#: Maximum number of names that are asked for.
_MOST = 500
#: Servers that do not know the first form return whole objects.
_ACCEPT = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_STDIN = "-"


class Named(PlainStruct, frozen=True):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Object(PlainStruct, frozen=True):
    metadata: Named = Named()


class _Listing(PlainStruct, frozen=True):
    items: list[_Object] = []  # noqa: RUF012 - msgspec copies it


class Names(PlainStruct, frozen=True):
    """Objects, and the namespace whose objects are named without it."""

    objects: list[Named]
    namespace: str = "default"

    def as_arguments(self) -> list[str]:
        return sorted(
            f"{one.namespace}/{one.name}" if one.namespace not in ("", self.namespace) else one.name
            for one in self.objects
        )


def names_in_files(kind: str, files: Sequence[str], *, recursive: bool, namespace: str | None) -> Names:
    """The objects of a kind; for namespaces, also those that other objects name."""
    from stowplan.kube.api.manifest_files import LoadError, load_manifests

    try:
        loaded = load_manifests([file for file in files if file != _STDIN], recursive=recursive)
        raw = [msgspec.convert(obj, _Object).metadata for _, obj in loaded if obj["kind"] == kind]
        if kind == "Namespace":
            others = {obj["metadata"].get("namespace") or "" for _, obj in loaded} - {one.name for one in raw}
            raw += (Named(name=name) for name in others if isinstance(name, str) and name)
    except (LoadError, msgspec.ValidationError):
        return Names([])
    mine = [one for one in raw if namespace is None or one.namespace in ("", namespace)]
    return Names(mine, namespace or "default")


def names_in_cluster(kind: str, live: ClusterFlags, *, namespace: str | None, within: str | None = None) -> Names:
    """`within`: the only namespace that is listed, if its objects are named with it all the same."""
    found: list[Names] = []

    def look() -> None:
        with suppress(ClientConfigError, CredentialsError, OSError, HTTPException, msgspec.MsgspecError):
            connection = live.connect()
            listings = (_listed(connection, path) for path in collections_of(kind, namespace or within))
            listing = next((listing for listing in listings if listing is not None), _Listing())
            found.append(Names([obj.metadata for obj in listing.items], namespace or connection.namespace))

    # Nothing else limits the time of everything: a name server, a handshake, a plugin for credentials.
    looking = Thread(target=look, daemon=True)
    looking.start()
    looking.join(SECONDS)
    return found[0] if found else Names([])


def _listed(connection: Connection, path: str) -> _Listing | None:
    """None if the server refuses, as for a version that it does not serve."""
    where = urlsplit(connection.server)
    host = where.hostname or ""
    port = where.port or (80 if connection.tls is None else 443)
    credentials = asyncio.run(connection.credentials.headers())
    request = HTTPConnection(host, port)
    with ExitStack() as open_sockets:
        request.sock = open_sockets.enter_context(socket.create_connection((host, port), timeout=SECONDS))
        if connection.tls is not None:
            name = connection.tls.server_name or host
            wrapped = connection.tls.context().wrap_socket(request.sock, server_hostname=name)
            request.sock = open_sockets.enter_context(wrapped)
        request.putrequest("GET", f"{where.path}{path}?{urlencode({'limit': _MOST})}")
        request.putheader("Accept", _ACCEPT)
        request.putheader("User-Agent", user_agent(command="stowplan", version=__version__, purpose="completion"))
        # A name may occur several times.
        for header, value in credentials.items():
            request.putheader(header, value)
        request.endheaders()
        answer = request.getresponse()
        return msgspec.json.decode(answer.read(), type=_Listing) if answer.status == 200 else None


def contexts(kubeconfig: str | None, environ: Mapping[str, Any]) -> list[str]:
    try:
        found = load_kubeconfig(kubeconfig) if kubeconfig else load_kubeconfigs(kubeconfig_paths(environ))
    except ClientConfigError:
        return []
    return sorted(found.contexts)
