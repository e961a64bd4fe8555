"""One serialization for all viewers, and bounded memory per viewer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.ui.event_stream import MAX_BEHIND, Broadcaster
from stowplan.ui.plan import NodeRow, Plan, PlanChange
from support.examples import times
from support.page.client import Client, read_all


def plan(number):
    return Plan({"a": NodeRow("a", (), (), False, (("cpu", number),))})


@pytest.fixture
def broadcast():
    return Broadcaster(plan(0))


def change(number):
    return PlanChange(nodes=plan(number).nodes)


def cpu(client):
    return client.nodes["a"]["allocatable"]["cpu"]


def test_viewers_share_the_very_bytes(broadcast):
    one, other = broadcast.viewer(), broadcast.viewer()
    one.start()
    other.start()
    broadcast.publish(change(1))
    assert next(one.take()) is next(other.take())


def test_a_viewer_that_is_up_to_date_gets_nothing(broadcast):
    viewer = broadcast.viewer()
    viewer.start()
    broadcast.publish(PlanChange())
    assert list(viewer.take()) == []


def test_a_new_viewer_gets_only_the_latest_snapshot(broadcast):
    viewer, client = broadcast.viewer(), Client()
    for number in range(3):
        broadcast.publish(change(number))
    read_all(viewer, client)
    assert (client.snapshots, cpu(client)) == (1, 2)


@pytest.mark.parametrize(("behind", "snapshots"), [(MAX_BEHIND, 1), (MAX_BEHIND + 1, 2), (3 * MAX_BEHIND, 2)])
def test_a_slow_viewer_gets_a_new_snapshot(broadcast, behind, snapshots):
    viewer, client = broadcast.viewer(), Client()
    read_all(viewer, client)
    for number in range(1, behind + 1):
        broadcast.publish(change(number))
        assert viewer.behind <= MAX_BEHIND
    read_all(viewer, client)
    assert (client.snapshots, cpu(client)) == (snapshots, behind)


def test_a_disconnected_viewer_gets_nothing(broadcast):
    viewer = broadcast.viewer()
    viewer.start()
    viewer.leave()
    viewer.leave()
    broadcast.publish(change(1))
    assert viewer.behind == 0


def test_changes_without_viewers_are_in_the_next_snapshot(broadcast):
    broadcast.publish(change(1))
    client = Client()
    read_all(broadcast.viewer(), client)
    assert cpu(client) == 1


@settings(max_examples=times(40))
@given(st.lists(st.tuples(st.integers(1, MAX_BEHIND + 2), st.integers(0, 2)), max_size=6))
def test_slow_viewers_catch_up(lags):
    """Two viewers; in each round some changes occur, and then one, both or none of them read."""
    broadcast, number = Broadcaster(plan(0)), 0
    viewers = [(broadcast.viewer(), Client()) for _ in range(2)]
    for changes, who in lags:
        for _ in range(changes):
            number += 1
            broadcast.publish(change(number))
        for viewer, client in viewers[who : who + 1]:
            read_all(viewer, client)
            assert cpu(client) == number
    for viewer, client in viewers:
        read_all(viewer, client)
        assert cpu(client) == number
