"""`--from-scheduler`: query a running scheduler, over its secure port or its socket on this machine.

On a socket (`client.local_sockets`) there are no credentials. On a port the user is the kubeconfig's, or that of a
token file; the scheduler asks the cluster whether that user may access the path. The trusted CA is separate from the
kubeconfig: a scheduler's certificate is seldom signed by the cluster's CA.

Imported on use: the HTTP client is slow to import.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from stowplan import __version__
from stowplan.app.command_line.error_reporting import InputError
from stowplan.ask.explain.text.tables import Block, PageError, page_from_json
from stowplan.kube.api.api_errors import ApiError, Forbidden, NotFound, Unauthorized
from stowplan.kube.api.port import Unreachable
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.connection import ClientConfigError, Connection, CredentialsError, request_timeout
from stowplan.net.client.credentials.request_credentials import TokenFile, UserCredentials
from stowplan.net.client.endpoint.file_content import FileContent
from stowplan.net.client.endpoint.proxies import proxy_from_environment, server_url
from stowplan.net.client.endpoint.tls import TlsSettings
from stowplan.net.client.http.lanes import Lanes, RateLimitedLanes
from stowplan.net.client.http.responses import Subject
from stowplan.net.client.http.transport import Limits, Request, Transport
from stowplan.net.client.http.user_agent import user_agent
from stowplan.net.client.local_sockets import LocalSocketError, check_socket, sockets_of, why_no_sockets
from stowplan.scheduler.inspection import records
from stowplan.ui.source_records import ConfigurationRecord

#: Why a scheduler that may be running is not queried.
_UNAVAILABLE = (InputError, ClientConfigError, CredentialsError)

#: A user is waiting.
_LIMITS = Limits(connect=5.0, silence=60.0, tries=3, connection_tries=1, trying=15.0)
#: Maximum number of entries of a scheduler's lists.
_MOST = "1000"
#: The URL that represents a discovered scheduler, and the prefix of URLs of local sockets.
AUTO, _SOCKET = "auto", "unix:"
_UNTRUSTED = "certificate is not trusted"


class SchedulerEndpoint(PlainStruct, frozen=True, kw_only=True):
    """The scheduler to query, and credentials."""

    #: Of its secure port; `unix:PATH` of its socket; or `auto`.
    url: str
    live: ClusterFlags = ClusterFlags()
    token_file: str | None = None
    certificate_authority: str = ""
    insecure: bool = False
    #: Whether it should call its extenders.
    extenders: bool = True

    @classmethod
    def of(
        cls, url: str, live: ClusterFlags, token_file: str | None = None, *, extenders: bool = True
    ) -> SchedulerEndpoint:
        """With --from-scheduler, the flags of trust are about the scheduler: its cluster is read as the kubeconfig
        says.
        """
        return cls(
            url=url,
            live=replace(live, certificate_authority="", insecure_skip_tls_verify=False),
            token_file=token_file,
            certificate_authority=live.certificate_authority,
            insecure=live.insecure_skip_tls_verify,
            extenders=extenders,
        )


async def fetch_pod(endpoint: SchedulerEndpoint, pod: str, *, page: str = "") -> dict[str, Any]:
    """The document about a pod, `name` or `namespace/name`; raises InputError."""
    query = {"suggestions": "true"} | ({} if endpoint.extenders else {"extenders": "false"})
    refused: InputError | None = None
    for connection in await _connections(endpoint):
        key = pod if "/" in pod else f"{connection.namespace}/{pod}"
        try:
            return await _fetch(connection, f"/stowplan/explain/{key}", page, records.VerdictRecord, **query)
        except InputError as error:
            # Another one may have a profile for it.
            refused = error
    assert refused is not None
    raise refused


async def fetch_node(endpoint: SchedulerEndpoint, name: str, *, page: str = "") -> dict[str, Any]:
    """The document about a node; raises InputError."""
    return await _fetch(await _connection(endpoint), f"/stowplan/nodes/{name}", page, records.NodeRecord)


async def fetch_group(endpoint: SchedulerEndpoint, group: str, *, page: str = "") -> dict[str, Any]:
    """The document about a pod group, `name` or `namespace/name`; raises InputError."""
    connection = await _connection(endpoint)
    key = group if "/" in group else f"{connection.namespace}/{group}"
    return await _fetch(connection, f"/stowplan/podgroups/{key}", page, records.GroupStateRecord, verdict="true")


async def fetch_pending(endpoint: SchedulerEndpoint, *, page: str = "") -> dict[str, Any]:
    """Its queue and last decisions, in one document; raises InputError."""
    connection = await _connection(endpoint)
    pending = await _fetch(connection, "/stowplan/pending", page, records.QueueRecord)
    decisions = await _fetch(connection, "/stowplan/decisions", page, records.DecisionsRecord)
    pages = {"page": [*pending.get("page", ()), {"type": "line"}, *decisions.get("page", ())]} if page else {}
    return pending | decisions | pages


async def fetch_decisions(endpoint: SchedulerEndpoint) -> tuple[ConfigurationRecord, dict[str, str]]:
    """Its configuration, and the nodes of pods that it has not bound yet; raises InputError."""
    connection = await _connection(endpoint)
    configuration = await _fetch(connection, "/stowplan/configuration", "", ConfigurationRecord)
    pending = await _fetch(connection, "/stowplan/pending", "", records.QueueRecord, limit=_MOST)
    return msgspec.convert(configuration, ConfigurationRecord), _on_permit(pending)


def _on_permit(document: Mapping[str, Any]) -> dict[str, str]:
    return {one.pod: one.node for one in msgspec.convert(document, records.QueueRecord).on_permit}


# -- schedulers that need not be named ------------------------------------------------------------------------------


async def known_to_local_scheduler(pod: str, live: ClusterFlags) -> records.SchedulerRecord | None:
    """A pod as known by the first scheduler that is found and knows it."""
    for connection in _local_connections(live):
        with suppress(*_UNAVAILABLE):
            found = await _fetch(connection, f"/stowplan/explain/{pod}", "", records.VerdictRecord, extenders="false")
            return msgspec.convert(found, records.VerdictRecord).scheduler
    return None


async def on_permit_in_local_scheduler(live: ClusterFlags) -> dict[str, str]:
    """Pods that wait on Permit -> their nodes, from all schedulers that are found."""
    nodes: dict[str, str] = {}
    for connection in _local_connections(live):
        with suppress(*_UNAVAILABLE):
            found = await _fetch(connection, "/stowplan/pending", "", records.QueueRecord, limit=_MOST)
            nodes |= _on_permit(found)
    return nodes


def _local_connections(live: ClusterFlags) -> list[Connection]:
    """Where schedulers of the kubeconfig's cluster may be: on this machine's sockets, or, as with `stowplan up`, at the
    API server's address.

    Other API servers refuse the path, which is not an error.
    """
    try:
        user = live.connect()
    except (ClientConfigError, CredentialsError):
        return []
    return [*(_at_socket(path, user.namespace) for path in sockets_of(user, os.environ)), user]


async def _answering(endpoint: SchedulerEndpoint) -> list[Connection]:
    """The schedulers of the kubeconfig's cluster that answer; raises InputError if there are none."""
    try:
        user = endpoint.live.connect()
    except (ClientConfigError, CredentialsError) as error:
        raise InputError(str(error)) from error
    found = []
    for connection in _local_connections(endpoint.live):
        with suppress(*_UNAVAILABLE):
            await _fetch(connection, "/stowplan/pending", "", records.QueueRecord, limit="0")
            found.append(connection)
    if found:
        return found
    reason = why_no_sockets(os.environ)
    if reason:
        raise InputError(
            f"--from-scheduler {AUTO}: {user.server} is not stowplan up, and no scheduler on this machine can be "
            f"found: {reason}; set XDG_RUNTIME_DIR to a private directory, here and for the scheduler, or ask one with "
            "--from-scheduler URL"
        )
    raise InputError(
        f"--from-scheduler {AUTO}: no Stowplan scheduler of {user.server} runs on this machine under this user, "
        "and that server is not stowplan up; --from-scheduler URL asks one elsewhere"
    )


