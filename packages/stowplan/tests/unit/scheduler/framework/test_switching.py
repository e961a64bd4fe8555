"""Disabled plugins are skipped at every point; enabled again, they are back in their place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields

from stowplan.kube.config import DEFAULT_FEATURES, load_config
from stowplan.plugins import Reads, ShapeSigned, SignPlugin
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.schedule_one import schedule_pod
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import EXTENSION_POINTS
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.registry import Registry
from stowplan.scheduler.framework.status import unschedulable
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.answering_plugins import configuration
from support.plugins.fake_plugins import fake, framework_of
from support.scheduling.worlds import state_of, struct

#: What a framework derives from its plugins.
LINES = (
    *("pre_enqueue", "queue_sort", "pre_filter", "filter", "post_filter", "pre_score", "score", "reserve", "permit"),
    *("pre_bind", "bind", "post_bind", "placement_generate", "placement_score"),
    *("cluster_dependent_filters", "cluster_dependent_pre_filters", "cluster_dependent_pre_scores"),
)


class Told(fake("Told", filter=None, score=3, pre_enqueue=None, signed=False), SignPlugin):
    name = "Told"
    reads = Reads.NODE_PODS

    def sign_pod(self, pod):
        return {"note": pod.pod.metadata.annotations.get("note", "")}


OWN = (Told, fake("Mute", filter=None, signed=False), fake("Plain", pre_filter=None, pre_score=None, score=1))


def default_profile():
    config = configuration(
        {"plugins": {"multiPoint": {"enabled": [{"name": plugin.name, "weight": 4} for plugin in OWN]}}}
    )
    return load_config(config, plugins=registry().declarations).profiles[0]


def registry():
    found = in_tree_registry()
    found.merge(Registry(OWN))
    return found


PROFILE = default_profile()
NAMES = sorted({ref.name for refs in PROFILE.points.values() for ref in refs})


def built(profile):
    handle = Handle(cluster=ClusterState(), profile_name=profile.scheduler_name, features=DEFAULT_FEATURES)
    return Framework(profile, registry(), handle)


def without(profile, names):
    points = {point: tuple(ref for ref in refs if ref.name not in names) for point, refs in profile.points.items()}
    return with_fields(profile, points=points)


def lined_up(framework):
    """All lists of participating plugins, by name."""
    found = {line: [plugin.name for plugin in getattr(framework, line)] for line in LINES}
    events = {name: [r.event for r in of_plugin] for name, of_plugin in framework.registered_events().items()}
    signers = framework._signers and [plugin.name for plugin in framework._signers]
    by_shape = framework._by_shape if framework._signers is not None else None
    rest = (framework.points, framework.weights, framework.placement_weights)
    return found, events, signers, by_shape, rest


names = st.sets(st.sampled_from([*NAMES, "NoSuchPlugin"]))


@given(st.lists(st.tuples(st.booleans(), names), max_size=4))
@examples(60)
def test_enabled_plugins_take_part(steps):
    framework, off = built(PROFILE), set()
    for on, some in steps:
        (framework.switch_on if on else framework.switch_off)(some)
        off = off - some if on else off | some
    assert lined_up(framework) == lined_up(built(without(PROFILE, off)))
    framework.switch_on(NAMES)
    assert lined_up(framework) == lined_up(built(PROFILE))
    assert set(framework.plugins) == set(NAMES), "plugins were rebuilt"


def test_lists_are_not_empty():
    """Otherwise the properties might compare empty lists."""
    found, events, signers, *_ = lined_up(built(without(PROFILE, {"Mute"})))
    assert all(found[line] for line in ("pre_enqueue", "filter", "score", "bind", *LINES[-4:]))
    assert set(EXTENSION_POINTS) == set(built(PROFILE).points)
    assert "Told" in signers
    assert len(events) > 10
    assert built(PROFILE)._signers is None, "no plugin without signature"


def test_results_of_other_plugins_are_not_reused():
    """The same pod repeatedly, with cached results in between."""
    state = state_of([a_node("a"), a_node("b")])
    picky = fake("NotA", filter=lambda state, pod, node: unschedulable("no") if node.name == "a" else None)
    likes = fake("LikesB", score=lambda state, pod, node: 100 if node.name == "b" else 0)
    framework = framework_of(state, picky, likes)
    scheduler = SchedulingAlgorithm(state, {"default-scheduler": framework})
    chosen = []
    for off in [(), ("NotA",), ("NotA", "LikesB"), ("LikesB",), ("NotA", "LikesB"), ()]:
        framework.switch_on(framework.plugins)
        framework.switch_off(off)
        chosen.append(run_at_once(schedule_pod(scheduler, framework, state.pod_info(struct(a_pod())))).node_name)
    assert chosen == ["b", "b", "a", "b", "a", "b"]
    assert ShapeSigned in picky.__mro__, "results were not cached"


def test_disabled_plugins_are_closed():
    closed = []

    class Open(fake("Open", filter=None)):
        def close(self):
            closed.append(self.name)

    framework = framework_of(state_of([]), Open)
    framework.switch_off(["Open"])
    assert framework.close() == []
    assert closed == ["Open"]


@pytest.mark.parametrize("names", [(), ("NoSuchPlugin",)])
def test_switching_no_plugin_changes_nothing(names):
    framework = built(PROFILE)
    before = framework.filter
    framework.switch_off(names)
    framework.switch_on(names)
    assert framework.filter is before
