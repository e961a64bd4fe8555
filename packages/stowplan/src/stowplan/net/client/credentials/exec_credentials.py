"""Exec credential plugins (client.authentication.k8s.io/v1 and v1beta1).

The plugin runs when its credentials are first needed, when they have expired and when the server rejected them. There
is one run at a time: concurrent callers wait for it and share its result, including a failure, so that a plugin that
takes a minute to fail does not fail for each of them in turn. It runs as a separate process and never blocks the event
loop; on a timeout it is killed along with its children.

The plugin reads KUBERNETES_EXEC_INFO from its environment and prints an ExecCredential of the same version, which is
validated before it is used. With a terminal the plugin interacts with the user. Its output is never part of an error:
it may contain tokens, and errors are logged.

Upstream: staging/src/k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go, pkg/apis/clientauthentication.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import ssl
import subprocess
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, Any

from stowplan.kube.config.config_documents import parse_document
from stowplan.kube.config.config_errors import ConfigError, os_error_text
from stowplan.net.client.client_errors import ClientConfigError, CredentialsError
from stowplan.net.client.credentials.request_credentials import bearer, is_sendable
from stowplan.net.client.endpoint.file_content import Content
from stowplan.net.client.endpoint.tls import ClientCertificate, load_client_certificate

GROUP = "client.authentication.k8s.io"
API_VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")

_KIND = "ExecCredential"


class ExecAnswerError(ValueError):
    """An invalid plugin response; `str()` says why."""


@dataclass(frozen=True, kw_only=True)
class ExecCluster:
    """The cluster information for a plugin with `provideClusterInfo`."""

    server: str
    tls_server_name: str = ""
    insecure: bool = False
    ca: Content | None = None
    proxy_url: str = field(default="", repr=False)
    disable_compression: bool = False
    #: The cluster's extension named client.authentication.k8s.io/exec.
    config: Any = None


@dataclass(frozen=True, kw_only=True)
class ExecAnswer:
    token: str = field(repr=False)
    certificate: ClientCertificate | None
    #: Seconds since the epoch; None: never.
    expires: float | None


def exec_info(*, api_version: str, interactive: bool, cluster: ExecCluster | None) -> str:
    """The value of KUBERNETES_EXEC_INFO."""
    spec: dict[str, Any] = {"interactive": interactive}
    if cluster is not None:
        spec["cluster"] = _cluster_info(cluster)
    return json.dumps({"kind": _KIND, "apiVersion": api_version, "spec": spec}, separators=(",", ":"))


def _cluster_info(cluster: ExecCluster) -> dict[str, Any]:
    optional = {
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure,
        "certificate-authority-data": base64.b64encode(cluster.ca.read()).decode() if cluster.ca else "",
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
    }
    given = {name: value for name, value in optional.items() if value}
    return {"server": cluster.server, **given, "config": cluster.config}


def parse_answer(output: bytes, *, api_version: str, where: str) -> ExecAnswer:
    """Parse a plugin's output; raises ExecAnswerError."""
    status = _status(_document(output), api_version)
    token, certificate, key = (_text(status, name) for name in ("token", "clientCertificateData", "clientKeyData"))
    if not token and not certificate and not key:
        raise ExecAnswerError("the plugin returned neither status.token nor a client certificate and key")
    if bool(certificate) != bool(key):
        given, missing = ("certificate", "clientKeyData") if certificate else ("key", "clientCertificateData")
        raise ExecAnswerError(f"the plugin returned a client {given} only, status.{missing} is missing")
    if not is_sendable(token):
        raise ExecAnswerError("status.token holds spaces or control characters, no HTTP header can carry it")
    return ExecAnswer(
        token=token,
        certificate=_certificate(certificate, key, where) if certificate else None,
        expires=_expires(status),
    )


def _document(output: bytes) -> dict[str, Any]:
    if not output.strip():
        raise ExecAnswerError("the plugin printed nothing to standard output, expected an ExecCredential")
    try:
        value = parse_document(output.decode()).value
    except UnicodeDecodeError:
        raise ExecAnswerError("the plugin's standard output is not UTF-8 text") from None
    except ConfigError:
        # The parser's message may quote the text, which may be a token.
        raise ExecAnswerError("the plugin's standard output is not JSON, expected an ExecCredential") from None
    if not isinstance(value, dict):
        raise ExecAnswerError("the plugin's standard output is not a JSON object, expected an ExecCredential")
    return value


