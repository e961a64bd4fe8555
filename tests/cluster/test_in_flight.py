"""Objects in flight: what a decision makes of an object holds until the watch has told of it."""

import pytest

from stowplan.api.decode import decode_object
from stowplan.api.types import ResourceClaim
from stowplan.cluster.state import ClusterState
from support.plugins.devices import a_claim, allocation, exactly


def claim(version="1", **fields):
    return decode_object(a_claim("c", exactly(), resourceVersion=version, **fields))


DECIDED = claim("1", status=allocation("g0"))
KEY = "default/c"


@pytest.fixture
def state():
    state = ClusterState()
    state.put_object(claim())
    return state


def newest(state):
    return state.in_flight.newest(ResourceClaim, KEY)


def test_a_decision_holds_whatever_the_watch_tells(state):
    state.in_flight.hold(KEY, DECIDED, "p")
    state.put_object(claim("2", labels={"a": "b"}))
    assert newest(state) is DECIDED
    assert state.in_flight.is_held(ResourceClaim, KEY)
    assert state.in_flight.latest(ResourceClaim, KEY).metadata.resource_version == "2"
    state.in_flight.release(ResourceClaim, KEY, "p")
    assert newest(state).metadata.resource_version == "2"


def test_what_is_written_holds_until_the_watch_comes_up_to_it(state):
    written = claim("5", status=allocation("g0"))
    state.in_flight.hold(KEY, DECIDED, "p")
    state.in_flight.wrote(written)
    state.put_object(claim("4"))
    assert newest(state) is written is state.in_flight.latest(ResourceClaim, KEY)
    assert not state.in_flight.is_held(ResourceClaim, KEY)
    state.put_object(claim("5", status=allocation("g0")))
    assert len(state.in_flight) == 0


def test_the_end_of_an_object_is_the_end_of_what_was_written(state):
    state.in_flight.wrote(claim("5"))
    state.remove_object(claim())
    assert newest(state) is None


def test_a_transaction_takes_it_back(state):
    version = state.objects.version(ResourceClaim)
    with state.transaction():
        state.in_flight.hold(KEY, DECIDED, "p")
        assert state.objects.version(ResourceClaim) != version
    assert newest(state) is not DECIDED
    assert state.objects.version(ResourceClaim) == version


def test_who_shares_a_copy_keeps_it_when_the_other_gives_it_up(state):
    state.in_flight.hold(KEY, DECIDED, "p")
    state.in_flight.share(ResourceClaim, KEY, "q")
    state.in_flight.release(ResourceClaim, KEY, "r")
    assert state.in_flight.held(ResourceClaim, KEY) == (DECIDED, ("p", "q"))
    state.in_flight.release(ResourceClaim, KEY, "p")
    assert state.in_flight.held(ResourceClaim, KEY) == (DECIDED, ("q",))
    state.in_flight.release(ResourceClaim, KEY, "q")
    assert not state.in_flight.is_held(ResourceClaim, KEY)


def test_what_is_written_is_so_for_all_who_share_it(state):
    state.in_flight.hold(KEY, DECIDED, "p")
    state.in_flight.share(ResourceClaim, KEY, "q")
    state.in_flight.wrote(claim("5", status=allocation("g0")))
    state.in_flight.release(ResourceClaim, KEY, "q")
    assert newest(state).metadata.resource_version == "5"
