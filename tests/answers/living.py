"""The embedded cluster in process: API server, all controllers and the live scheduler, in virtual time."""

import asyncio
from random import Random

from answers.states import State
from stowplan.ask.loading.workloads import workload_of
from stowplan.drivers.live.scheduler import Scheduler
from stowplan.kube.api.api_errors import TooManyRequests
from stowplan.kube.api.decode import decode_object
from stowplan.kube.config import load_config
from stowplan.kube.timing.times import ManualTime
from stowplan.scheduler.engine.engine import TICK
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from stowplan_cluster.apiserver.eviction import evict
from stowplan_cluster.controllers.controller_manager import set_up_controllers

#: Turns of the event loop without work after which nothing is in progress.
_CALM = 5
#: Without a change for so long the cluster rests: the longest backoff of a pod, and a little.
QUIET = 11.0
#: A Job replaces its pods later and later.
REPLACED = 95.0
#: A pod that no event has woken is tried again after five minutes, and looked for every thirty seconds.
FLUSHED = 340.0
#: Orphaned pods are deleted after forty seconds.
COLLECTED = 45.0
#: What is written without anything happening.
_HEARTBEATS = ("leases.coordination.k8s.io", "events.events.k8s.io", "events")


class NeverRestsError(AssertionError):
    pass


class Living:
    """Objects are dicts; kinds are named by their storage."""

    def __init__(self, objects, seed):
        self.time = ManualTime()
        self.server = ApiServer(clock=self.time.wall_clock, random=Random(seed))
        self.store, self.registry = self.server.store, self.server.registry
        self.controllers = set_up_controllers(self.server)
        self._changed = 0.0
        self.store.on_change(self._follow)
        kinds = ("Deployment", "StatefulSet", "DaemonSet", "Job")
        self.workloads = [(obj["kind"], "default", obj["metadata"]["name"]) for obj in objects if obj["kind"] in kinds]
        #: A controller whose pods a quota refuses tries again as late as a Job.
        self._slow = any(obj["kind"] in ("Job", "ResourceQuota") for obj in objects)
        self.server.create_all(objects)
        self.api = EmbeddedApi(self.server)
        self.loop = asyncio.new_event_loop()
        registry = in_tree_registry()
        self.scheduler = Scheduler(
            self.api,
            load_config(None, plugins=registry.declarations),
            registry=registry,
            times=self.time,
            random=Random(seed),
        )
        self._running = self.loop.create_task(self.scheduler.run())

    # -- time -------------------------------------------------------------------------------------------------------

    def rest(self, at_least=0.0, *, quiet=QUIET):
        """Until nothing has changed for a while, and at least for some seconds."""
        if self._slow and quiet >= 3:
            quiet = REPLACED
        self.loop.run_until_complete(self._rest(self.time.now + at_least, quiet))

    async def _rest(self, earliest, quiet):
        self._changed = self.time.now
        limit = self.time.now + 4_000
        while True:
            await self._calm()
            end = max(earliest, self._changed + quiet)
            if self.time.now >= end:
                return
            if self.time.now > limit:
                raise NeverRestsError(f"still changing after {self.time.now:.0f} s")
            due = self.controllers.next_due()
            until = end if due is None else min(end, max(self.time.now, due - self.time.wall_clock() + self.time.now))
            self.time.next_alarm(until)

    async def _calm(self):
        """Everything that needs no time."""
        self.scheduler.submit(TICK)
        calm = 0
        for _ in range(200_000):
            self.controllers.settle()
            await asyncio.sleep(0)
            if self._running.done():
                self._running.result()
            calm = 0 if self.scheduler.busy else calm + 1
            if calm > _CALM:
                return
        raise NeverRestsError("works on without time passing")

    def _follow(self, event):
        if event.stored.resource not in _HEARTBEATS:
            self._changed = self.time.now

    def begin(self):
        """Everything has been tried as things are, and no controller is about to make anything."""
        self.rest()
        for stateful in self.all("statefulsets.apps"):
            # An ordered one makes further pods once the first ones run; nobody knows from its pods how many.
            made, name = stateful["status"].get("replicas", 0), stateful["metadata"]["name"]
            if made < stateful["spec"]["replicas"] and State.of_api(self)["StatefulSet", name].waiting:
                self.patch("statefulsets.apps", name, {"spec": {"replicas": made}})
        self.rest(FLUSHED)

    @property
    def quotas(self):
        return [one["metadata"]["name"] for one in self.all("resourcequotas")]

    def lift_quotas(self):
        for name in self.quotas:
            self.delete("resourcequotas", name)
        self.begin()

    def hold(self, keep=None):
        """Keep what waits from being scheduled, except for a workload's pods; returns a function that lets it go on."""
        held = []
        for pod in self.all("pods"):
            of = workload_of(decode_object(pod))
            if (
                not pod["spec"].get("nodeName")
                and "schedulingGates" not in pod["spec"]
                and (keep is None or of != keep)
            ):
                pod["spec"]["schedulingGates"] = [{"name": "example.com/held"}]
                self.registry.replace(self.registry.of_storage("pods"), pod)
                held.append(pod["metadata"]["name"])
        self.rest(quiet=1)
        return lambda: self._let_go(held)

    def _let_go(self, held):
        for pod in self.all("pods"):
            if pod["metadata"]["name"] in held:
                pod["spec"]["schedulingGates"] = []
                self.update("pods", pod)

    # -- objects ----------------------------------------------------------------------------------------------------

    def all(self, storage):
        return [stored.to_dict() for stored in self.store.list(storage)]

    def get(self, storage, name, namespace="default"):
        resource = self.registry.of_storage(storage)
        return self.registry.get(resource, namespace if resource.namespaced else "", name).to_dict()

    def patch(self, storage, name, patch):
        resource = self.registry.of_storage(storage)
        self.registry.patch(resource, "default" if resource.namespaced else "", name, patch, kind="merge")

    def update(self, storage, obj, subresource=""):
        resource, metadata = self.registry.of_storage(storage), obj["metadata"]
        self.registry.update(resource, metadata.get("namespace", ""), metadata["name"], obj, subresource=subresource)

    def delete(self, storage, name):
        resource = self.registry.of_storage(storage)
        options = DeleteOptions(grace_period_seconds=0)
        self.registry.delete(resource, "default" if resource.namespaced else "", name, options=options)

    def create(self, *objects):
        self.server.create_all(objects)

    def apply(self, obj):
        """As `kubectl apply`: a new object, or the other's fields."""
        resource = self.server.catalogue.of_kind(obj["apiVersion"], obj["kind"])
        name = obj["metadata"]["name"]
        if self.registry.has(resource, obj["metadata"].get("namespace", ""), name):
            self.patch(resource.storage, name, obj)
        else:
            self.create(obj)

    def evict(self, name):
        """Whether the budgets let it go."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
        try:
            evict(self.registry, "default", name, eviction, DeleteOptions())
        except TooManyRequests:
            return False
        return True

    def schedule_only(self):
        """Let the scheduler work, and the kubelet not yet."""
        self.loop.run_until_complete(self._scheduled())

    async def _scheduled(self):
        self.scheduler.submit(TICK)
        calm = 0
        while calm <= _CALM:
            await asyncio.sleep(0)
            calm = 0 if self.scheduler.busy else calm + 1
