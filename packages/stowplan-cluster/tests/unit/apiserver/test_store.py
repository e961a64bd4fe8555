"""The store: versions, history, watches, lists of earlier versions; and the journal."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import Expired
from stowplan_cluster.apiserver.store import Store, key_of

NAMES = ("a", "b", "a-1", "a.1")
NAMESPACES = ("n", "n-1", "")


def an_object(name, namespace="", *, value=0, owner=None, labels=None):
    metadata = {"name": name, "uid": f"uid-{namespace}-{name}"}
    if namespace:
        metadata["namespace"] = namespace
    if owner:
        metadata["ownerReferences"] = [{"uid": owner}]
    if labels:
        metadata["labels"] = labels
    return {"kind": "Thing", "metadata": metadata, "spec": {"value": value}}


def test_each_write_has_a_new_version():
    store = Store()
    first, second = store.put("things", an_object("a")), store.put("others", an_object("a"))
    assert (first.version, second.version, store.version) == (1, 2, 2)
    assert second.to_dict()["metadata"]["resourceVersion"] == "2"
    assert store.get("things", "", "a") is first


def test_lists_are_in_etcd_order_and_by_namespace():
    store = Store()
    for namespace, name in (("n", "b"), ("n-1", "a"), ("n", "a")):
        store.put("things", an_object(name, namespace))
    # '-' sorts before '/', so objects of n-1 precede those of n.
    assert [one.key for one in store.list("things")] == ["n-1/a", "n/a", "n/b"]
    assert [one.key for one in store.list("things", "n")] == ["n/a", "n/b"]
    assert store.list("things", "none") == []
    assert store.list("unknown") == []


def test_selectable_fields_are_stored_as_text():
    store = Store()
    store.select_fields("things", ("spec.value", "spec.on", "spec.none"))
    obj = an_object("a", value=3)
    obj["spec"]["on"] = True
    stored = store.put("things", obj)
    assert [stored.field(f"spec.{name}") for name in ("value", "on", "none", "other")] == ["3", "true", "", ""]


def test_fields_selected_later_are_read_from_stored_objects():
    store = Store()
    store.put("things", an_object("a", value=3))
    store.select_fields("things", ("spec.value",))
    stored = store.get("things", "", "a")
    assert (stored.field_names, stored.field("spec.value")) == (("spec.value",), "3")


def test_dependents_follow_owner_references():
    store = Store()
    store.put("things", an_object("a", owner="o1"))
    store.put("others", an_object("b", owner="o1"))
    assert [one.resource for one in store.dependents("o1")] == ["things", "others"]
    store.put("things", an_object("a", owner="o2"))
    assert [one.name for one in store.dependents("o1")] == ["b"]
    store.remove(store.get("things", "", "a"))
    assert store.dependents("o2") == []


def test_followers_get_writes_in_order_including_nested_ones():
    store, told = Store(), []

    def answers(event):
        if event.stored.name == "a" and event.stored.version < 3:
            store.put("things", an_object("a", value=event.stored.version))
            told.append("answered")

    store.on_change(answers)
    store.on_change(lambda event: told.append(event.stored.version))
    store.put("things", an_object("a"))
    assert told == ["answered", 1, "answered", 2, 3]


def test_a_failing_follower_does_not_stop_the_others():
    store, told = Store(), []

    def fails(event):
        raise RuntimeError("a bug")

    ends = store.on_change(fails)
    with pytest.raises(RuntimeError):
        store.put("things", an_object("a"))
    ends()
    store.on_change(lambda event: told.append(event.stored.version))
    store.put("things", an_object("b"))
    assert told[-1] == 2


class TestWatch:
    def test_events_after_a_version(self):
        store = Store()
        store.put("things", an_object("a"))
        cursor = store.watch("things", since=1)
        store.put("others", an_object("z"))
        store.put("things", an_object("a", value=1))
        store.remove(store.get("things", "", "a"))
        events = cursor.take()
        assert [(event.type, event.stored.version) for event in events] == [("MODIFIED", 3), ("DELETED", 4)]
        assert events[1].stored.to_dict()["metadata"]["resourceVersion"] == "4"
        assert events[1].previous.version == 3

    def test_wakes_a_reader_once_and_only_if_it_had_read_everything(self):
        store, woken = Store(), []
        cursor = store.watch("things", since=0)
        cursor.wake = lambda: woken.append(store.version)
        store.put("things", an_object("a"))
        assert woken == []
        assert len(cursor.take()) == 1
        assert cursor.take() == []
        store.put("things", an_object("b"))
        store.put("things", an_object("c"))
        assert woken == [2]

    def test_a_closed_cursor_is_not_woken(self):
        store = Store()
        cursor = store.watch("things", since=0)
        cursor.wake = lambda: pytest.fail("woken after close")
        cursor.take()
        cursor.close()
        store.put("things", an_object("a"))

    def test_a_slow_reader_gets_expired(self):
        store = Store(history_changes=8)
        cursor = store.watch("things", since=0)
        for value in range(20):
            store.put("things", an_object("a", value=value))
        with pytest.raises(Expired, match="too old resource version"):
            cursor.take()

    def test_history_is_bounded_in_bytes_too(self):
        store = Store(history_bytes=10_000)
        for _ in range(200):
            store.put("things", an_object("a" * 100))
        with pytest.raises(Expired):
            store.watch("things", since=1)
        assert store.watch("things", since=store.version - 5).take()

    def test_future_versions_are_refused(self):
        with pytest.raises(Expired, match="too large resource version"):
            Store().watch("things", since=5)

    def test_a_restored_store_has_no_history(self):
        store = Store()
        loaded = an_object("a")
        loaded["metadata"]["resourceVersion"] = "7"
        store.load([("things", loaded)], version=9)
        for storage in ("things", "others"):
            with pytest.raises(Expired):
                store.watch(storage, since=8)
            assert store.watch(storage, since=9).take() == []
        assert store.get("things", "", "a").version == 7
        assert store.put("things", an_object("b")).version == 10


writes = st.lists(
    st.tuples(st.sampled_from(["put", "put", "remove"]), st.sampled_from(NAMESPACES), st.sampled_from(NAMES)),
    max_size=30,
)


def _write(store, model, step, value):
    verb, namespace, name = step
    live = store.get("things", namespace, name)
    if verb == "put":
        stored = store.put("things", an_object(name, namespace, value=value, owner=f"o{value % 3}"))
        model[stored.key] = stored.data
    elif live is not None:
        store.remove(live)
        del model[live.key]


@given(writes, st.data())
def test_any_version_in_the_history_can_be_listed(steps, data):
    store, model, past = Store(), {}, {}
    for value, step in enumerate(steps):
        _write(store, model, step, value)
        past[store.version] = copy.copy(model)
    past[0] = {}
    version = data.draw(st.sampled_from(sorted(past)))
    namespace = data.draw(st.sampled_from(["", "n", "n-1"]))
    wanted = sorted(
        (key, value) for key, value in past[version].items() if key.startswith(f"{namespace}/" * bool(namespace))
    )
    assert [(one.key, one.data) for one in store.list_at("things", namespace, version)] == wanted


@given(writes)
def test_the_index_of_dependents_agrees_with_a_scan(steps):
    store, model = Store(), {}
    for value, step in enumerate(steps):
        _write(store, model, step, value)
    for owner in ("o0", "o1", "o2"):
        scanned = {one.key for one in store.list("things") if owner in one.owners}
        assert {one.key for one in store.dependents(owner)} == scanned


def test_keys_are_those_of_etcd():
    assert (key_of("ns", "x"), key_of("", "x")) == ("ns/x", "x")