def _status(document: dict[str, Any], api_version: str) -> dict[str, Any]:
    kind, version, status = document.get("kind"), document.get("apiVersion"), document.get("status")
    if kind != _KIND:
        raise ExecAnswerError(f"the plugin returned another kind than {_KIND}")
    if version != api_version:
        returned = f"plugin returned version {_shown_version(version)}"
        raise ExecAnswerError(f"the exec plugin is configured to use API version {api_version}, {returned}")
    if not isinstance(status, dict):
        raise ExecAnswerError("the plugin did not return a status field")
    return status


def _shown_version(version: object) -> str:
    """Anything but a version is output, which may contain tokens."""
    is_version = isinstance(version, str) and version.startswith(f"{GROUP}/")
    return json.dumps(version)[:100] if is_version else "of another API"


def _text(status: dict[str, Any], name: str) -> str:
    value = status.get(name)
    if value is not None and not isinstance(value, str):
        raise ExecAnswerError(f"status.{name}: expected a string")
    return value or ""


def _certificate(certificate: str, key: str, where: str) -> ClientCertificate:
    pair = ClientCertificate(certificate=certificate.encode(), key=key.encode(), where=f"{where}: status")
    try:
        load_client_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), pair)
    except ClientConfigError as error:
        raise ExecAnswerError(str(error).removeprefix(f"{where}: ")) from None
    return pair


def _expires(status: dict[str, Any]) -> float | None:
    text = _text(status, "expirationTimestamp")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ExecAnswerError("status.expirationTimestamp: expected a time like 2030-01-02T15:04:05Z")
    return moment.timestamp()


#: Timeout in seconds; longer if the plugin is interactive.
TIMEOUT = 60.0
INTERACTIVE_TIMEOUT = 300.0


@dataclass(frozen=True, kw_only=True)
class ExecPlugin:
    """The plugin in a kubeconfig's user entry."""

    #: A name in PATH, or a path.
    command: str
    api_version: str
    #: Never, IfAvailable or Always.
    interactive_mode: str
    #: The file and the user entry, for messages.
    where: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    install_hint: str = ""
    #: Set if the plugin requests it.
    cluster: ExecCluster | None = None