async def _title(connection: Connection) -> str:
    """A scheduler as one of several, for messages."""
    with suppress(*_UNAVAILABLE, msgspec.MsgspecError):
        source = msgspec.json.decode(await _get(connection, "/stowplan/source", {}), type=dict[str, Any])
        return f"--from-scheduler {connection.shown} (schedules for {source.get('schedulerName')})"
    return f"--from-scheduler {connection.shown}"


def _at_socket(path: Path, namespace: str) -> Connection:
    return Connection(
        # The host is for the request's head only.
        server="http://localhost",
        namespace=namespace,
        credentials=UserCredentials(),
        tls=None,
        socket_path=str(path),
    )


async def check_scheduler(endpoint: SchedulerEndpoint) -> None:
    """Raise InputError unless there is a scheduler that lets us read its queue."""
    await _fetch(await _connection(endpoint), "/stowplan/pending", "", records.QueueRecord, limit="0")


def page_of(document: Mapping[str, Any], endpoint: SchedulerEndpoint) -> list[Block]:
    """The requested page; raises InputError."""
    try:
        return page_from_json(document.get("page"))
    except PageError as error:
        raise InputError(_incompatible(endpoint.url, str(error))) from error


async def _connections(endpoint: SchedulerEndpoint) -> list[Connection]:
    """The schedulers to ask: the one that is named, or all that are found; raises InputError."""
    if endpoint.url == AUTO:
        return await _answering(endpoint)
    if endpoint.url.startswith(_SOCKET):
        return [_named_socket(endpoint)]
    return [_named_server(endpoint)]


