"""Ownership of fields after creates, updates and patches."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan_cluster.apiserver.managed_fields import keep_times, record_update
from stowplan_cluster.apiserver.managed_fields.field_sets import path_text, paths
from stowplan_cluster.apiserver.managed_fields.managers import ManagedEntry, ManagerKey, capped, written
from stowplan_cluster.apiserver.managed_fields.object_comparison import compare
from stowplan_cluster.apiserver.schema import struct_named
from stowplan_cluster.apiserver.schema.type_model import MAP, SET, ListType, MapType, Scalar, Struct

POD = struct_named("io.k8s.api.core.v1.Pod")
PRIORITY_CLASS = struct_named("io.k8s.api.scheduling.v1.PriorityClass")
DEPLOYMENT = struct_named("io.k8s.api.apps.v1.Deployment")
CONFIG_MAP = struct_named("io.k8s.api.core.v1.ConfigMap")
METADATA = struct_named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
WIDGET = Struct(
    "",
    {
        "apiVersion": Scalar.STRING,
        "kind": Scalar.STRING,
        "metadata": METADATA,
        "spec": Struct(
            "",
            {
                "size": Scalar.INT64,
                "tags": ListType(Scalar.STRING, kind=SET),
                "parts": ListType(Struct("", {"id": Scalar.INT64, "color": Scalar.STRING}), kind=MAP, keys=("id",)),
                "extra": Struct("", preserve_unknown=True),
            },
        ),
        "status": Struct("", {"ready": Scalar.BOOL}),
    },
)
T = [f"2026-01-01T00:00:{second:02}Z" for second in range(60)]


def config_map(data=None, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "default", **metadata},
        **({"data": data} if data is not None else {}),
    }


def recorded(old, new, manager="me", *, type=CONFIG_MAP, subresource="", api_version="v1", time=T[0], **options):
    """The new object with its managed fields."""
    new = copy.deepcopy(new)
    record_update(
        old=copy.deepcopy(old),
        new=new,
        type=type,
        manager=manager,
        subresource=subresource,
        api_version=api_version,
        time=time,
        **options,
    )
    return new


def updated(old, manager, time=T[1], *, type=CONFIG_MAP, subresource="", api_version="v1", **changes):
    new = {**copy.deepcopy(old), **changes}
    return recorded(old, new, manager, type=type, subresource=subresource, api_version=api_version, time=time)


def entries(obj):
    return obj["metadata"].get("managedFields", [])


def owned(obj, manager, operation="Update"):
    """The paths that a manager owns, sorted."""
    found = [e for e in entries(obj) if (e["manager"], e["operation"]) == (manager, operation)]
    return sorted(path_text(path) for entry in found for path in paths(entry["fieldsV1"]))


def managers(obj):
    return [entry["manager"] for entry in entries(obj)]


def test_an_entry_has_its_fields_in_their_order():
    obj = recorded(None, config_map({"a": "1"}, labels={"x": "y"}, uid="u", resourceVersion="1", generation=1))
    (entry,) = entries(obj)
    assert list(entry.items()) == [
        ("manager", "me"),
        ("operation", "Update"),
        ("apiVersion", "v1"),
        ("time", T[0]),
        ("fieldsType", "FieldsV1"),
        ("fieldsV1", {"f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {".": {}, "f:x": {}}}}),
    ]


def widget(**spec):
    return {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def test_custom_objects_own_the_paths_to_their_fields_too():
    obj = widget(size=1, tags=["b", "a"], parts=[{"id": 2}, {"id": 10}], extra={"deep": {"list": [{}], "x": {}}})
    (entry,) = entries(recorded(None, {**obj, "status": {"ready": True}}, type=WIDGET, api_version="x.io/v1"))
    assert entry["fieldsV1"] == {
        "f:spec": {
            ".": {},
            "f:extra": {".": {}, "f:deep": {".": {}, "f:list": {}, "f:x": {}}},
            "f:parts": {".": {}, 'k:{"id":2}': {".": {}, "f:id": {}}, 'k:{"id":10}': {".": {}, "f:id": {}}},
            "f:size": {},
            "f:tags": {".": {}, 'v:"a"': {}, 'v:"b"': {}},
        }
    }
    assert list(entry["fieldsV1"]["f:spec"]["f:parts"]) == [".", 'k:{"id":2}', 'k:{"id":10}']


def test_without_a_status_endpoint_status_is_owned_like_the_rest():
    obj = {**widget(size=1), "status": {"ready": True}}
    assert ".status.ready" in owned(recorded(None, obj, type=WIDGET, api_version="x.io/v1", reset={}), "me")


def test_changing_a_field_takes_ownership():
    obj = recorded(None, config_map({"a": "1", "b": "1"}), "first")
    obj = updated(obj, "second", data={"a": "2", "b": "1", "c": "1"})
    assert owned(obj, "first") == [".data", ".data.b"]
    assert owned(obj, "second") == [".data.a", ".data.c"]
    assert [entry["time"] for entry in entries(obj)] == [T[0], T[1]]


def test_a_manager_without_fields_is_removed():
    obj = updated(recorded(None, config_map({"a": "1"}), "first"), "second", immutable=True)
    assert managers(obj) == ["first", "second"]
    assert managers(updated(obj, "third", immutable=False)) == ["first", "third"]


def test_removed_fields_have_no_owner():
    obj = recorded(None, config_map({"a": "1"}), "first")
    obj = recorded(obj, {key: value for key, value in obj.items() if key != "data"}, "second", time=T[1])
    assert entries(obj) == []


def test_the_same_manager_keeps_one_entry_an_endpoint_and_version():
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "a"}}
    obj = recorded(None, pod, type=POD)
    obj = updated(obj, "me", type=POD, subresource="status", status={"phase": "Running"}, spec={"nodeName": "b"})
    assert [(e["manager"], e.get("subresource"), e["time"]) for e in entries(obj)] == [
        ("me", None, T[0]),
        ("me", "status", T[1]),
    ]
    assert owned(obj, "me") == [".spec.nodeName", ".status.phase"]


def test_a_status_update_does_not_own_spec_nor_labels_of_deployments():
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 1}}
    obj = recorded(None, obj, type=DEPLOYMENT, api_version="apps/v1")
    changed = {
        "metadata": {**obj["metadata"], "labels": {"a": "b"}, "annotations": {"a": "b"}},
        "status": {"replicas": 1},
    }
    obj = updated(obj, "ctl", type=DEPLOYMENT, subresource="status", api_version="apps/v1", **changed)
    assert owned(obj, "ctl") == [".metadata.annotations", ".metadata.annotations.a", ".status.replicas"]


def test_an_unchanged_object_records_nothing():
    obj = recorded(None, config_map({"a": "1"}), "first")
    assert updated(obj, "second") == obj
    assert recorded(obj, config_map({"a": "1"}), "second", time=T[9]) == obj


def test_time_is_updated_only_with_changes():
    obj = recorded(None, config_map({"a": "1", "b": "1"}))
    assert [e["time"] for e in entries(updated(obj, "me", T[5], data={"a": "1", "b": "1"}))] == [T[0]]
    assert [e["time"] for e in entries(updated(obj, "me", T[5], data={"a": "2", "b": "1"}))] == [T[5]]
    assert [e["time"] for e in entries(updated(obj, "other", T[5], data={"a": "2", "b": "1"}))] == [T[0], T[5]]


@pytest.mark.parametrize("reset", [pytest.param([], id="empty list"), pytest.param([{}], id="empty entry")])
def test_managed_fields_can_be_reset(reset):
    obj = recorded(None, config_map({"a": "1"}))
    cleared = recorded(obj, config_map({"a": "1"}, managedFields=reset))
    assert entries(cleared) == []
    assert entries(updated(cleared, "me", data={"a": "2"})) == [], "not tracked until an apply"


def test_an_endpoint_cannot_reset_them():
    obj = recorded(None, config_map({"a": "1"}))
    new = config_map({"a": "1"}, managedFields=[])
    assert recorded(obj, new, subresource="status") == obj


def test_managed_fields_can_be_written():
    obj = recorded(None, config_map({"a": "1", "b": "1"}), "first")
    sent = [{**entries(obj)[0], "manager": "renamed"}]
    assert managers(recorded(obj, config_map({"a": "1", "b": "1"}, managedFields=sent))) == ["renamed"]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param("x", id="text"),
        pytest.param([1], id="a number"),
        pytest.param([{"manager": "x"}], id="no operation"),
        pytest.param([{"operation": "Update", "fieldsType": "FieldsV1"}], id="no version"),
        pytest.param([{"operation": "Update", "apiVersion": "v1"}], id="no type"),
        pytest.param([{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV2"}], id="an unknown type"),
        pytest.param(
            [{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}],
            id="broken fields",
        ),
        pytest.param(
            [{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "manager": 1}], id="no name"
        ),
    ],
)
def test_invalid_managed_fields_are_ignored(sent):
    obj = recorded(None, config_map({"a": "1"}), "first")
    assert recorded(obj, config_map({"a": "1"}, managedFields=sent)) == obj
    assert managers(recorded(None, config_map({"a": "1"}, managedFields=sent), "me")) == ["me"]


def test_an_object_that_cannot_be_tracked_has_no_managed_fields():
    obj = widget(tags=[{"a": 1}])
    assert entries(recorded(None, obj, type=WIDGET, api_version="x.io/v1")) == []


def test_managers_must_have_names():
    assert managers(recorded(None, config_map({"a": "1"}), "")) == ["unknown"]


def test_elements_with_duplicate_keys_are_owned_together():
    def ports(*names):
        port = [{"containerPort": 80, "protocol": "TCP", "name": name} for name in names]
        spec = {"containers": [{"name": "c", "ports": port}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}

    element = '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"]'

    def below(obj, manager):
        return [path.removeprefix(element) for path in owned(obj, manager) if path.startswith(element)]

    single = recorded(None, ports("a"), "one", type=POD)
    assert below(single, "one") == ["", ".containerPort", ".name", ".protocol"]
    twins = recorded(single, ports("a", "b"), "two", type=POD)
    assert (below(twins, "one"), below(twins, "two")) == ([], [""])
    assert below(recorded(None, ports("a", "b"), "one", type=POD), "one") == [""]
    changed = recorded(twins, ports("a", "c"), "three", type=POD)
    assert (below(changed, "two"), below(changed, "three")) == ([], [""])
    again = recorded(twins, ports("a"), "three", type=POD)
    assert (below(again, "two"), below(again, "three")) == ([], ["", ".containerPort", ".name", ".protocol"])


def test_a_field_that_became_atomic_is_owned_as_a_whole():
    obj = recorded(None, widget(size=1, extra={"a": {"b": 1}}), "first", type=WIDGET, api_version="x.io/v1")
    atomic = copy.deepcopy(WIDGET)
    atomic.fields["spec"].fields["extra"].atomic = True
    obj = updated(obj, "second", type=atomic, api_version="x.io/v1", spec={**obj["spec"], "size": 2})
    assert owned(obj, "first") == [".spec", ".spec.extra"]


@pytest.mark.parametrize(
    ("old", "new", "changed", "removed"),
    [
        pytest.param({"a": 1}, {"a": "x"}, [".a"], [], id="another scalar"),
        pytest.param({"a": {"b": 1}}, {"a": 1}, [".a"], [".a.b"], id="an object becomes a value"),
        pytest.param({"a": 1}, {"a": {"b": 1}}, [".a", ".a.b"], [], id="a value becomes an object"),
        pytest.param({"a": {}}, {"a": None}, [".a"], [], id="empty and null"),
        pytest.param({"a": None}, {"a": {"b": 1}}, [".a.b"], [], id="null is filled"),
        pytest.param({"a": {"b": 1}}, {"a": {}}, [], [".a.b"], id="emptied"),
        pytest.param({"a": {"b": 1}}, {}, [], [".a", ".a.b"], id="gone"),
        pytest.param({"a": [1]}, {"a": [2]}, [".a"], [], id="a list of no type"),
    ],
)
def test_changes_of_untyped_values(old, new, changed, removed):
    changes = compare(old, new, Struct("", preserve_unknown=True))
    found = [sorted(map(path_text, paths(fields))) for fields in changes]
    assert found == [changed, removed]


def entry(version, fields, hour):
    return ManagedEntry(version, {f"f:{name}": {} for name in fields}, f"2026-01-01T{hour:02}:00:00Z")


def key(name, version="v1", operation="Update"):
    return ManagerKey(name, operation, version if operation == "Update" else "", "")


def test_old_updates_are_merged_into_ancient_changes():
    many = {key(f"m{i:02}"): entry("v1", f"{i}", i) for i in range(12)}
    few = capped(many)
    assert len(few) == 10
    assert few[key("ancient-changes")] == ManagedEntry(
        "v1", {"f:0": {}, "f:1": {}, "f:2": {}}, T[0].replace("00:00:00", "02:00:00")
    )
    assert capped(few) is few
    more = capped({**few, key("m99"): entry("v1", "z", 20)})
    assert set(more[key("ancient-changes")].fields) == {"f:0", "f:1", "f:2", "f:3"}


def test_only_updates_of_one_version_are_merged():
    many = {key(f"m{i}", f"v{i % 6}"): entry(f"v{i % 6}", "a", i) for i in range(12)}
    many[key("applier", operation="Apply")] = entry("v1", "a", 0)
    few = capped(many)
    assert sorted(k.api_version for k in few if k.manager == "ancient-changes") == ["v0", "v1"]
    assert key("applier", operation="Apply") in few
    assert len(few) == 11


def test_distinct_versions_are_never_merged():
    many = {key("m", f"v{i}"): entry(f"v{i}", "a", i) for i in range(12)}
    assert capped(many) == many


def test_entries_are_sorted():
    found = {
        key("b"): entry("v1", "a", 2),
        key("a"): entry("v1", "a", 2),
        key("z"): entry("v1", "a", 1),
        key("y", operation="Apply"): entry("v1", "a", 9),
        key("x", operation="Apply"): replace(entry("v1", "a", 9), time=""),
    }
    assert [e["manager"] for e in written(found)] == ["x", "y", "z", "a", "b"]


def test_times_alone_are_no_change():
    old = recorded(None, config_map({"a": "1"}))
    new = copy.deepcopy(old)
    entries(new)[0]["time"] = T[7]
    keep_times(old=old, new=new)
    assert new == old


def test_changed_times_are_recorded_with_other_changes():
    old = recorded(None, config_map({"a": "1"}))
    new = copy.deepcopy(old)
    entries(new)[0]["time"] = T[7]
    new["data"]["a"] = "2"
    before = copy.deepcopy(new)
    keep_times(old=old, new=new)
    assert new == before


VALUES = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["1", "2", "3"]), max_size=4)
WRITES = st.lists(st.tuples(st.sampled_from(["ann", "bob", "cat"]), VALUES), min_size=1, max_size=6)
FLAT = Struct("io.k8s.example.Flat", {"metadata": METADATA, "data": MapType(Scalar.STRING)})


@given(WRITES)
def test_each_key_is_owned_by_its_last_writer(writes):
    """Compared with a plain table of last writers."""
    obj, last = None, {}
    for second, (manager, data) in enumerate(writes):
        before = obj["data"] if obj else {}
        new = {"metadata": copy.deepcopy(obj["metadata"]) if obj else {"name": "x"}, "data": data}
        last = {k: last[k] if k in before and before[k] == value else manager for k, value in data.items()}
        obj = recorded(obj, new, manager, type=FLAT, time=T[second])
        if not entries(obj):
            # An object whose managed fields have all been removed is no longer tracked.
            return
        found = {path[-1]: m for m in ("ann", "bob", "cat") for path in owned(obj, m) if path.startswith(".data.")}
        assert found == last


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2),
        "tags": st.lists(st.sampled_from("abc"), unique=True),
        "parts": st.dictionaries(st.integers(0, 2), st.sampled_from(["red", "blue"]), max_size=3).map(
            lambda parts: [{"id": number, "color": color} for number, color in parts.items()]
        ),
        "extra": st.dictionaries(st.sampled_from("ab"), st.dictionaries(st.sampled_from("xy"), st.integers(0, 1))),
    },
)


def flat(value, type, path=""):
    """Each path with its value; containers that go on below have none."""
    if isinstance(value, dict) and value:
        inside = [(f".{k}", v, type.fields.get(k) if isinstance(type, Struct) else None) for k, v in value.items()]
    elif isinstance(value, list) and value and type is not None:
        inside = [(step_of(item), item, type.element) for item in value]
    else:
        return {path: None if value in ({}, []) else value}
    return {path: None} | {p: v for step, item, t in inside for p, v in flat(item, t, path + step).items()}


def step_of(item):
    return f"[id={item['id']}]" if isinstance(item, dict) else f'[="{item}"]'


@given(SPECS, SPECS)
def test_changes_agree_with_a_flat_comparison(old, new):
    spec = WIDGET.fields["spec"]
    before, after = flat(old, spec), flat(new, spec)
    found = [set(map(path_text, paths(fields))) for fields in compare(old, new, spec)]
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    assert found == [changed, before.keys() - after.keys()]


@pytest.mark.parametrize(("value", "owned"), [(0, False), (7, True)])
def test_zero_values_that_are_always_written_have_no_owner(value, owned):
    new = {"metadata": {"name": "p"}, "value": value, "description": "d"}
    record_update(
        old=None,
        new=new,
        type=PRIORITY_CLASS,
        manager="m",
        subresource="",
        api_version="scheduling.k8s.io/v1",
        time=T[0],
    )
    (entry,) = new["metadata"]["managedFields"]
    assert ("f:value" in entry["fieldsV1"]) is owned
    assert "f:description" in entry["fieldsV1"]
