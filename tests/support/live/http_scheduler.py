"""A Scheduler in the test's event loop, over HTTP, on an API server process; tests advance the scheduler's time.

The API server is a real process with a clock of its own; the scheduler's clock stands still until `advance`. Everything
that needs no time happens by itself: tests wait for a condition (`until`), or until all changes have been seen and
nothing is in progress (`settle`).
"""

import asyncio
import base64
import inspect
import json
import ssl
import time as real_time
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

import aiohttp
import yaml

from stowplan.app.command_line.event_loop import run_in_background
from stowplan.drivers.live.scheduler import SchedulerSettings
from stowplan.kube.api.types import Pod
from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.kube.timing.times import ManualTime
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.http_api import HttpApi
from stowplan.scheduler.engine.engine import TICK
from support.api.clients import AGENT, UNLIMITED
from support.live.live_scheduler import opened, stopped

PATIENCE = 20.0

PATHS = {
    "pods": "/api/v1/namespaces/{ns}/pods",
    "nodes": "/api/v1/nodes",
    "namespaces": "/api/v1/namespaces",
    "services": "/api/v1/namespaces/{ns}/services",
    "persistentvolumes": "/api/v1/persistentvolumes",
    "persistentvolumeclaims": "/api/v1/namespaces/{ns}/persistentvolumeclaims",
    "replicasets": "/apis/apps/v1/namespaces/{ns}/replicasets",
    "poddisruptionbudgets": "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
    "podgroups": "/apis/scheduling.k8s.io/v1alpha2/namespaces/{ns}/podgroups",
    "podgroups since 1.37": "/apis/scheduling.k8s.io/v1beta1/namespaces/{ns}/podgroups",
    "priorityclasses": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "storageclasses": "/apis/storage.k8s.io/v1/storageclasses",
    "csinodes": "/apis/storage.k8s.io/v1/csinodes",
    "csidrivers": "/apis/storage.k8s.io/v1/csidrivers",
    "csistoragecapacities": "/apis/storage.k8s.io/v1/namespaces/{ns}/csistoragecapacities",
    "volumeattachments": "/apis/storage.k8s.io/v1/volumeattachments",
    "resourceclaims": "/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims",
    "resourceslices": "/apis/resource.k8s.io/v1/resourceslices",
    "deviceclasses": "/apis/resource.k8s.io/v1/deviceclasses",
    "events": "/apis/events.k8s.io/v1/namespaces/{ns}/events",
}
_PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class Refused(AssertionError):
    def __init__(self, code, answer):
        super().__init__(f"{code}: {answer.get('message', answer)}")
        self.code = code


