"""Table of requeueing cases: a pod that one plugin rejects, changes that must not wake it, and one that must.

Each profile has this plugin alone, so no other plugin can have rejected or woken the pod.
"""

from dataclasses import dataclass

import pytest

from support.api.manifests import pod as a_pod
from support.live.http_scheduler import scheduled
from support.scheduling.attempts import attempts, moves, only_these


def create(plural, obj):
    return lambda objects: objects.create(plural, obj)


def change(plural, name, body, type_="merge", subresource=""):
    return lambda objects: objects.patch(plural, name, body, type_, subresource)


def delete(plural, name):
    return lambda objects: objects.delete(plural, name)


def relabel(plural, name, **labels):
    return change(plural, name, {"metadata": {"labels": labels}})


def taint(key):
    return {"key": key, "effect": "NoSchedule"}


def tolerate(name, *keys):
    """Tolerations can be added to a pod; as a JSON patch."""
    added = [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": k, "operator": "Exists"}} for k in keys]
    return change("pods", name, added, "json")


def resize(name, **amounts):
    spec = {"containers": [{"name": "c", "resources": {"requests": amounts}}]}
    return change("pods", name, {"spec": spec}, "strategic", "resize")


def reallocate(name, **sizes):
    return change("nodes", name, {"status": {"capacity": sizes, "allocatable": sizes}}, subresource="status")


@dataclass(frozen=True)
class Row:
    plugin: str
    pod: dict
    before: tuple
    idle: tuple
    wake: object
    #: Label of the event that wakes the pod.
    cause: str
    #: The pod's node at the end; "" if it is rejected again.
    node_name: str


def row(plugin, title, *, before, wake, cause, idle=(), pod=None, node_name=""):
    """`before`: (plural, object) pairs that exist from the start."""
    made = Row(plugin, pod or a_pod(), tuple(before), tuple(idle), wake, cause, node_name)
    return pytest.param(made, id=f"{plugin}-{title}")


async def check_row(server, namespace, row):
    async with scheduled(server, namespace, config=only_these(row.plugin), before=row.before) as c:
        await c.pods(row.pod)
        # A gated pod has had no attempt yet.
        tried, moved = len(attempts(c, "web")), len(moves(c, "web"))
        assert c.place("web") == "UNSCHEDULABLE"
        assert c.queued("web").unschedulable_plugins == {row.plugin}
        for at, change in enumerate(row.idle):
            await change(c.objects)
            await c.settle()
            assert len(moves(c, "web")) == moved, f"change {at} woke the pod"
        await row.wake(c.objects)
        await c.settle()
        assert moves(c, "web")[moved:][:1] == [("backoff" if tried else "active", row.cause)]
        assert len(attempts(c, "web")) == tried + 1
        assert await c.node_of("web") == row.node_name
        assert c.place("web") == ("" if row.node_name else "UNSCHEDULABLE")
