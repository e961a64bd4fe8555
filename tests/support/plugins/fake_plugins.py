"""Plugins with scripted answers, and a framework of such plugins alone."""

from collections.abc import Mapping
from typing import Any

from stowplan.kube.config import Profile, load_config
from stowplan.kube.config.features import default_features
from stowplan.plugins import (
    NodeFilterPlugin,
    NodePodExtensions,
    NodeScorePlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ShapeSigned,
)
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import EXTENSION_POINTS, extension_points
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.registry import Registry
from support.plugins.answering_plugins import configuration
from support.scheduling.worlds import struct

__all__ = ["Profile", "fake", "framework_of", "judged"]


def answer_of(what, *args):
    """An exception is raised, a function is called, anything else is the answer."""
    if isinstance(what, Exception):
        raise what
    return what(*args) if callable(what) else what


class _Scripted:
    answers: Mapping[str, Any]


class _PreEnqueue(_Scripted, PreEnqueuePlugin):
    def pre_enqueue(self, pod):
        return answer_of(self.answers["pre_enqueue"], pod)


class _PreFilter(_Scripted, PreFilterPlugin):
    def pre_filter(self, state, pod, nodes):
        return answer_of(self.answers["pre_filter"], state, pod, nodes)


class _Filter(_Scripted, NodeFilterPlugin):
    def filter_node(self, state, pod, node):
        return answer_of(self.answers["filter"], state, pod, node)


class _PreScore(_Scripted, PreScorePlugin):
    def pre_score(self, state, pod, nodes):
        return answer_of(self.answers["pre_score"], state, pod, nodes)


class _Score(_Scripted, NodeScorePlugin):
    def score_node(self, state, pod, node):
        return answer_of(self.answers["score"], state, pod, node)


class _Normalize(_Score):
    def normalize(self, state, pod, scores, feasible):
        return answer_of(self.answers["normalize"], state, pod, scores, feasible)


class _PodExtensions(_Scripted, NodePodExtensions):
    def add_pod(self, state, pod, added, node):
        return answer_of(self.answers["add_pod"], state, pod, added, node)

    def remove_pod(self, state, pod, removed, node):
        return answer_of(self.answers["remove_pod"], state, pod, removed, node)


_MIXINS = {
    "pre_enqueue": _PreEnqueue,
    "pre_filter": _PreFilter,
    "filter": _Filter,
    "pre_score": _PreScore,
    "normalize": _Normalize,
    "score": _Score,
    "add_pod": _PodExtensions,
}


def fake(name, *, signed=True, **answers):
    """A plugin class with an answer for each point that it extends."""
    answers = {"score": 0, **answers} if "normalize" in answers else answers
    answers = {"remove_pod": None, **answers} if "add_pod" in answers else answers
    bases = [mixin for point, mixin in _MIXINS.items() if point in answers]
    if _Normalize in bases:
        bases.remove(_Score)
    bases += [ShapeSigned] if signed else []
    return type(name, tuple(bases), {"name": name, "answers": answers, "__module__": __name__})


def framework_of(state, *plugins, weights=None):
    """A profile with these plugins at every point that they extend, in order."""
    points = {}
    for point in EXTENSION_POINTS:
        names = [p.name for p in plugins if point in extension_points(p)]
        # Only weights of scores are looked up.
        points[point] = {"enabled": [_ref(name, weights) for name in names], "disabled": [{"name": "*"}]}
    points["multiPoint"] = {"disabled": [{"name": "*"}]}
    points["queueSort"] = {"enabled": [{"name": "PrioritySort"}], "disabled": [{"name": "*"}]}
    points["bind"] = {"enabled": [{"name": "DefaultBinder"}], "disabled": [{"name": "*"}]}
    from stowplan.scheduler.in_tree.registry import in_tree_registry

    registry = in_tree_registry()
    registry.merge(Registry(plugins))
    raw = configuration({"schedulerName": "default-scheduler", "plugins": points})
    profile = load_config(raw, plugins=registry.declarations).profiles[0]
    return Framework(
        profile, registry, Handle(cluster=state, profile_name="x", features=default_features(state.emulated_version))
    )


def _ref(name, weights):
    return {"name": name} | ({"weight": weights[name]} if weights and name in weights else {})


def judged(framework, pod):
    """(evaluation, outcome, pod) of a full evaluation."""
    evaluation = Evaluation(framework)
    info = framework.handle.pod_info(struct(pod))
    return evaluation, evaluation.filter(info), info