class Objects:
    """What a test does to the cluster, over a separate connection; objects that it creates are deleted at the end."""

    def __init__(self, kubeconfig, namespace):
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        self._session = aiohttp.ClientSession(
            cluster["server"],
            headers={"Authorization": f"Bearer {user['token']}"},
            connector=aiohttp.TCPConnector(ssl=tls),
        )
        self.namespace = namespace
        self._made = {}
        #: Kind -> the newest version that we wrote.
        self.versions = {}
        #: (kind, namespace, name) -> the version as of which the object is complete.
        self.created_versions = {}
        #: UID -> kind of objects that we deleted without learning a version.
        self.deleted = {}

    async def call(self, method, path, body=None, media="application/json", ok=(200, 201, 202)):
        async with self._session.request(
            method, path, data=None if body is None else json.dumps(body), headers={"Content-Type": media}
        ) as response:
            answer = await response.json(content_type=None)
            if response.status not in ok:
                raise Refused(response.status, answer)
            version = answer.get("metadata", {}).get("resourceVersion")
            if version and method != "GET":
                self._note(answer, int(version))
            return answer

    def _note(self, answer, version):
        kind = answer.get("kind", "")
        self.versions[kind] = max(version, self.versions.get(kind, 0))

    def path(self, plural, name="", subresource="", namespace=None):
        path = PATHS[plural].format(ns=namespace or self.namespace)
        return "/".join(part for part in (path, name, subresource) if part)

    async def create(self, plural, obj):
        """Create from a dict; the scheduler sees an object that takes several requests once it is complete."""
        namespace = obj["metadata"].get("namespace") or self.namespace
        key = (obj["kind"], namespace if "{ns}" in PATHS[plural] else "", obj["metadata"].get("name", ""))
        whole = self.created_versions[key] = asyncio.get_running_loop().create_future()
        try:
            made = await self._create(plural, obj, namespace)
        except BaseException:
            whole.set_result(0)
            raise
        whole.set_result(int(made["metadata"]["resourceVersion"]))
        return made

    async def _create(self, plural, obj, namespace):
        """Removes the taint of a real server's new nodes, which no controller does here; writes the status of pods
        separately."""
        path = self.path(plural, namespace=namespace)
        wanted = json.loads(json.dumps(obj))
        if "{ns}" in PATHS[plural]:
            wanted["metadata"]["namespace"] = namespace
        made = await self._post(path, wanted)
        self._made[f"{path}/{made['metadata']['name']}"] = None
        if plural == "nodes":
            taints = obj.get("spec", {}).get("taints", [])
            if made["spec"].get("taints", []) != taints:
                made = await self.patch("nodes", made["metadata"]["name"], {"spec": {"taints": taints or None}})
            if obj.get("status"):
                made = await self.patch(
                    "nodes", made["metadata"]["name"], {"status": obj["status"]}, subresource="status"
                )
        elif plural == "pods" and obj.get("status"):
            made = await self.patch("pods", made["metadata"]["name"], {"status": obj["status"]}, subresource="status")
        self._made[f"{path}/{made['metadata']['name']}"] = made
        return made

    async def _post(self, path, obj):
        """A real server admits pods of a new priority class after a moment only."""
        deadline = real_time.monotonic() + PATIENCE
        while True:
            try:
                return await self.call("POST", path, obj)
            except Refused as e:
                if "no PriorityClass" not in str(e) or real_time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.01)

    def made(self, plural, name):
        """An object as of the end of its creation."""
        return self._made[self.path(plural, name)]

    async def get(self, plural, name, namespace=None):
        return await self.call("GET", self.path(plural, name, namespace=namespace))

    async def list(self, plural, namespace=None):
        return (await self.call("GET", self.path(plural, namespace=namespace))).get("items") or []

    async def patch(self, plural, name, patch, type_="merge", subresource="", namespace=None):
        path = self.path(plural, name, subresource, namespace)
        return await self.call("PATCH", path, patch, _PATCHES[type_])

    async def delete(self, plural, name, grace=0, namespace=None):
        path = self.path(plural, name, namespace=namespace)
        options = {"gracePeriodSeconds": grace} if grace is not None else {}
        answer = await self.call("DELETE", path, options, ok=(200, 202, 404))
        if answer["kind"] == "Status" and answer["status"] == "Success" and path in self._made:
            made = self._made[path]
            self.deleted[made["metadata"]["uid"]] = made["kind"]

    async def bind(self, name, node, namespace=None):
        """Bind a pod as another scheduler would."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": node},
        }
        await self.call("POST", self.path("pods", name, "binding", namespace), body)

    async def close(self):
        try:
            for path in reversed(self._made):
                if any(kind in path for kind in ("/persistentvolume", "/resourceclaims/", "/podgroups/")):
                    # No controller removes the finalizer here.
                    await self.call(
                        "PATCH", path, {"metadata": {"finalizers": None}}, _PATCHES["merge"], ok=(200, 404, 422)
                    )
                await self.call("DELETE", path, {"gracePeriodSeconds": 0}, ok=(200, 202, 404, 405, 409))
        finally:
            await self._session.close()
            await asyncio.sleep(0)


class TrackingApi:
    """An Api that records how far each watch has been read, and holds objects back until the test has completed them.

    It covers what the scheduler writes itself, too: `unseen` returns what it has not read back yet.
    """

    def __init__(self, api, created_versions):
        self._api = api
        self._births = created_versions
        #: Kind -> the newest version that the scheduler wrote.
        self._written = {}
        #: UIDs of the pods that it bound or deleted, and of those whose change has been seen.
        self._bound, self._leaving = set(), set()
        self._seen_bound, self._seen_leaving = set(), set()
        #: Kind -> the newest version that was passed on.
        self.versions = {}
        #: UIDs of objects whose deletion was seen.
        self.deleted = set()

    def __getattr__(self, name):
        return getattr(self._api, name)

    async def list(self, kind, **options):
        listing = await self._api.list(kind, **options)
        self._hear(kind, listing.resource_version)
        return listing

    async def watch(self, kind, **options):
        stream = self._api.watch(kind, **options)
        try:
            async for event in stream:
                if not await self._unfinished(event):
                    yield event
                self._hear(kind, event.resource_version)
                if event.object is not None:
                    self._see(event)
        finally:
            await stream.aclose()

    async def patch(self, kind, name, patch, **options):
        answer = await self._api.patch(kind, name, patch, **options)
        version = int(answer.metadata.resource_version)
        self._written[kind.__name__] = max(version, self._written.get(kind.__name__, 0))
        return answer

    async def bind(self, *, uid, **options):
        await self._api.bind(uid=uid, **options)
        self._bound.add(uid)

    async def delete(self, kind, name, *, uid="", **options):
        await self._api.delete(kind, name, uid=uid, **options)
        self._leaving.add(uid)

    def unseen(self):
        behind = {kind: v for kind, v in self._written.items() if self.versions.get(kind, v) < v}
        bound, leaving = self._bound - self._seen_bound, self._leaving - self._seen_leaving
        return behind | dict.fromkeys(bound, "bound") | dict.fromkeys(leaving, "leaving")

    def _see(self, event):
        metadata = event.object.metadata
        gone = event.type == "DELETED"
        if gone:
            self.deleted.add(metadata.uid)
        if gone or (isinstance(event.object, Pod) and event.object.spec.node_name):
            self._seen_bound.add(metadata.uid)
        if gone or metadata.deletion_timestamp is not None:
            self._seen_leaving.add(metadata.uid)

    async def _unfinished(self, event):
        if event.object is None or event.type == "DELETED":
            return False
        metadata = event.object.metadata
        whole = self._births.get((type(event.object).__name__, metadata.namespace, metadata.name))
        return whole is not None and int(event.resource_version) < await asyncio.shield(whole)

    def _hear(self, kind, version):
        if version:
            self.versions[kind.__name__] = max(int(version), self.versions.get(kind.__name__, 0))


class Scheduled:
    def __init__(self, server, objects, tracking, api, scheduler, time, running):
        self.server = server
        #: The Api that the scheduler uses, as returned by `wrap`.
        self.api = api
        self.objects = objects
        self.namespace = objects.namespace
        self.scheduler = scheduler
        self.time = time
        self._tracking = tracking
        self._running = running

    # actions of a test
    async def nodes(self, *nodes):
        for node in nodes:
            await self.objects.create("nodes", node)
        await self.settle()

    async def pods(self, *pods):
        for pod in pods:
            await self.objects.create("pods", pod)
        await self.settle()

    async def create(self, plural, *objects):
        for obj in objects:
            await self.objects.create(plural, obj)
        await self.settle()

    # what the scheduler sees
    async def pod(self, name):
        return await self.objects.get("pods", name)

    async def node_of(self, name):
        return (await self.pod(name))["spec"].get("nodeName", "")

    async def condition(self, name, type_="PodScheduled"):
        conditions = (await self.pod(name)).get("status", {}).get("conditions") or []
        return next((c for c in conditions if c["type"] == type_), None)

    async def events(self, name=None, reason=None):
        return [
            e
            for e in await self.objects.list("events")
            if name in (None, e.get("regarding", {}).get("name")) and reason in (None, e["reason"])
        ]

    def queued(self, name):
        return self.scheduler.queue.get(f"{self.namespace}/{name}")

    def place(self, name):
        """The pod's place in the queue; "" if it is not queued."""
        queued = self.queued(name)
        return "" if queued is None else queued.place.name

    # time
    async def until(self, predicate, what=""):
        deadline = real_time.monotonic() + PATIENCE
        # A test may have moved a pod in the queue directly.
        self.scheduler.submit(TICK)
        while True:
            found = predicate()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            if real_time.monotonic() > deadline:
                raise AssertionError(f"timed out waiting for {what or inspect.getsource(predicate).strip()}")
            await asyncio.sleep(0.01)

    async def settle(self, patience=PATIENCE):
        """Wait until the scheduler has seen all changes of the test and nothing is in progress."""
        deadline = real_time.monotonic() + patience
        self.scheduler.submit(TICK)
        calm = 0
        while calm < 4:
            if real_time.monotonic() > deadline:
                raise AssertionError(f"the scheduler does not settle: {self._waiting_for()}")
            await asyncio.sleep(0.002)
            if self._running.done():
                self._running.result()
            calm = calm + 1 if not self._waiting_for() and not self.scheduler.busy else 0

    def _waiting_for(self):
        heard, gone = self._tracking.versions, self._tracking.deleted
        waiting = self._tracking.unseen()
        waiting |= {kind: v for kind, v in self.objects.versions.items() if kind in heard and heard[kind] < v}
        return waiting | {uid: kind for uid, kind in self.objects.deleted.items() if kind in heard and uid not in gone}

    async def advance(self, seconds):
        """Advance the scheduler's time, waking sleepers at their times."""
        until = self.time.now + seconds
        await self.settle()
        while self.time.next_alarm(until):
            await self._pause()
        await self.settle()

    async def stop(self):
        """Stop the scheduler; the objects stay."""
        await stopped(self._running, self.time)

    async def _pause(self):
        """Let woken tasks run: next to no time if nothing results, else until the change may be seen."""
        for _ in range(5):
            await asyncio.sleep(0)
        if self.scheduler.busy:
            for _ in range(5):
                await asyncio.sleep(0.001)


