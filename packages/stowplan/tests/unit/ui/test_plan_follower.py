"""The incrementally followed plan equals a new one, and costs nothing without viewers."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.kube.api.decode import decode_object
from stowplan.kube.timing.times import ManualTime, settle
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.ui.event_stream import PlanStreams
from stowplan.ui.plan import Plan, plan_of
from stowplan.ui.plan_follower import INTERVAL, PlanFollower, stream_plan
from support.examples import times
from support.page.client import Client
from support.what_if.objects import node, pod

NAMES, NODES = ["p", "q", "r"], ["a", "b", "gone"]


def a_pod(name, uid, node_name="", cpu="1", terminating=False):
    made = pod(name, cpu=cpu) | {}
    made["metadata"] |= {"uid": uid, "labels": {"app": cpu}}
    if node_name:
        made["spec"]["nodeName"] = node_name
    if terminating:
        made["metadata"]["deletionTimestamp"] = "2026-11-24T10:00:00Z"
    return decode_object(made)


def a_node(name, cpu):
    return decode_object(node(name, cpu=cpu))


OPERATIONS = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NODES[:2]), st.sampled_from("48")),
    st.tuples(st.just("no node"), st.sampled_from(NODES[:2])),
    st.tuples(
        st.just("bound"),
        st.sampled_from(NAMES),
        st.sampled_from("12"),
        st.sampled_from(NODES),
        st.sampled_from("12"),
        st.booleans(),
    ),
    st.tuples(st.just("pending"), st.sampled_from(NAMES), st.sampled_from("12"), st.sampled_from("12")),
    st.tuples(st.just("not pending"), st.sampled_from(NAMES)),
    st.tuples(st.just("assume"), st.sampled_from(NAMES), st.sampled_from(NODES[:2])),
    st.tuples(st.just("forget"), st.sampled_from(NAMES), st.sampled_from("12")),
    st.tuples(st.just("removed"), st.sampled_from(NAMES), st.sampled_from("12")),
    st.tuples(st.just("look")),
)


def uid_of(name, number):
    return f"{name}{number}"


def do(state, operation):
    match operation:
        case ["node", name, cpu]:
            state.add_node(a_node(name, cpu))
        case ["no node", name]:
            state.remove_node(name)
        case ["bound", name, number, node_name, cpu, terminating]:
            # Only one pod has a name at a time: the other is deleted before.
            other = uid_of(name, "2" if number == "1" else "1")
            state.remove_pod(other)
            state.pending.remove(f"default/{name}")
            state.add_pod(a_pod(name, uid_of(name, number), node_name, cpu, terminating))
        case ["pending", name, number, cpu]:
            if state.placed(uid_of(name, "1")) is None and state.placed(uid_of(name, "2")) is None:
                state.pending.put(state.pod_info(a_pod(name, uid_of(name, number), cpu=cpu)))
        case ["not pending", name]:
            state.pending.remove(f"default/{name}")
        case ["assume", name, node_name]:
            info = state.pending.get(f"default/{name}")
            if info is not None and state.placed(info.uid) is None:
                state.assume(info, node_name)
        case ["forget", name, number]:
            info = state.placed(uid_of(name, number))
            if info is not None and state.is_assumed(info.uid):
                state.forget(info)
        case ["removed", name, number]:
            state.remove_pod(uid_of(name, number))


def begun(state):
    follower = PlanFollower(state)
    follower.begin()
    return follower


@settings(max_examples=times(150))
@given(st.lists(OPERATIONS, max_size=8), st.lists(st.tuples(OPERATIONS, st.booleans()), max_size=20))
def test_the_followed_plan_equals_a_new_one(before, after):
    state = ClusterState()
    for operation in before:
        do(state, operation)
    follower = begun(state)
    told = follower.plan.copy()
    for operation, is_undone in after:
        if operation == ("look",):
            told.apply(follower.changes())
            assert told == follower.plan == plan_of(state)
        elif is_undone:
            with state.transaction():
                do(state, operation)
        else:
            do(state, operation)
    told.apply(follower.changes())
    assert told == follower.plan == plan_of(state)
    assert not follower.changes()


def test_changes_between_the_slices_are_seen(monkeypatch):
    monkeypatch.setattr("stowplan.ui.plan_follower._SLICE", 1)
    state = ClusterState()
    state.add_node(a_node("a", "4"))
    for name in NAMES:
        state.add_pod(a_pod(name, name, "a"))
    follower = PlanFollower(state)
    list(follower.begin_with_nodes())
    slices = follower.go_on_with_pods()
    told = Plan(dict(follower.plan.nodes), dict(next(slices)))
    state.remove_pod("p")
    state.remove_pod("r")
    state.add_pod(a_pod("s", "s", "a"))
    for rows in slices:
        told.pods.update(rows)
    told.apply(follower.changes())
    assert told == follower.plan == plan_of(state)
    assert set(follower.plan.pods) == {"default/q", "default/s"}


def test_nothing_is_sent_after_the_end():
    state = ClusterState()
    follower = begun(state)
    follower.end()
    state.pending.put(state.pod_info(a_pod("p", "p")))
    assert not follower.changes()


async def read_snapshot(pieces, client):
    client.read(await anext(pieces))
    while client.wants_more:
        client.read(await anext(pieces))


async def test_a_feed_is_updated_while_it_has_viewers():
    state, time = ClusterState(), ManualTime()
    state.add_node(a_node("a", "4"))
    streams, client = PlanStreams(times=time), Client()
    following = asyncio.ensure_future(stream_plan(state, streams, times=time))
    await settle()
    assert state._touched is None
    pieces = streams.stream().pieces
    await read_snapshot(pieces, client)
    state.add_pod(a_pod("p", "p", "a"))
    await time.advance(INTERVAL)
    client.read(await anext(pieces))
    assert (client.snapshots, client.pods["default/p"]["node"]) == (1, "a")
    await pieces.aclose()
    await time.advance(INTERVAL)
    assert state._touched is None
    state.remove_pod("p")
    again, later = streams.stream().pieces, Client()
    await read_snapshot(again, later)
    assert later.pods == {}
    await again.aclose()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert state._touched is None
