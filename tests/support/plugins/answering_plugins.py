"""Plugins with scripted answers, enabled at the given points of a profile; no event wakes their pods unless a test says
so.

    Oops = answering("Oops", permit=(unschedulable("no"), 0.0))
    config = configuration(profile(permit=[Oops]))

An answer may be a function of the plugin's arguments; for PreBind, Bind and PostBind it may be a coroutine function.
`Oops.answers` can be changed while a scheduler runs; `Oops.log` has the calls.
"""

import inspect

from stowplan.scheduler.framework.interface import EnqueueExtensions, PostFilterResult
from support.plugins.recording_plugins import Recording, recorder


class Answering(Recording, EnqueueExtensions):
    #: Events that requeue pods that it rejected.
    wakes = ()

    def events_to_register(self):
        return list(self.wakes)

    def _answer(self, method, *args, default=None):
        answer = self._say(method, default)
        return answer(*args) if callable(answer) else answer

    def pre_filter(self, state, pod, nodes):
        return self._answer("pre_filter", state, pod, nodes)

    def filter(self, state, pod, nodes):
        return self._answer("filter", state, pod, nodes)

    def post_filter(self, state, pod, diagnosis):
        answer = self._answer("post_filter", state, pod, diagnosis)
        return answer if isinstance(answer, PostFilterResult) else PostFilterResult(answer)

    def score(self, state, pod, nodes):
        answer = self._answer("score", state, pod, nodes)
        return super().score(state, pod, nodes) if answer is None else answer

    def normalize(self, state, pod, scores, feasible):
        answer = self._answer("normalize", state, pod, scores)
        return scores if answer is None else answer

    def reserve(self, state, pod, node_name):
        return self._answer("reserve", state, pod, node_name)

    def unreserve(self, state, pod, node_name):
        return self._answer("unreserve", state, pod, node_name)

    def permit(self, state, pod, node_name):
        return self._answer("permit", state, pod, node_name, default=(None, 0.0))

    async def pre_bind(self, state, pod, node_name):
        return await _awaited(self._answer("pre_bind", state, pod, node_name))

    async def bind(self, state, pod, node_name):
        return await _awaited(self._answer("bind", state, pod, node_name))

    async def post_bind(self, state, pod, node_name):
        return await _awaited(self._answer("post_bind", state, pod, node_name))


async def _awaited(answer):
    return await answer if inspect.isawaitable(answer) else answer


def answering(name, *, log=None, wakes=(), **answers):
    """A plugin class of that name."""
    made = recorder(name, [] if log is None else log, Answering, **answers)
    made.wakes = wakes
    return made


def profile(name="default-scheduler", *, without=None, **points):
    """The default profile, with plugins added at some points (before the default ones) and others removed."""
    plugins = {}
    for point, classes in points.items():
        plugins[point] = {"enabled": [{"name": one.name} for one in classes]}
    for point, names in (without or {}).items():
        plugins.setdefault(point, {})["disabled"] = [{"name": name} for name in names]
    return {"schedulerName": name, "plugins": plugins}


def configuration(*profiles, **fields):
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": list(profiles),
        **fields,
    }
