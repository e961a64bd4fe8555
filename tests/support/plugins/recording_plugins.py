"""Plugins that record their calls and have scripted answers, and a profile of them."""

from typing import Any

import numpy as np

from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.types import Node
from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.kube.config.configuration import PluginRef, Profile
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework import interface
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Rejections
from stowplan.scheduler.framework.handle import Handle, RunningScheduler
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.registry import Registry
from stowplan.scheduler.framework.status import Reason, unschedulable
from stowplan.testing import a_pod
from support.plugins.raised import in_short


class Clock:
    """A clock that is moved by hand."""

    def __init__(self, now=100.0):
        self.now = now

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


class Recording(
    interface.PreEnqueuePlugin,
    interface.QueueSortPlugin,
    interface.PreFilterPlugin,
    interface.FilterPlugin,
    interface.PostFilterPlugin,
    interface.PreScorePlugin,
    interface.ScorePlugin,
    interface.ReservePlugin,
    interface.PermitPlugin,
    interface.PreBindPlugin,
    interface.BindPlugin,
    interface.PostBindPlugin,
):
    """Implements every point of a single pod; `answers` has each method's answer or exception."""

    name = "Recording"
    log: list = []  # noqa: RUF012 - each recorder has its own
    answers: dict = {}  # noqa: RUF012

    def _say(self, method, default=None):
        self.log.append(f"{self.name}.{method}")
        answer = self.answers.get(method, default)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def less(self, a, b):
        return False

    def pre_enqueue(self, pod):
        return self._say("pre_enqueue")

    def pre_filter(self, state, pod, nodes):
        return self._say("pre_filter")

    def filter(self, state, pod, nodes):
        answer = self._say("filter")
        if answer == "refuse all":
            return Rejections.where(np.ones(len(nodes), bool), Reason("No", "no"))
        return answer

    def post_filter(self, state, pod, diagnosis):
        return interface.PostFilterResult(self._say("post_filter", unschedulable("did not help")))

    def pre_score(self, state, pod, nodes):
        return self._say("pre_score")

    def score(self, state, pod, nodes):
        self._say("score")
        return np.zeros(len(nodes), np.int64)

    def normalize(self, state, pod, scores, feasible):
        self._say("normalize")
        return scores

    def reserve(self, state, pod, node_name):
        return self._say("reserve")

    def unreserve(self, state, pod, node_name):
        return self._say("unreserve")

    def permit(self, state, pod, node_name):
        return self._say("permit", (None, 0.0))

    def pre_bind_pre_flight(self, state, pod, node_name):
        return self._say("pre_bind_pre_flight", interface.PreBindPreFlightResult())

    async def pre_bind(self, state, pod, node_name):
        answer = self._say("pre_bind")
        return await answer(self) if callable(answer) else answer

    async def bind(self, state, pod, node_name):
        return self._say("bind")

    async def post_bind(self, state, pod, node_name):
        return self._say("post_bind")


def recorder(name, log, base=Recording, /, **answers):
    """A plugin class of that name."""
    return type(name, (base,), {"name": name, "log": log, "answers": answers})


#: Options that are of the running scheduler.
_OF_SCHEDULER = RunningScheduler.__struct_fields__


def framework_of(*plugins, objects=(), weights=None, **handle):
    """A profile that has each plugin at every point that it implements."""
    weights = weights or {}
    cluster = ClusterState()
    for obj in objects:
        decoded: Any = decode_object(obj.obj())
        cluster.add_node(decoded) if isinstance(decoded, Node) else cluster.add_pod(decoded)
    points = {
        point: tuple(
            PluginRef(p.name, weights.get(p.name, 0)) for p in plugins if point in interface.extension_points(p)
        )
        for point in interface.EXTENSION_POINTS
    }
    profile = Profile(scheduler_name="default-scheduler", points=points)
    scheduler = RunningScheduler(**{name: handle.pop(name) for name in [*handle] if name in _OF_SCHEDULER})
    options = {"features": DEFAULT_FEATURES, "scheduler": scheduler, **handle}
    own = Handle(cluster=cluster, profile_name="default-scheduler", **options)
    return Framework(profile, Registry(plugins), own)


def an_attempt(framework, pod=None):
    """The common arguments of every call: framework, state, pod, node name."""
    info = framework.handle.cluster.pod_info(decode_object((pod or a_pod("web-0")).obj()))
    return framework, CycleState(), info, "n1"


def shown(status):
    """A status in one line: code, plugin, message."""
    return None if status is None else (status.code.name, status.plugin, in_short(status.message))
