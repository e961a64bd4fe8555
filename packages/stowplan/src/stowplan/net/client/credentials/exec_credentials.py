"""Exec credential plugins (client.authentication.k8s.io/v1 and v1beta1).

The plugin runs when its credentials are first needed, when they have expired and when the server rejected them. There
is one run at a time: concurrent callers wait for it and share its result, including a failure, so that a plugin that
takes a minute to fail does not fail for each of them in turn. It runs as a separate process and never blocks the event
loop; on a timeout it is killed along with its children.

With a terminal the plugin interacts with the user. Its output is never part of an error: it may contain tokens, and
errors are logged.

Upstream: staging/src/k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from stowplan.kube.config.config_errors import os_error_text
from stowplan.net.client.client_errors import ClientConfigError, CredentialsError
from stowplan.net.client.credentials.exec_protocol import (
    ExecAnswer,
    ExecAnswerError,
    ExecCluster,
    exec_info,
    parse_answer,
)
from stowplan.net.client.credentials.request_credentials import bearer
from stowplan.net.client.endpoint.tls import ClientCertificate

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
