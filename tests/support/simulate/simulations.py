"""The engine in virtual time, with its effects recorded and the engine validated after each step."""

from random import Random

from stowplan.drivers.virtual_time.agenda import Agenda
from stowplan.drivers.virtual_time.driver import VirtualTime
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.drivers.virtual_time.virtual_api import VirtualApi
from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config import load_config
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.framework.requests import Create
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.testing import a_node, a_pod


class StoppedWatch:
    """A meter for metrics that are not read."""

    def clock(self):
        return 0.0

    def random(self):
        return 0.5


class WritingDown(Engine):
    """An engine that keeps its encoded effects, and is validated after each step."""

    written = b""
    checked = True

    def step(self, input_, now):
        effects = super().step(input_, now)
        for effect in effects:
            self.written += b"%r %s\n" % (now, effect.encoded())
        if self.checked:
            self.validate()
        return effects


def simulation(*plugins, config=None, seed=1, checked=True, store=None, start=0.0, **options):
    """An engine and its time; `options` are those of `VirtualTime`."""
    registry = in_tree_registry()
    for plugin in plugins:
        registry.register(plugin)
    engine = WritingDown(
        load_config(config, plugins=registry.declarations),
        registry=registry,
        now=start,
        meter=StoppedWatch(),
        random=Random(seed),
        api=VirtualApi(),
    )
    engine.checked = checked
    return engine, VirtualTime(engine, ObjectStore() if store is None else store, agenda=Agenda(start), **options)


def node(name, **sizes):
    return Create(
        obj=convert(a_node(name).allocatable(**{"cpu": "4", "memory": "16Gi", "pods": "110", **sizes}).obj(), Node)
    )


def pod(name, cpu="1", **spec):
    return Create(obj=convert(a_pod(name).requests(cpu=cpu).spec(**spec).obj(), Pod))
