"""Plugins that hang, in every way and at every extension point."""

import asyncio
import queue
import select
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stowplan.plugins import (
    NODE,
    Action,
    BindPlugin,
    Code,
    EnqueueExtensions,
    FilterPlugin,
    Hint,
    NodeFilterPlugin,
    NodeScorePlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    SignPlugin,
    Status,
    on,
    unschedulable,
)


def busy():
    while True:
        pass


def stubborn():
    """Catches every exception, as a loop that must not die does."""
    while True:
        try:
            time.sleep(0.001)
        except Exception:
            continue


def locked():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def receiving():
    here, there = socket.socketpair()
    with here, there:
        here.recv(1)


WAYS = {
    "busy loop": busy,
    "sleep": lambda: time.sleep(1e6),
    "lock": locked,
    "queue": lambda: queue.Queue().get(),
    "event": lambda: threading.Event().wait(),
    "socket": receiving,
    "select": lambda: select.select([], [], []),
    "catching": stubborn,
}


class Hanging:
    """Hangs at one point, for pods with a label, in the first calls."""

    name = "Hanging"
    point = ""
    way = staticmethod(busy)
    #: In how many calls it hangs.
    left: Any = (0,)

    def __init__(self, args, handle):
        super().__init__(args, handle)  # type: ignore[call-arg] # of the plugin that it is mixed into
        #: How often it rejected a pod, so that the pod was requeued.
        self.turned_away = 0

    @classmethod
    def at(cls, point, way="busy loop", times=1):
        return type(cls.__name__, (cls,), {"point": point, "way": staticmethod(WAYS[way]), "left": [times]})

    @classmethod
    def harmless(cls):
        """The same plugin, which does not hang."""
        return type(cls.__name__, (cls,), {"way": staticmethod(lambda: None)})

    def maybe(self, point, pod):
        if point == self.point and self.left[0] and "hangs" in pod.labels:
            self.left[0] -= 1
            self.way()


class Everywhere(
    Hanging,
    PreEnqueuePlugin,
    PreFilterPlugin,
    NodeFilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    NodeScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
    SignPlugin,
    EnqueueExtensions,
):
    def pre_enqueue(self, pod):
        self.maybe("preEnqueue", pod)

    def sign_pod(self, pod):
        self.maybe("sign", pod)
        return {}

    def pre_filter(self, state, pod, nodes):
        self.maybe("preFilter", pod)

    def filter_node(self, state, pod, node):
        self.maybe("filter", pod)
        if "refused" in pod.labels and not node.node.metadata.labels.get("open"):
            return unschedulable("not open")

    def post_filter(self, state, pod, diagnosis):
        self.maybe("postFilter", pod)
        return PostFilterResult(unschedulable())

    def pre_score(self, state, pod, nodes):
        self.maybe("preScore", pod)

    def score_node(self, state, pod, node):
        self.maybe("score", pod)
        return 1

    def normalize(self, state, pod, scores, feasible):
        self.maybe("normalize", pod)
        return np.minimum(scores, 100)

    def reserve(self, state, pod, node_name):
        self.maybe("reserve", pod)

    def unreserve(self, state, pod, node_name):
        self.maybe("unreserve", pod)

    def permit(self, state, pod, node_name):
        self.maybe("permit", pod)
        if self.point == "unreserve" and "hangs" in pod.labels and not self.turned_away:
            self.turned_away += 1
            return unschedulable("so that it is given back"), 0.0
        return None, 0.0

    def pre_bind_pre_flight(self, state, pod, node_name):
        self.maybe("preBindPreFlight", pod)

    async def pre_bind(self, state, pod, node_name):
        self.maybe("preBind", pod)
        await asyncio.sleep(0)
        self.maybe("preBind, later", pod)

    async def bind(self, state, pod, node_name):
        self.maybe("bind", pod)
        return Status(Code.Skip)

    async def post_bind(self, state, pod, node_name):
        self.maybe("postBind", pod)

    def events_to_register(self):
        return (on(NODE, Action.All, self.hint),)

    def hint(self, pod, old, new):
        self.maybe("hint", pod)
        return Hint.QUEUE


class Columns(Hanging, FilterPlugin, ScorePlugin):
    """The same as a column-level plugin."""

    def filter(self, state, pod, nodes):
        self.maybe("filter", pod)

    def score(self, state, pod, nodes):
        self.maybe("score", pod)
        return np.zeros(len(nodes), np.int64)


class Sorting(Hanging, QueueSortPlugin):
    def less(self, a, b):
        self.maybe("queueSort", a.pod)
        self.maybe("queueSort", b.pod)
        return a.timestamp < b.timestamp


class Waiting(Hanging, PreBindPlugin, BindPlugin, PostBindPlugin):
    """Waits forever asynchronously, which blocks nothing else."""

    async def wait(self, point, pod):
        if self.point == point and self.left[0] and "hangs" in pod.labels:
            self.left[0] -= 1
            await asyncio.Event().wait()

    async def pre_bind(self, state, pod, node_name):
        await self.wait("preBind", pod)

    async def bind(self, state, pod, node_name):
        await self.wait("bind", pod)
        return Status(Code.Skip)

    async def post_bind(self, state, pod, node_name):
        await self.wait("postBind", pod)


_POINTS = {
    Everywhere: (
        *("preEnqueue", "preFilter", "filter", "postFilter", "preScore", "score"),
        *("reserve", "permit", "preBind", "bind", "postBind"),
    ),
    Columns: ("filter", "score"),
    Sorting: ("queueSort",),
    Waiting: ("preBind", "bind", "postBind"),
}


def configuration(plugin):
    enabled = next(points for kind, points in _POINTS.items() if issubclass(plugin, kind))
    plugins = {point: {"enabled": [{"name": "Hanging"}]} for point in enabled}
    if "queueSort" in plugins:
        plugins["queueSort"]["disabled"] = [{"name": "*"}]
    if "bind" in plugins:
        plugins["bind"] = {"enabled": [{"name": "Hanging"}, {"name": "DefaultBinder"}], "disabled": [{"name": "*"}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins}],
    }


@dataclass
class Where:
    label: str = "at"
    way: str = "busy loop"


class OnceAtEachPoint(Everywhere):
    """Hangs once per pod, at the point in a label, in the way that its arguments name."""

    args_type = Where
    asked: ClassVar = set()

    def sign_pod(self, pod):
        self.maybe("sign", pod)
        return {"at": pod.labels.get(self.args.label)}

    def maybe(self, point, pod):
        if pod.labels.get(self.args.label) == point and pod.uid not in self.asked:
            self.asked.add(pod.uid)
            WAYS[self.args.way]()


class Replayed(OnceAtEachPoint):
    """The same plugin in a replay: calls that hung are not made."""

    def maybe(self, point, pod):
        pass
