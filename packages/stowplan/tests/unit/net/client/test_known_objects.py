"""Changes, derived from the known objects and a new list or event."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.decode import convert
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Pod
from stowplan.net.client.list_watch import Known, Relist, metadata_of
from support.api.clients import a_pod


def pod(name, *, uid="", version="1", namespace="default"):
    return convert(a_pod(name, uid=uid, version=version, namespace=namespace), Pod)


def known_of(*pods):
    known = Known()
    for one in pods:
        known.put(one)
    return known


def test_the_same_version_is_no_change():
    assert known_of(pod("a")).put(pod("a")) == []


def test_another_uid_under_the_name_is_two_changes():
    a, reborn = pod("a"), pod("a", uid="u2", version="2")
    known = known_of(a)
    assert known.put(reborn) == [Change(a, None), Change(None, reborn)]
    assert len(known) == 1


def test_a_removal_has_the_last_known_object():
    a = pod("a")
    known = known_of(a)
    assert known.remove(("default", "a")) == [Change(a, None)]
    assert known.remove(("default", "a")) == []


def test_the_same_name_in_two_namespaces():
    known = known_of(pod("a"), pod("a", namespace="other"))
    assert len(known) == 2


def test_an_abandoned_list_deletes_nothing():
    known = known_of(pod("a"), pod("b"))
    Relist(known).page([pod("a")])
    assert len(known) == 2
    assert Relist(known).page([pod("a"), pod("b")]) == []


def test_undecodable_objects_are_kept_as_they_were():
    known = known_of(pod("a"))
    relist = Relist(known)
    relist.keep(("default", "a"))
    assert relist.end() == []
    assert len(known) == 1


objects = st.builds(
    pod, st.sampled_from("abcd"), uid=st.sampled_from(["u1", "u2"]), version=st.sampled_from(["1", "2", "3"])
)
states = st.lists(objects, max_size=4, unique_by=lambda one: one.metadata.name)


@given(lists=st.lists(st.tuples(states, st.integers(1, 3)), max_size=5))
def test_following_the_changes_gives_the_list(lists):
    known, followed = Known(), {}
    for items, size in lists:
        relist = Relist(known)
        pages = [items[start : start + size] for start in range(0, len(items), size)]
        for change in [change for page in pages for change in relist.page(page)] + relist.end():
            if change.old is not None:
                assert followed.pop(_uid(change.old)) is change.old
            if change.new is not None:
                assert followed.setdefault(_uid(change.new), change.new) is change.new
        assert sorted(map(_identity, followed.values())) == sorted(map(_identity, items))


def _uid(one):
    return one.metadata.name, one.metadata.uid


def _identity(one):
    meta = metadata_of(one)
    return meta.name, meta.uid, meta.resource_version
