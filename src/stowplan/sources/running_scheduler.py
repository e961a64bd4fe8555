"""`--from-scheduler`: query a running scheduler over its secure port.

The user is the kubeconfig's, or that of a token file; the scheduler asks the cluster whether that user may access the
path. The trusted CA is separate from the kubeconfig: a scheduler's certificate is seldom signed by the cluster's CA.

Imported on use: the HTTP client is slow to import.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import msgspec

from stowplan import __version__
from stowplan.api.api_errors import ApiError, Forbidden, NotFound, Unauthorized
from stowplan.api.port import Unreachable
from stowplan.client.connection import ClientConfigError, Connection, CredentialsError, connect_from_flags
from stowplan.client.credentials.request_credentials import TokenFile, UserCredentials
from stowplan.client.endpoint.file_content import FileContent
from stowplan.client.endpoint.proxies import proxy_from_environment
from stowplan.client.endpoint.server_url import server_url
from stowplan.client.endpoint.tls import TlsSettings
from stowplan.client.http.answers import Subject
from stowplan.client.http.lanes import Lanes, Turns
from stowplan.client.http.transport import Limits, Request, Transport
from stowplan.client.http.user_agent import user_agent
from stowplan.command_line.errors import InputError
from stowplan.explain.text.page_json import PageError, page_from_json
from stowplan.inspection.records import (
    SCHEMA_VERSION,
    DecisionsRecord,
    GroupStateRecord,
    NodeRecord,
    QueueRecord,
    Record,
    SchedulerRecord,
    VerdictRecord,
)
from stowplan.timing.times import REAL_TIMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stowplan.explain.text.tables import Block

#: A user is waiting.
_LIMITS = Limits(connect=5.0, silence=60.0, tries=3, connection_tries=1, trying=15.0)
#: Maximum number of entries of a scheduler's lists.
_MOST = "1000"
_UNTRUSTED = "certificate is not trusted"


@dataclass(frozen=True, kw_only=True)
class SchedulerEndpoint:
    """The scheduler to query, and credentials."""

    url: str
    kubeconfig: str | None = None
    context: str | None = None
    token_file: str | None = None
    certificate_authority: str | None = None
    insecure: bool = False
    #: Whether it should call its extenders.
    extenders: bool = True


async def fetch_pod(endpoint: SchedulerEndpoint, pod: str, *, page: str = "") -> dict[str, Any]:
    """The document about a pod, `name` or `namespace/name`; raises InputError."""
    connection = _connection(endpoint)
    key = pod if "/" in pod else f"{connection.namespace}/{pod}"
    query = {"suggestions": "true"} | ({} if endpoint.extenders else {"extenders": "false"})
    return await _fetch(connection, f"/stowplan/explain/{key}", page, VerdictRecord, **query)


async def fetch_node(endpoint: SchedulerEndpoint, name: str, *, page: str = "") -> dict[str, Any]:
    """The document about a node; raises InputError."""
    return await _fetch(_connection(endpoint), f"/stowplan/nodes/{name}", page, NodeRecord)


async def fetch_group(endpoint: SchedulerEndpoint, group: str, *, page: str = "") -> dict[str, Any]:
    """The document about a pod group, `name` or `namespace/name`; raises InputError."""
    connection = _connection(endpoint)
    key = group if "/" in group else f"{connection.namespace}/{group}"
    return await _fetch(connection, f"/stowplan/podgroups/{key}", page, GroupStateRecord, verdict="true")


async def fetch_pending(endpoint: SchedulerEndpoint, *, page: str = "") -> dict[str, Any]:
    """Its queue and last decisions, in one document; raises InputError."""
    connection = _connection(endpoint)
    pending = await _fetch(connection, "/stowplan/pending", page, QueueRecord)
    decisions = await _fetch(connection, "/stowplan/decisions", page, DecisionsRecord)
    pages = {"page": [*pending.get("page", ()), {"type": "line"}, *decisions.get("page", ())]} if page else {}
    return pending | decisions | pages


async def known_to_local_scheduler(pod: str, *, kubeconfig: str | None, context: str | None) -> SchedulerRecord | None:
    """A pod as known by a scheduler at the API server's address, as with `stowplan up`.

    Other API servers refuse the path, which is not an error.
    """
    try:
        connection = connect_from_flags(kubeconfig=kubeconfig, context=context)
        found = await _fetch(connection, f"/stowplan/explain/{pod}", "", VerdictRecord, extenders="false")
    except (InputError, ClientConfigError, CredentialsError):
        return None
    return msgspec.convert(found, VerdictRecord).scheduler


async def on_permit_in_local_scheduler(*, kubeconfig: str | None, context: str | None) -> dict[str, str]:
    """Pods that wait on Permit -> their nodes, from a scheduler at the API server's address."""
    try:
        connection = connect_from_flags(kubeconfig=kubeconfig, context=context)
        found = await _fetch(connection, "/stowplan/pending", "", QueueRecord, limit=_MOST)
    except (InputError, ClientConfigError, CredentialsError):
        return {}
    return {one.pod: one.node for one in msgspec.convert(found, QueueRecord).on_permit}


async def check_scheduler(endpoint: SchedulerEndpoint) -> None:
    """Raise InputError unless there is a scheduler that lets us read its queue."""
    await _fetch(_connection(endpoint), "/stowplan/pending", "", QueueRecord, limit="0")