async def _retried(time):
    """Let waits after a failure end while the scheduler starts: its time stands still, and a busy server may fail.

    Not at once: on a busy machine a start without any failure takes a second, which must not advance its time.
    """
    while True:
        await asyncio.sleep(5.0)
        time.next_alarm(time.now + 0.5)


@asynccontextmanager
async def scheduled(
    server,
    namespace,
    *,
    config=None,
    plugins=(),
    random=None,
    settings=None,
    features=DEFAULT_FEATURES,
    wrap=None,
    before=(),
):
    """`before`: (plural, object) pairs that exist when the scheduler starts; `wrap` may wrap the scheduler's Api."""
    time = ManualTime(start=real_time.time())
    objects = Objects(server.kubeconfig, namespace)
    options = {
        "config": config,
        "plugins": plugins,
        "random": random or Random(1),
        "settings": settings or SchedulerSettings(hostname="host"),
        "features": features,
    }
    try:
        for plural, obj in before:
            await objects.create(plural, obj)
        connection = ClusterFlags(kubeconfig=str(server.kubeconfig)).connect()
        async with HttpApi.open(connection, client_settings=UNLIMITED, agent=AGENT) as http, AsyncExitStack() as stack:
            tracking = TrackingApi(http, objects.created_versions)
            api = tracking if wrap is None else wrap(tracking)
            async with asyncio.timeout(PATIENCE), run_in_background(_retried(time)):
                parts = await stack.enter_async_context(opened(api, time, **options))
            found = Scheduled(server, objects, tracking, api, *parts)
            await found.settle()
            yield found
    finally:
        await objects.close()
