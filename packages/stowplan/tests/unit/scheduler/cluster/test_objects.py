"""Lookups in the store, and what its watches report, compared with a plain rule that scans everything.

Objects are added, changed and deleted in random order, also in transactions that are undone or committed. A watch must
report a change exactly when an object that its dependencies name is not the same as at the last read. (Objects are
replaced, never modified, so the plain rule compares by identity.)
"""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api import types as t
from stowplan.scheduler.cluster.objects import ANY_OBJECT, ObjectDependency, ObjectIndex, ObjectStore, ObjectWatch
from support.examples import examples

BY_APP = ObjectIndex("app", lambda obj: obj.metadata.labels.get("app", "").split())

KINDS = (t.Service, t.PersistentVolumeClaim)
NAMES, NAMESPACES, APPS = ("a", "b", "c"), ("", "default", "blue"), ("", "web", "db", "web db")

DEPENDENCIES = (
    ANY_OBJECT,
    *(ObjectDependency.of_kind(kind) for kind in KINDS),
    *(ObjectDependency.in_namespace(kind, ns) for kind in KINDS for ns in ("default", "blue", "none")),
    *(ObjectDependency.named(kind, key) for kind in KINDS for key in ("a", "default/a", "blue/b", "none/c")),
    *(ObjectDependency.indexed(t.Service, BY_APP, app) for app in ("web", "db", "none")),
)


def an_object(kind, name, namespace, app):
    labels = {"app": app} if app else {}
    return kind(metadata=t.ObjectMeta(name=name, namespace=namespace, labels=labels))


objects = st.builds(
    an_object, st.sampled_from(KINDS), st.sampled_from(NAMES), st.sampled_from(NAMESPACES), st.sampled_from(APPS)
)


def named_by(store, dependency):
    """The objects that a dependency names, found by scanning all."""
    kind, index, value = dependency
    everything = [obj for of_kind in KINDS for obj in store.all(of_kind)]
    of_kind = [obj for obj in everything if kind is None or type(obj) is kind]
    return {id(obj): obj for obj in of_kind if index is None or value in index.values(obj)}


class Watched:
    def __init__(self, store, dependencies):
        self.store, self.dependencies = store, dependencies
        self.watch = ObjectWatch(store, dependencies)
        self.read()

    def read(self):
        self.watch.read()
        self.known = [named_by(self.store, d) for d in self.dependencies]

    def check(self, *, exactly):
        changed = [named_by(self.store, d) for d in self.dependencies] != self.known
        assert not (changed and not self.watch.changed()), "missed a change"
        if exactly:
            assert self.watch.changed() == changed


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), objects),
        st.tuples(st.just("remove"), objects),
        st.tuples(st.just("watch"), st.lists(st.sampled_from(DEPENDENCIES), max_size=3)),
        st.tuples(st.sampled_from(("read", "forget", "look up", "begin", "undo", "keep")), st.integers(0, 5)),
    ),
    max_size=40,
)


def test_watches_and_indexes_agree_with_a_scan():
    @examples(300)
    @given(steps)
    def holds(steps):
        store, watches, marks = ObjectStore(), [], []
        for what, which in steps:
            if what in ("put", "remove"):
                getattr(store, what)(which)
            elif what == "watch":
                watches.append(Watched(store, which))
            elif what == "read" and watches:
                watches[which % len(watches)].read()
            elif what == "forget" and watches:
                del watches[which % len(watches)]
            elif what == "look up":
                store.indexed(t.Service, BY_APP, "web")
            elif what == "begin":
                marks.append(store.begin())
            elif what in ("undo", "keep") and marks:
                getattr(store, what)(marks.pop())
            for watched in watches:
                # One that was undone by hand, not by a transaction, may be reported, too.
                watched.check(exactly=False)
            for dependency in DEPENDENCIES:
                if dependency.by is not None:
                    found = store.indexed(dependency.kind, dependency.by, dependency.value)
                    assert {id(obj) for obj in found} == set(named_by(store, dependency))

    holds()


def named(dependency):
    """An ID that is the same in each test process."""
    kind, index, value = dependency
    return f"{kind.__name__} {index.name if index else ''} {value}".strip() if kind else "any"


@pytest.mark.parametrize("dependency", DEPENDENCIES, ids=named)
@pytest.mark.parametrize("change", ["come", "change", "go"])
def test_a_change_is_reported_exactly_where_it_matters(dependency, change):
    for kind in KINDS:
        for namespace in NAMESPACES:
            store = ObjectStore()
            old, new = an_object(kind, "a", namespace, "web"), an_object(kind, "a", namespace, "db")
            if change != "come":
                store.put(old)
            watched = Watched(store, [dependency])
            watched.check(exactly=True)
            if change == "go":
                store.remove(old)
            else:
                store.put(new if change == "change" else old)
            watched.check(exactly=True)
            watched.read()
            watched.check(exactly=True)


def test_an_undone_transaction_restores_watches():
    store = ObjectStore()
    old, new = an_object(t.Service, "a", "default", "web"), an_object(t.Service, "a", "default", "db")
    store.put(old)
    before = ObjectWatch(store, [ObjectDependency.named(t.Service, "default/a")])
    mark = store.begin()
    store.put(new)
    assert before.changed()
    inside = ObjectWatch(store, [ObjectDependency.in_namespace(t.Service, "default")])
    store.undo(mark)
    assert not before.changed()
    assert inside.changed()
    assert list(store.all(t.Service)) == [old]


def test_changes_followed_from_within_nested_transactions_are_undone_with_the_outer_one():
    store = ObjectStore()
    outer = store.begin()
    store.put(an_object(t.Service, "a", "default", "web"))
    inner = store.begin()
    log = store.changes(t.Service)
    position = log.position
    store.undo(inner)
    assert log.since(position) is None
    position = log.position
    assert log.since(position) == []
    store.undo(outer)
    assert log.since(position) is None


def test_dropped_watches_cost_nothing():
    store = ObjectStore()
    watch = ObjectWatch(store, [ObjectDependency.named(t.Service, f"default/{i}") for i in range(10)])
    assert len(store._watched) == 10
    del watch
    gc.collect()
    assert not store._watched


def test_an_index_that_fails_on_an_object_misses_no_change():
    by_number = ObjectIndex("number", lambda obj: [str(int(obj.metadata.labels["app"]))])
    store = ObjectStore()
    store.put(an_object(t.Service, "a", "default", "1"))
    watch = ObjectWatch(store, [ObjectDependency.indexed(t.Service, by_number, "1")])
    assert len(store.indexed(t.Service, by_number, "1")) == 1
    store.put(an_object(t.Service, "a", "default", "x"))
    assert watch.changed()
    with pytest.raises(ValueError, match="invalid literal"):
        store.indexed(t.Service, by_number, "1")
    store.put(an_object(t.Service, "a", "default", "2"))
    assert [obj.metadata.name for obj in store.indexed(t.Service, by_number, "2")] == ["a"]


def test_an_index_keeps_nothing_of_objects_that_are_gone():
    store = ObjectStore()
    store.indexed(t.Service, BY_APP, "web")
    for app in ("web", "db", "web db", ""):
        store.put(an_object(t.Service, "a", "default", app))
    store.put(an_object(t.Service, "b", "default", "cache"))
    store.remove(an_object(t.Service, "b", "default", "cache"))
    assert store._found[t.Service, BY_APP] == {}
