"""Devices tainted by DeviceTaintRules: which pods they exclude, and which pods a change wakes."""

import pytest
from msgspec.structs import replace

from stowplan.kube.api.decode import decode_object
from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.kube.config.features import default_features
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.scheduler.framework.events import Action, Hint
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import Features
from stowplan.scheduler.in_tree.dynamic_resources.hints import events
from stowplan.scheduler.in_tree.dynamic_resources.inventory import Inventory
from stowplan.scheduler.in_tree.dynamic_resources.plugin import features_of
from stowplan.testing import a_node, a_pod
from support.plugins.devices import DRIVER, a_device, a_slice, a_taint_rule
from support.scheduling.worlds import state_of

RULES = Features(device_taint_rules=True)
OWN = {"key": "own", "effect": "NoExecute"}


def a_state(*objects):
    slices = [a_slice(node, a_device("g0", taints=[OWN]), a_device("g1"), nodeName=node) for node in ("a", "b")]
    return state_of([a_node("a"), a_node("b")], objects=[*slices, *objects])


def tainted(state, inventory):
    """(pool, device) -> the keys of its taints."""
    inventory.refresh()
    return {
        (view.name, device.name): [taint.key for taint in device.content.taints]
        for row in range(state.table.n)
        for view, _ in inventory.world(row).pools
        for device in view.devices
        if device.content.taints
    }


A0, A1, B0, B1 = ("a", "g0"), ("a", "g1"), ("b", "g0"), ("b", "g1")


@pytest.mark.parametrize(
    ("selector", "concerned"),
    [
        ({}, {A0, A1, B0, B1}),
        ({"driver": DRIVER}, {A0, A1, B0, B1}),
        ({"driver": "other"}, set()),
        ({"pool": "a"}, {A0, A1}),
        ({"device": "g1"}, {A1, B1}),
        ({"driver": DRIVER, "pool": "b", "device": "g0"}, {B0}),
        ({"driver": "other", "pool": "b", "device": "g0"}, set()),
    ],
)
def test_a_rule_taints_the_devices_that_it_selects(selector, concerned):
    state = a_state(a_taint_rule(**selector))
    found = tainted(state, Inventory(state, RULES))
    assert {device for device, keys in found.items() if "broken" in keys} == concerned
    assert {device for device, keys in found.items() if "own" in keys} == {A0, B0}


def test_taints_come_and_go_with_their_rules():
    state = a_state()
    inventory = Inventory(state, RULES)
    before = tainted(state, inventory)
    state.put_object(decode_object(a_taint_rule("z", key="z", pool="a", device="g1")))
    state.put_object(decode_object(a_taint_rule("y", key="y", pool="a")))
    assert tainted(state, inventory) == {A0: ["own", "y"], A1: ["y", "z"], B0: ["own"]}
    state.put_object(decode_object(a_taint_rule("y", key="y", pool="b")))
    assert tainted(state, inventory) == {A0: ["own"], A1: ["z"], B0: ["own", "y"], B1: ["y"]}
    state.put_object(decode_object(a_slice("a", a_device("g1"), a_device("g2"), nodeName="a")))
    assert tainted(state, inventory)[A1] == ["z"]
    for name in ("y", "z"):
        state.remove_object(decode_object(a_taint_rule(name)))
    assert tainted(state, inventory) == {B0: before[B0]}


def test_tainted_devices_change_the_nodes_code():
    state = a_state()
    inventory = Inventory(state, RULES)
    inventory.refresh()
    assert inventory.codes[0] == inventory.codes[1]
    state.put_object(decode_object(a_taint_rule(pool="a")))
    inventory.refresh()
    assert inventory.codes[0] != inventory.codes[1]


def test_without_the_gate_rules_are_ignored():
    assert features_of(DEFAULT_FEATURES).device_taint_rules
    assert not features_of(default_features(V1_36)).device_taint_rules
    both = {"DRADeviceTaintRules": True, "DRADeviceTaints": False}
    assert not features_of(DEFAULT_FEATURES.with_gates(both)).device_taint_rules
    state = a_state(a_taint_rule())
    assert tainted(state, Inventory(state, Features())) == {A0: ["own"], B0: ["own"]}
    assert all("TaintRule" not in e.event.resource for e in events(a_handle(state), Features()))


def a_handle(state):
    return Handle(cluster=state, profile_name="p", features=DEFAULT_FEATURES)


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, {"pool": "a"}, Hint.QUEUE),
        (None, {"pool": "c"}, Hint.SKIP),
        ({"device": "g7"}, {"device": "g1"}, Hint.QUEUE),
        ({"device": "g1"}, {"device": "g7"}, Hint.QUEUE),
        ({"device": "g1"}, {"device": "g1"}, Hint.SKIP),
        ({"driver": DRIVER}, None, Hint.QUEUE),
    ],
)
def test_a_change_of_taints_wakes_pods(old, new, hint):
    state = a_state()
    rules = [None if selector is None else decode_object(a_taint_rule(**selector)) for selector in (old, new)]
    if new is not None:
        rules[1] = replace(rules[1], metadata=replace(rules[1].metadata, labels={"some": "change"}))
    (registered,) = [e for e in events(a_handle(state), RULES) if "TaintRule" in e.event.resource]
    assert registered.event.action & Action.Delete
    assert registered.hint(state.pod_info(decode_object(a_pod().obj())), *rules) is hint
