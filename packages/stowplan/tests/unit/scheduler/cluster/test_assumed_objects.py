"""Assumed objects: who sees them, when they end, and how transactions, dumps and watches treat them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan.kube.api import types as t
from stowplan.scheduler.cluster.assumed_objects import AssumeError
from stowplan.scheduler.cluster.objects import ObjectDependency, ObjectIndex, ObjectWatch
from stowplan.scheduler.cluster.recount import problems_of
from stowplan.scheduler.cluster.state import ClusterState
from support.examples import examples

NAMES = ("a", "b", "c")
BY_PHASE = ObjectIndex("phase", lambda volume: [volume.status.phase])


def volume(name, version="1", phase="Available"):
    metadata = t.ObjectMeta(name=name, resource_version=str(version))
    return t.PersistentVolume(metadata=metadata, status=t.PersistentVolumeStatus(phase=phase))


def assumed(state, name):
    return state.assumed.get(t.PersistentVolume, name)


def test_an_assumed_copy_is_returned_to_readers():
    state, copy = ClusterState(), volume("a", phase="Bound")
    state.put_object(volume("a"))
    state.assumed.assume(copy)
    assert assumed(state, "a") is copy
    assert state.objects.get(t.PersistentVolume, "a").status.phase == "Available"
    state.assumed.forget(volume("a", version=2))
    assert assumed(state, "a") is copy, "another version"
    state.assumed.forget(copy)
    state.assumed.forget(copy)
    assert assumed(state, "a") is state.objects.get(t.PersistentVolume, "a")


@pytest.mark.parametrize("new", [volume("a", version=2), None, volume("a", version="")])
def test_a_newer_version_from_the_watch_ends_it(new):
    state = ClusterState()
    state.put_object(volume("a"))
    state.assumed.assume(volume("a", phase="Bound"))
    if new is None:
        state.remove_object(volume("a"))
    else:
        state.put_object(new)
    assert assumed(state, "a") is new
    assert len(state.assumed) == 0


def test_the_same_version_from_the_watch_changes_nothing():
    state, copy = ClusterState(), volume("a", phase="Bound")
    state.put_object(volume("a"))
    state.assumed.assume(copy)
    state.put_object(volume("a"))
    assert assumed(state, "a") is copy


def test_objects_that_cannot_be_assumed():
    state = ClusterState()
    with pytest.raises(AssumeError, match='could not find object "a"'):
        state.assumed.assume(volume("a"))
    state.put_object(volume("a", version=2))
    with pytest.raises(AssumeError, match=r'"a" is out of sync \(stored: 2, assume: 1\)'):
        state.assumed.assume(volume("a"))


def test_watches_notice_an_assumed_object():
    state = ClusterState()
    state.put_object(volume("a"))
    state.put_object(volume("b"))
    log = state.objects.changes(t.PersistentVolume)
    free = ObjectWatch(state.objects, [ObjectDependency.indexed(t.PersistentVolume, BY_PHASE, "Available")])
    other = ObjectWatch(state.objects, [ObjectDependency.named(t.PersistentVolume, "b")])
    position, version = log.position, state.version
    state.assumed.assume(volume("a", phase="Bound"))
    assert (free.changed(), other.changed()) == (True, False)
    assert log.since(position) == ["a"]
    assert state.version != version


def test_a_dump_contains_them():
    state, other, copy = ClusterState(), ClusterState(), volume("a", phase="Bound")
    state.put_object(volume("a"))
    state.assumed.assume(copy)
    other.put_object(volume("b"))
    other.assumed.assume(volume("b", phase="Bound"))
    other.load(state.dump())
    assert assumed(other, "a") == copy
    assert assumed(other, "b") is None
    assert len(other.assumed) == 1


steps = st.lists(
    st.tuples(
        st.sampled_from(("put", "remove", "assume", "assume", "forget", "begin", "undo", "keep")),
        st.sampled_from(NAMES),
    ),
    max_size=40,
)


@given(steps)
@examples(200)
def test_transactions_restore_them(steps):
    """Compared with a plain rule: dictionaries that are copied when a transaction begins."""
    state, watched, copies, open_ = ClusterState(), {}, {}, []
    for version, (what, name) in enumerate(steps, 1):
        if what == "put":
            watched[name] = volume(name, version)
            copies.pop(name, None)
            state.put_object(watched[name])
        elif what == "remove" and name in watched:
            copies.pop(name, None)
            state.remove_object(watched.pop(name))
        elif what == "assume" and name in watched:
            copies[name] = replace(watched[name], status=t.PersistentVolumeStatus(phase=f"Phase{version}"))
            state.assumed.assume(copies[name])
        elif what == "forget" and name in watched:
            state.assumed.forget(watched[name])
            copies.pop(name, None)
        elif what == "begin":
            transaction = state.transaction()
            transaction.__enter__()
            open_.append((transaction, dict(watched), dict(copies)))
        elif what in ("undo", "keep") and open_:
            transaction, old_watched, old_copies = open_.pop()
            if what == "undo":
                transaction.rollback()
                watched, copies = old_watched, old_copies
            else:
                transaction.commit()
        for one in NAMES:
            assert assumed(state, one) is copies.get(one, watched.get(one))
        assert not problems_of(state)
    while open_:
        open_.pop()[0].rollback()
