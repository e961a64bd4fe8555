"""Plugins that pods of a shape are no business of have indeed nothing to say of them, and are not asked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.config import DEFAULT_FEATURES, load_config
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Rejections
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import FilterPlugin, PreFilterPlugin, ReservePlugin
from stowplan.scheduler.framework.runtime.binding import run_pre_bind_pre_flights, run_reserve
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import SKIP, unschedulable
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.scheduling.worlds import clusters, pods, state_of, struct


def framework_of(state, *plugins):
    """All in-tree plugins, and these."""
    registry = in_tree_registry()
    for plugin in plugins:
        registry.register(plugin)
    enabled = [{"name": plugin.name} for plugin in plugins]
    profile = {"plugins": {"multiPoint": {"enabled": enabled}}}
    raw = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    config = load_config(raw, plugins=registry.declarations)
    handle = Handle(cluster=state, profile_name="default-scheduler", features=DEFAULT_FEATURES)
    return Framework(config.profiles[0], registry, handle)


@given(clusters(), pods(), st.data())
@examples(200)
def test_who_is_left_out_has_nothing_to_say(cluster, pod, data):
    """The rule that the shortcut is held to: the plugin asked in full, and what it would have done."""
    state = state_of(*cluster)
    framework = framework_of(state)
    info = state.pod_info(struct(pod))
    node = data.draw(st.sampled_from(state.table.names))
    everyone, asked, cycle = framework.everyone, framework.applicable_plugins(info.shape), CycleState()
    for plugin in set(everyone.signers) - set(asked.signers):
        assert plugin.sign_pod(info) == {}
    left_out = set(everyone.cluster_dependent_pre_filters) - set(asked.cluster_dependent_pre_filters)
    assert {plugin.name for plugin in left_out} <= asked.skip_filter
    for name in asked.skip_filter:
        assert framework.plugins[name].pre_filter(cycle, info, Nodes(state)) is SKIP
        if name in framework.pod_counters:
            assert framework.pod_counters[name].filter_holds(cycle, info)
            assert framework.plugins[name] not in framework.pre_score or (
                framework.plugins[name].pre_score(cycle, info, Nodes(state)) is SKIP
            )
    for plugin in set(everyone.reserve) - set(asked.reserve):
        assert plugin.reserve(cycle, info, node) is None
        plugin.unreserve(CycleState(), info, node)
    for plugin in set(everyone.pre_bind) - set(asked.pre_bind):
        assert plugin.pre_bind_pre_flight(cycle, info, node) is SKIP


def test_plain_pods_are_no_business_of_those_about_volumes_and_devices():
    """Lest the property holds because nobody ignores anybody."""
    framework = framework_of(state_of([struct(a_node("n").obj())]))
    plain = framework.applicable_plugins(framework.handle.pod_info(struct(a_pod("p").obj())).shape)
    names = {p.name for line in (plain.reserve, plain.pre_bind, plain.cluster_dependent_pre_filters) for p in line}
    assert not names & {"VolumeBinding", "DynamicResources", "NodeVolumeLimits", "VolumeRestrictions", "VolumeZone"}
    mounting = framework.handle.pod_info(struct(a_pod("q").claims_volume("c").obj()))
    assert "VolumeBinding" in {p.name for p in framework.applicable_plugins(mounting.shape).reserve}


class Choosy(ReservePlugin):
    name = "Choosy"

    def reserve(self, state, pod, node_name):
        return unschedulable("no")

    def unreserve(self, state, pod, node_name):
        pass

    def ignores(self, shape):
        return "team" not in shape.labels


class Own(Choosy):
    """It has a Reserve of its own, so its base does not speak for it."""

    name = "Own"

    def reserve(self, state, pod, node_name):
        return unschedulable("mine")


def reserved(plugin, pod, *, sampled=False):
    state = state_of([struct(a_node("n").obj())])
    framework = framework_of(state, plugin)
    info = framework.handle.pod_info(struct(pod.obj()))
    cycle = CycleState()
    if sampled:
        cycle.plugin_times = Times()
    return run_reserve(framework, cycle, info, "n")


class Times:
    def time(self, point, plugin, call, *args):
        return call(*args)


def test_a_plugin_is_asked_about_the_shapes_that_it_minds():
    assert reserved(Choosy, a_pod("p")) is None
    assert reserved(Choosy, a_pod("p").labels(team="a")).reasons == ("no",)


def test_a_plugin_that_derives_from_it_speaks_for_itself():
    assert reserved(Own, a_pod("p")).reasons == ("mine",)


def test_all_are_asked_in_a_cycle_whose_calls_are_timed():
    assert reserved(Choosy, a_pod("p"), sampled=True).reasons == ("no",)


class Refuses(PreFilterPlugin, FilterPlugin):
    name = "Refuses"

    def pre_filter(self, state, pod, nodes):
        return None

    def filter(self, state, pod, nodes):
        return Rejections.where(np.ones(len(nodes), bool), "no")

    def ignores(self, shape):
        return "team" not in shape.labels


@pytest.mark.parametrize("sampled", [False, True])
def test_who_ignores_a_pod_filters_nothing(sampled):
    """In a cycle whose calls are timed, everyone is called; this one's PreFilter returns no Skip."""
    framework = framework_of(state_of([struct(a_node("n").obj())]), Refuses)
    for pod, active in ((a_pod("p"), sampled), (a_pod("q").labels(team="a"), True)):
        cycle = CycleState()
        cycle.plugin_times = Times() if sampled else None
        nodes = Nodes(framework.handle.cluster)
        assert framework.run_pre_filter(cycle, framework.handle.pod_info(struct(pod.obj())), nodes).status is None
        assert ("Refuses" in {plugin.name for plugin in framework.active_filters(cycle)}) == active


def test_pre_flights_of_a_pod_that_concerns_nobody():
    framework = framework_of(state_of([struct(a_node("n").obj())]))
    info = framework.handle.pod_info(struct(a_pod("p").obj()))
    assert run_pre_bind_pre_flights(framework, CycleState(), info, "n") == (SKIP, [])