class ExecCredentials:
    """The authorization and the client certificate that a plugin returned last."""

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        environ: Mapping[str, str],
        wall_clock: Callable[[], float],
        is_terminal: Callable[[], bool],
        timeout: float | None = None,
    ) -> None:
        self._plugin = plugin
        self._environ = environ
        self._wall_clock = wall_clock
        self._is_terminal = is_terminal
        self._timeout = timeout
        #: The current run, shared by all callers; its result is that of `_run`.
        self._running: asyncio.Task[ExecAnswer | str] | None = None
        self._answer: ExecAnswer | None = None
        #: Kept while the plugin runs again: older connections are still open.
        self._certificate: ClientCertificate | None = None

    def client_certificate(self) -> ClientCertificate | None:
        return self._certificate

    async def authorization(self) -> str | None:
        answer = self._answer
        if answer is None or self._expired(answer):
            answer = await self._renewed()
        return _authorization(answer)

    async def refused(self, used: str | None) -> bool:
        answer = self._answer
        if answer is None or _authorization(answer) != used:
            return True
        renewed = await self._renewed()
        return (renewed.token, renewed.certificate) != (answer.token, answer.certificate)

    def _expired(self, answer: ExecAnswer) -> bool:
        return answer.expires is not None and self._wall_clock() > answer.expires

    async def _renewed(self) -> ExecAnswer:
        """Run the plugin, or join the current run.

        A cancelled caller leaves the run active: a slow plugin would never finish for callers with short timeouts, such
        as a leader that renews its lease.
        """
        if self._running is None:
            self._answer = None
            self._running = asyncio.create_task(self._run(), name="exec plugin")
        # Not `_answer`: once this run has ended, the first caller to wake may start another one.
        outcome = await asyncio.shield(self._running)
        if isinstance(outcome, str):
            raise CredentialsError(outcome)
        return outcome

    async def _run(self) -> ExecAnswer | str:
        """The plugin's answer, or the error as text: there may be no waiter left to raise it in."""
        try:
            answer = await self._ask()
        except (CredentialsError, ClientConfigError) as error:
            return str(error)
        except ExecAnswerError as error:
            return f"{self._plugin.where}: exec plugin {self._plugin.command}: {error}"
        finally:
            self._running = None
        self._answer = answer
        self._certificate = answer.certificate
        return answer

    async def _ask(self) -> ExecAnswer:
        plugin, interactive = self._plugin, self._interactive()
        info = exec_info(api_version=plugin.api_version, interactive=interactive, cluster=plugin.cluster)
        output = await self._output(self._executable(), info, interactive=interactive)
        return parse_answer(output, api_version=plugin.api_version, where=plugin.where)

    def _interactive(self) -> bool:
        terminal = self._plugin.interactive_mode != "Never" and self._is_terminal()
        if self._plugin.interactive_mode == "Always" and not terminal:
            raise CredentialsError(
                f"{self._plugin.where}: exec plugin cannot support interactive mode: standard input is not a terminal, "
                f"and {self._plugin.command} has interactiveMode Always; run this in a terminal or use a plugin that "
                "needs no answers"
            )
        return terminal

    def _executable(self) -> str:
        command = self._plugin.command
        path = shutil.which(command, path=self._environ.get("PATH", os.defpath))
        # Parity: a relative entry in PATH is unsafe.
        if path is None or not os.path.isabs(path):
            hint = f"\n\n{printable(self._plugin.install_hint)}" if self._plugin.install_hint else ""
            raise CredentialsError(
                f"{self._plugin.where}: exec: executable {command} not found: this credential plugin has to be "
                f"installed where PATH finds it{hint}"
            )
        return path

    async def _output(self, executable: str, info: str, *, interactive: bool) -> bytes:
        try:
            # Not asyncio's: if cancelled while it starts a process, it kills that one but not its children.
            process = subprocess.Popen(  # noqa: ASYNC220 - asyncio starts its processes the same way
                [executable, *self._plugin.args],
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                # It may contain tokens, and errors are logged: only shown to an interactive user.
                stderr=None if interactive else subprocess.DEVNULL,
                env={**self._environ, **self._plugin.env, "KUBERNETES_EXEC_INFO": info},
                # Without a terminal, the whole process group can be killed; with one, the process has to stay in ours.
                start_new_session=not interactive,
            )
        except (OSError, ValueError) as error:
            why = os_error_text("exec", executable, error) if isinstance(error, OSError) else str(error)
            raise CredentialsError(f"{self._plugin.where}: {why}") from None
        stdout = await self._finished(process, interactive=interactive)
        if process.returncode:
            raise CredentialsError(
                f"{self._plugin.where}: exec: executable {self._plugin.command} failed with exit code "
                f"{process.returncode}; its output is not shown, as it may contain secrets: run it yourself to see why"
            )
        return stdout

    async def _finished(self, process: subprocess.Popen[bytes], *, interactive: bool) -> bytes:
        seconds = self._timeout if self._timeout is not None else INTERACTIVE_TIMEOUT if interactive else TIMEOUT
        try:
            async with asyncio.timeout(seconds):
                stdout = await _all_of(process.stdout)
                await _ended(process)
        except TimeoutError:
            raise CredentialsError(
                f"{self._plugin.where}: exec plugin {self._plugin.command} did not finish within {seconds:g} seconds "
                "and was killed"
            ) from None
        finally:
            if process.poll() is None:
                await _kill(process, group=not interactive)
        return stdout


def _authorization(answer: ExecAnswer) -> str | None:
    return bearer(answer.token) if answer.token else None


async def _all_of(pipe: IO[bytes] | None) -> bytes:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        return await reader.read()
    finally:
        transport.close()


async def _ended(process: subprocess.Popen[bytes]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, process.wait)


async def _kill(process: subprocess.Popen[bytes], *, group: bool) -> None:
    with suppress(ProcessLookupError):
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    await _ended(process)


def printable(text: str) -> str:
    """Escape control characters, so that foreign text cannot control the user's terminal."""
    return "".join(
        char if char in "\t\n\v\f\r" or unicodedata.category(char)[0] in "LMNPSZ" else f"U+{ord(char):04X}"
        for char in text
    )