async def _connection(endpoint: SchedulerEndpoint) -> Connection:
    found = await _connections(endpoint)
    if len(found) > 1:
        titles = "; ".join([await _title(connection) for connection in found])
        raise InputError(f"--from-scheduler {AUTO}: {len(found)} schedulers were found, name one: {titles}")
    return found[0]


def _named_socket(endpoint: SchedulerEndpoint) -> Connection:
    path = Path(endpoint.url.removeprefix(_SOCKET))
    if endpoint.url == _SOCKET:
        raise InputError(f"--from-scheduler {_SOCKET} needs the path of a scheduler's socket, as {_SOCKET}PATH")
    try:
        check_socket(path)
    except LocalSocketError as error:
        raise InputError(f"--from-scheduler {endpoint.url}: {error}") from error
    namespace = "default"
    with suppress(ClientConfigError, CredentialsError):
        namespace = endpoint.live.connect().namespace
    return _at_socket(path, namespace)


def _named_server(endpoint: SchedulerEndpoint) -> Connection:
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
            user = endpoint.live.connect()
            credentials = user.credentials
        return Connection(
            server=server,
            namespace="default" if user is None else user.namespace,
            credentials=credentials,
            tls=_tls(endpoint, credentials, known=user if user is not None and user.server == server else None),
            proxy_url=proxy_from_environment(server, os.environ),
            request_timeout=request_timeout(endpoint.live),
        )
    except (ClientConfigError, CredentialsError) as error:
        hint = "" if endpoint.live.given or endpoint.token_file else "; or give --token-file FILE"
        raise InputError(f"{error}{hint}") from error


def _tls(endpoint: SchedulerEndpoint, credentials: Any, *, known: Connection | None) -> TlsSettings:
    """`known`: a connection to the same address, for a scheduler whose pages are on the API server."""
    if known is not None and known.tls is not None and not (endpoint.certificate_authority or endpoint.insecure):
        return known.tls
    ca = None
    if endpoint.certificate_authority:
        ca = FileContent(endpoint.certificate_authority, where="--certificate-authority", clock=time.monotonic)
    if endpoint.insecure:
        click.echo(
            f"warning: nothing proves that {endpoint.url} is your scheduler; it is sent your credentials", err=True
        )
    tls = TlsSettings(ca=ca, insecure=endpoint.insecure, certificate=credentials)
    # Report unreadable files now.
    tls.context()
    return tls


async def _fetch(
    connection: Connection, path: str, page: str, record: type[records.Record], **query: str
) -> dict[str, Any]:
    """The response document, validated as one of these records."""
    url = f"{connection.shown}{path}"
    try:
        body = await _get(connection, path, {"page": page, **query} if page else query)
        document = msgspec.json.decode(body, type=dict[str, Any])
        version = document.get("schemaVersion")
        if version is None:
            raise InputError(_incompatible(url, "its documents have no schemaVersion"))
        if version != records.SCHEMA_VERSION:
            why = f"their schemaVersion is {version}, and this command reads {records.SCHEMA_VERSION}"
            raise InputError(_incompatible(url, why))
        msgspec.convert(document, record)
    except msgspec.MsgspecError as error:
        raise InputError(_incompatible(url, str(error))) from error
    return document


def _incompatible(url: str, why: str) -> str:
    return f"{url}: the server is not a compatible Stowplan scheduler: {why}"


async def transport_to(endpoint: SchedulerEndpoint, *, purpose: str) -> Transport:
    """A transport for several requests, within a running event loop; must be closed. Raises InputError."""
    return _transport(await _connection(endpoint), purpose)


def _transport(connection: Connection, purpose: str) -> Transport:
    times = REAL_TIMES
    turns = RateLimitedLanes(Lanes(qps=-1, burst=1, now=times.clock()), clock=times.clock, sleep=times.sleep)
    agent = user_agent(command="stowplan", version=__version__, purpose=purpose)
    return Transport(connection, turns=turns, times=times, agent=agent, limits=_LIMITS)


async def _get(connection: Connection, path: str, query: Mapping[str, str]) -> bytes:
    transport = _transport(connection, "explain")
    try:
        subject = Subject("GET")
        answer = await transport.send(Request(method="GET", path=path, subject=subject, query=query))
        if not answer.ok:
            raise _refused(connection.shown, path, transport.error_of(answer, subject))
        return answer.body
    except (ClientConfigError, CredentialsError) as error:
        raise InputError(str(error)) from error
    except Unreachable as error:
        raise InputError(_unreachable(connection.shown, str(error))) from error
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
    why = why.removeprefix(f"{server}: ")
    if server.startswith(_SOCKET):
        hint = "; has that scheduler ended? --from-scheduler auto asks one that runs"
    if _UNTRUSTED in why:
        hint = (
            "; a scheduler that was given no certificate made its own: "
            "--certificate-authority FILE trusts it, --insecure-skip-tls-verify does not look"
        )
    return f"cannot reach the scheduler at {server}: {why}{hint}"
