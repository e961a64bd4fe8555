"""An HttpApi connected to a test server, with virtual time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from stowplan.kube.config import ClientConnection
from stowplan.net.client.connection import Connection
from stowplan.net.client.credentials.request_credentials import UserCredentials
from stowplan.net.client.http.transport import Limits
from stowplan.net.client.http.user_agent import user_agent
from stowplan.net.client.http_api import HttpApi

#: 2027-07-02, in seconds since the epoch.
NOW = 1_815_000_000.0
AGENT = user_agent(command="stowplan", version="0.1.0", purpose="test")
UNLIMITED = ClientConnection(qps=-1)
#: For tests of a response that never comes.
SHORT = Limits(connect=0.5, silence=0.05)


class VirtualTime:
    """A clock that advances only by sleeping; every random number is the same."""

    def __init__(self, chance=0.0):
        self.now = 0.0
        self.slept: list[float] = []
        self.chance = chance
        #: Called during each sleep.
        self.meanwhile = lambda: asyncio.sleep(0)

    def clock(self):
        return self.now

    def wall_clock(self):
        return NOW + self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        await self.meanwhile()

    def random(self):
        return self.chance


def a_connection(url, *, credentials=None, tls=None, **options):
    return Connection(server=url, namespace="default", credentials=credentials or UserCredentials(), tls=tls, **options)


@asynccontextmanager
async def an_api(server, *, time=None, limits=None, settings=UNLIMITED, watch_silence=5.0, **connection):
    """`server` is a URL, or an object with a `url`."""
    url = server if isinstance(server, str) else server.url
    async with HttpApi.open(
        a_connection(url, **connection),
        client_settings=settings,
        agent=AGENT,
        times=(time or VirtualTime()),
        limits=limits,
        watch_silence=watch_silence,
    ) as api:
        yield api


def a_pod(name="web-0", *, namespace="default", uid="", version="1", node="", **metadata):
    spec = {"nodeName": node} if node else {}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"{name}-uid",
            "resourceVersion": version,
            **metadata,
        },
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def a_pod_list(*pods, version="100", continue_="", kind="PodList"):
    metadata = {"resourceVersion": version, **({"continue": continue_} if continue_ else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "items": list(pods)}