def page_of(document: Mapping[str, Any], endpoint: SchedulerEndpoint) -> list[Block]:
    """The requested page; raises InputError."""
    try:
        return page_from_json(document.get("page"))
    except PageError as error:
        raise InputError(_incompatible(endpoint.url, str(error))) from error


def _connection(endpoint: SchedulerEndpoint) -> Connection:
    try:
        # Credentials are sent there, so plain HTTP is never the default.
        server = server_url(
            endpoint.url if "://" in endpoint.url else f"https://{endpoint.url}", where="--from-scheduler"
        )
        if not server.startswith("https:"):
            raise InputError(f"--from-scheduler {endpoint.url}: a scheduler's port is HTTPS, as https://10.0.0.7:10259")
        user = None
        if endpoint.token_file is not None:
            token = TokenFile(endpoint.token_file, where="--token-file", clock=time.monotonic).check()
            credentials: Any = UserCredentials(token)
        else:
            user = connect_from_flags(kubeconfig=endpoint.kubeconfig, context=endpoint.context)
            credentials = user.credentials
        return Connection(
            server=server,
            namespace="default" if user is None else user.namespace,
            credentials=credentials,
            tls=_tls(endpoint, credentials, known=user if user is not None and user.server == server else None),
            proxy_url=proxy_from_environment(server, os.environ),
        )
    except (ClientConfigError, CredentialsError) as error:
        hint = "" if endpoint.kubeconfig or endpoint.context or endpoint.token_file else "; or give --token-file FILE"
        raise InputError(f"{error}{hint}") from error


def _tls(endpoint: SchedulerEndpoint, credentials: Any, *, known: Connection | None) -> TlsSettings:
    """`known`: a connection to the same address, for a scheduler whose pages are on the API server."""
    if known is not None and known.tls is not None and not (endpoint.certificate_authority or endpoint.insecure):
        return known.tls
    ca = None
    if endpoint.certificate_authority is not None:
        ca = FileContent(endpoint.certificate_authority, where="--certificate-authority", clock=time.monotonic)
    if endpoint.insecure:
        click.echo(
            f"warning: nothing proves that {endpoint.url} is your scheduler; it is sent your credentials", err=True
        )
    tls = TlsSettings(ca=ca, insecure=endpoint.insecure, certificate=credentials)
    # Report unreadable files now.
    tls.context()
    return tls


async def _fetch(connection: Connection, path: str, page: str, record: type[Record], **query: str) -> dict[str, Any]:
    """The response document, validated as one of these records."""
    url = f"{connection.server}{path}"
    try:
        body = await _get(connection, path, {"page": page, **query} if page else query)
        document = msgspec.json.decode(body, type=dict[str, Any])
        version = document.get("schemaVersion")
        if version is None:
            raise InputError(_incompatible(url, "its documents have no schemaVersion"))
        if version != SCHEMA_VERSION:
            why = f"their schemaVersion is {version}, and this command reads {SCHEMA_VERSION}"
            raise InputError(_incompatible(url, why))
        msgspec.convert(document, record)
    except msgspec.MsgspecError as error:
        raise InputError(_incompatible(url, str(error))) from error
    return document


def _incompatible(url: str, why: str) -> str:
    return f"{url}: the server is not a compatible Stowplan scheduler: {why}"


def transport_to(endpoint: SchedulerEndpoint, *, purpose: str) -> Transport:
    """A transport for several requests, within a running event loop; must be closed. Raises InputError."""
    return _transport(_connection(endpoint), purpose)


def _transport(connection: Connection, purpose: str) -> Transport:
    times = REAL_TIMES
    turns = Turns(Lanes(qps=-1, burst=1, now=times.clock()), clock=times.clock, sleep=times.sleep)
    agent = user_agent(command="stowplan", version=__version__, purpose=purpose)
    return Transport(connection, turns=turns, times=times, agent=agent, limits=_LIMITS)


async def _get(connection: Connection, path: str, query: Mapping[str, str]) -> bytes:
    transport = _transport(connection, "explain")
    try:
        subject = Subject("GET")
        answer = await transport.send(Request(method="GET", path=path, subject=subject, query=query))
        if not answer.ok:
            raise _refused(connection.server, path, transport.error_of(answer, subject))
        return answer.body
    except (ClientConfigError, CredentialsError) as error:
        raise InputError(str(error)) from error
    except Unreachable as error:
        raise InputError(_unreachable(connection.server, str(error))) from error
    finally:
        await transport.close()


def _refused(server: str, path: str, error: ApiError) -> InputError:
    hint = ""
    if isinstance(error, Forbidden):
        hint = f"; whoever asks needs the right to get the nonResourceURL {path.rpartition('/')[0]}/*"
    elif isinstance(error, Unauthorized):
        hint = "; the scheduler does not accept these credentials"
    elif isinstance(error, NotFound) and "page not found" in str(error).lower():
        hint = "; is it a kube-scheduler of Stowplan?"
    return InputError(f"{server} refused: {error}{hint}")


def _unreachable(server: str, why: str) -> str:
    hint = ""
    if _UNTRUSTED in why:
        hint = (
            "; a scheduler that was given no certificate made its own: "
            "--certificate-authority FILE trusts it, --insecure-skip-tls-verify does not look"
        )
    return f"cannot reach the scheduler at {server}: {why}{hint}"
