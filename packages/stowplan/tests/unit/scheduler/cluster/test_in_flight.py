"""Objects in flight: a decision's version of an object is used until the watch has caught up."""

import pytest

from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.types import ResourceClaim
from stowplan.scheduler.cluster.state import ClusterState
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


def test_a_decisions_version_is_kept_despite_watch_events(state):
    state.in_flight.hold(KEY, DECIDED, "p")
    state.put_object(claim("2", labels={"a": "b"}))
    assert newest(state) is DECIDED
    assert state.in_flight.is_held(ResourceClaim, KEY)
    assert state.in_flight.latest(ResourceClaim, KEY).metadata.resource_version == "2"
    state.in_flight.release(ResourceClaim, KEY, "p")
    assert newest(state).metadata.resource_version == "2"


def test_a_written_version_is_kept_until_the_watch_has_caught_up(state):
    written = claim("5", status=allocation("g0"))
    state.in_flight.hold(KEY, DECIDED, "p")
    state.in_flight.wrote(written)
    state.put_object(claim("4"))
    assert newest(state) is written is state.in_flight.latest(ResourceClaim, KEY)
    assert not state.in_flight.is_held(ResourceClaim, KEY)
    state.put_object(claim("5", status=allocation("g0")))
    assert len(state.in_flight) == 0


def test_a_deleted_object_drops_the_written_version(state):
    state.in_flight.wrote(claim("5"))
    state.remove_object(claim())
    assert newest(state) is None


def test_a_transaction_undoes_it(state):
    version = state.objects.version(ResourceClaim)
    with state.transaction():
        state.in_flight.hold(KEY, DECIDED, "p")
        assert state.objects.version(ResourceClaim) != version
    assert newest(state) is not DECIDED
    assert state.objects.version(ResourceClaim) == version


def test_a_shared_copy_is_kept_until_both_release_it(state):
    state.in_flight.hold(KEY, DECIDED, "p")
    state.in_flight.share(ResourceClaim, KEY, "q")
    state.in_flight.release(ResourceClaim, KEY, "r")
    assert state.in_flight.held(ResourceClaim, KEY) == (DECIDED, ("p", "q"))
    state.in_flight.release(ResourceClaim, KEY, "p")
    assert state.in_flight.held(ResourceClaim, KEY) == (DECIDED, ("q",))
    state.in_flight.release(ResourceClaim, KEY, "q")
    assert not state.in_flight.is_held(ResourceClaim, KEY)


def test_a_write_is_seen_by_all_who_share_the_copy(state):
    state.in_flight.hold(KEY, DECIDED, "p")
    state.in_flight.share(ResourceClaim, KEY, "q")
    state.in_flight.wrote(claim("5", status=allocation("g0")))
    state.in_flight.release(ResourceClaim, KEY, "q")
    assert newest(state).metadata.resource_version == "5"
