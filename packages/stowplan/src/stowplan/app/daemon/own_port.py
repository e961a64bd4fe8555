"""How `stowplan run` answers questions: stories, queue and verdicts.

It always listens on the socket for this machine's user (`local_socket`), and with --port on a port: the same pages and
access control as kube-scheduler's secure port (`secure_port`), with authentication and authorization delegated to the
API server. By default the port listens on the loopback interface, and only its health is public. The only flags are for
the address; delegated requests use the scheduler's own credentials.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stowplan import __version__
from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.event_loop import run_in_background
from stowplan.app.command_line.flags.gates import gates_of
from stowplan.app.daemon.local_socket import answering_on_socket
from stowplan.app.daemon.web_page import SchedulerPage
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.client.http.user_agent import user_agent
from stowplan.net.client.http_api import HttpApi
from stowplan.net.serving.delegation import (
    CLIENT_LIMITS,
    CLIENT_SETTINGS,
    AuthenticationOptions,
    AuthorizationOptions,
    DelegationError,
    delegated,
)
from stowplan.net.serving.requests.health import HealthChecks
from stowplan.net.serving.secure_server import Listener, SecureServer, ServingSettings
from stowplan.net.serving.serving_error import ServingError

if TYPE_CHECKING:
    from stowplan.app.daemon.process import Job
    from stowplan.drivers.live.scheduler import Scheduler


class OwnPort(PlainStruct, frozen=True, kw_only=True):
    #: 0: any free port.
    port: int
    bind_address: str = "127.0.0.1"
    #: Where the generated certificate is stored, so that clients can trust it; empty: nowhere.
    certificate_directory: str = ""

    @property
    def certificate_authority(self) -> str:
        """The CA file for clients; "" without one."""
        folder = self.certificate_directory
        return str(Path(folder, "kube-scheduler.crt")) if folder else ""


@asynccontextmanager
async def answering(
    own: OwnPort | None, job: Job, scheduler: Scheduler, *, report: Callable[[str], None]
) -> AsyncIterator[list[str]]:
    """Answer questions within the context, on the port and on the socket for this machine's user; yields how to ask.

    Raises InputError.
    """
    page = SchedulerPage(
        scheduler, title=job.connection.server, plugins=job.registry.declarations, features=job.features
    )
    async with AsyncExitStack() as stack:
        lines = []
        if await stack.enter_async_context(answering_on_socket(job.connection, page.pages(), report=report)):
            lines.append("ask it: stowplan explain pod NAME (its queue: stowplan explain --from-scheduler auto)")
        if own is not None:
            url = await stack.enter_async_context(_on_its_port(own, job, scheduler, page))
            trust = own.certificate_authority
            option = f"--certificate-authority {trust}" if trust else "--insecure-skip-tls-verify"
            lines.append(f"ask it: stowplan explain --from-scheduler {url} {option} pod NAME")
        # Closed first: streams of the page end with it.
        await stack.enter_async_context(page.followed())
        yield lines


@asynccontextmanager
async def _on_its_port(own: OwnPort, job: Job, scheduler: Scheduler, page: SchedulerPage) -> AsyncIterator[str]:
    settings = ServingSettings(
        bind_address=own.bind_address, port=own.port, certificate_directory=own.certificate_directory
    )
    async with AsyncExitStack() as stack:
        try:
            listener = Listener(settings, wall_clock=REAL_TIMES.wall_clock)
            listener.open()
            stack.callback(listener.close)
            agent = user_agent(command=job.command, version=__version__, purpose="port")
            api = await stack.enter_async_context(
                HttpApi.open(job.connection, client_settings=CLIENT_SETTINGS, agent=agent, limits=CLIENT_LIMITS)
            )
            delegation = await delegated(
                AuthenticationOptions(),
                AuthorizationOptions(),
                authentication_api=api,
                authorization_api=api,
                # Gates that affect authentication; those of a job affect scheduling.
                gate=gates_of(()).features.enabled,
                times=REAL_TIMES,
            )
        except (ServingError, DelegationError) as error:
            raise InputError(f"--port {own.port}: {error}") from error
        stack.push_async_callback(delegation.close)
        await stack.enter_async_context(run_in_background(delegation.run()))
        ready = {"sched-handler-sync": lambda: None if scheduler.synced.is_set() else "the cluster is not read yet"}
        server = SecureServer(
            settings,
            pages={
                **HealthChecks("healthz", {}).pages,
                **HealthChecks("livez", {}).pages,
                **HealthChecks("readyz", ready).pages,
                **page.pages(),
            },
            authenticator=delegation.authenticator,
            authorizer=delegation.authorizer,
            listener=listener,
        )
        await server.start()
        stack.push_async_callback(server.stop)
        yield f"https://{own.bind_address}:{server.port}"
