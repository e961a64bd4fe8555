"""Start simulated time from an engine's dump.

    dump = engine.dump()                              # of any engine, live or simulated, with nothing in progress
    time = resumed(Engine(config, now=dump.now, ...), dump, runs_for=...)
    time.run()

The store contains what the dumped engine knew. Changes of the API server that it did not know yet are written when time
starts, so that the engine gets them: bound pods, written statuses and objects, deleted victims. Placed pods end when
their time has come, counted from when they were scheduled. Resource versions continue from the newest one in the dump.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from stowplan.drivers.virtual_time.agenda import Agenda
from stowplan.drivers.virtual_time.driver import VirtualTime
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.types import Pod
from stowplan.scheduler.engine.dumped import EngineDump, objects_of
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.written_objects import kind_named, read_object
from stowplan.scheduler.framework.requests import Bind, Create, Delete, Request, Update


def resumed(engine: Engine, dump: EngineDump, **options: Any) -> VirtualTime:
    """Load the dump into an engine that has not taken a step; `options` are those of `VirtualTime`."""
    engine.load(dump)
    store = ObjectStore()
    for _, obj in objects_of(dump):
        store.restore(obj)
    time = VirtualTime(engine, store, agenda=Agenda(dump.now), **options)
    time.resume(dump.outbox.next_wake, [placed.pod for placed in dump.state.placements.pods if not placed.assumed])
    for request in _changes_unknown_to_engine(dump, store):
        time.write(request)
    return time


def _changes_unknown_to_engine(dump: EngineDump, store: ObjectStore) -> Iterator[Request]:
    """Requests that were carried out, but whose changes the engine did not know yet."""
    for name, content in (*dump.state.in_flight, *dump.state.assumed):
        yield _written(read_object(kind_named(name), content), store)
    for written in dump.statuses:
        pod = store.find(Pod, written.namespace, written.name)
        if pod is not None and pod.metadata.uid == written.uid:
            yield Update(obj=replace(pod, status=written.status))
    for placed in dump.state.placements.pods:
        if placed.assumed:
            metadata = placed.pod.metadata
            yield Bind(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid, node=placed.node)
    leaving = {uid for preemption in dump.evictions.preemptions for uid in preemption.leaving}
    for pod in store.list(Pod):
        if pod.metadata.uid in leaving:
            yield Delete(kind=Pod, namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid)


def _written(obj: Any, store: ObjectStore) -> Request:
    metadata = obj.metadata
    if store.find(type(obj), metadata.namespace, metadata.name) is None:
        return Create(obj=obj)
    return Update(obj=replace(obj, metadata=replace(metadata, resource_version="")))
