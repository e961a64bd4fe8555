"""The store of simulated time: the effect of each request on an object, and refusals."""

import pytest

from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.api_errors import Invalid, NotFound
from stowplan.kube.api.custom_objects import custom_resource
from stowplan.kube.api.decode import convert
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Namespace, Node, Pod
from stowplan.scheduler.framework.requests import Create, Delete, Patch, Update
from stowplan.testing import a_node, a_pod

NOW = 1_800_000_000.0
NOW_TEXT = "2027-01-15T08:00:00Z"


def pod(built=None):
    return convert((built or a_pod("web")).obj(), Pod)


@pytest.fixture
def store():
    return ObjectStore()


def written(store, request, now=NOW):
    [change] = store.write(request, now)
    return change


def created(store, obj, now=NOW):
    return written(store, Create(obj=obj), now).new


def delete(kind=Pod, name="web", namespace="default", **preconditions):
    return Delete(kind=kind, namespace=namespace, name=name, **preconditions)


def stored(store, kind=Pod, name="web", namespace="default"):
    return store.get(kind, namespace, name)


# -- create ------------------------------------------------------------------------------------------------------------


def test_a_created_object_gets_what_it_lacks(store):
    change = written(store, Create(obj=convert({"metadata": {"name": "web"}, "spec": {}}, Pod)))
    metadata = change.new.metadata
    assert change.old is None
    assert (metadata.namespace, metadata.resource_version, metadata.creation_timestamp) == ("default", "1", NOW_TEXT)
    assert metadata.uid
    assert stored(store) is change.new


def test_given_fields_are_kept(store):
    brought = pod(a_pod("web", "prod").uid("u1").created("2020-01-01T00:00:00Z"))
    metadata = created(store, brought).metadata
    assert (metadata.namespace, metadata.uid, metadata.creation_timestamp) == ("prod", "u1", "2020-01-01T00:00:00Z")


def test_its_spec_is_shared(store):
    brought = pod()
    assert created(store, brought).spec is brought.spec


def test_versions_grow_over_all_kinds(store):
    versions = [created(store, one).metadata.resource_version for one in (pod(), convert(a_node("n1").obj(), Node))]
    assert versions == ["1", "2"]
    assert store.version == 2


def test_uids_differ(store):
    objs = [convert({"metadata": {"generateName": "web-"}}, Pod) for _ in range(3)]
    found = [created(store, one).metadata for one in objs]
    assert len({one.uid for one in found}) == len({one.name for one in found}) == 3
    assert all(one.name.startswith("web-") for one in found)


def test_other_kinds_have_no_generation(store):
    assert created(store, convert(a_node("n1").obj(), Node)).metadata.generation == 0


def test_cluster_scoped_objects_have_no_namespace(store):
    created(store, convert(a_node("n1").obj(), Node))
    assert store.get(Node, "", "n1").metadata.namespace == ""


def test_one_without_a_name_is_refused(store):
    with pytest.raises(Invalid, match=r"metadata\.name"):
        created(store, Pod())


# -- read --------------------------------------------------------------------------------------------------------------


def test_a_list_is_in_the_order_of_an_api_server(store):
    for namespace, name in (("b", "x"), ("a", "z"), ("a", "y")):
        created(store, pod(a_pod(name, namespace)))
    assert [(one.metadata.namespace, one.metadata.name) for one in store.list(Pod)] == [
        ("a", "y"),
        ("a", "z"),
        ("b", "x"),
    ]
    assert [one.metadata.name for one in store.list(Pod, "b")] == ["x"]
    assert (store.count(Pod), store.count(Node)) == (3, 0)


# -- update ------------------------------------------------------------------------------------------------------------


def test_an_update_replaces_the_object_of_its_version(store):
    before = created(store, pod())
    wanted = pod(a_pod("web").labels(a="b"))
    change = written(store, Update(obj=wanted), NOW + 60)
    assert (change.old, change.new.metadata.labels) == (before, {"a": "b"})
    assert change.new.metadata.creation_timestamp == NOW_TEXT, "set by the server"
    assert change.new.metadata.resource_version == "2"


# -- delete ------------------------------------------------------------------------------------------------------------


def test_objects_are_deleted_at_once(store):
    there = created(store, convert({"metadata": {"name": "ns"}}, Namespace))
    assert written(store, delete(Namespace, "ns", "")) == Change(there, None)
    with pytest.raises(NotFound):
        stored(store, Namespace, "ns", "")


def test_a_deleted_pod_is_marked_first(store):
    there = created(store, pod())
    marked, gone = store.write(delete(), NOW)
    assert (marked.old, marked.new.metadata.deletion_grace_period_seconds) == (there, 0)
    assert gone == Change(marked.new, None)


def test_the_kubelet_ends_only_the_pod_that_it_knows(store):
    uid = created(store, pod(a_pod("web").spec(nodeName="n1"))).metadata.uid
    store.delete(delete(), NOW, grace=29.5)
    marked = stored(store).metadata
    assert (marked.deletion_timestamp, marked.deletion_grace_period_seconds) == ("2027-01-15T08:00:29Z", 30)
    assert store.end("default", "web", "another") is None
    assert store.end("default", "web", uid).new is None
    assert store.end("default", "web", uid) is None


def test_finalizers_keep_an_object_until_the_last_is_gone(store):
    created(store, convert({"metadata": {"name": "ns", "finalizers": ["a"]}}, Namespace))
    marked = written(store, delete(Namespace, "ns", "")).new
    assert marked.metadata.deletion_timestamp == NOW_TEXT
    freed = Patch(kind=Namespace, namespace="", name="ns", body={"metadata": {"finalizers": None}}, type_="merge")
    assert written(store, freed) == Change(marked, None)


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_deleted_pod_with_finalizers_is_finished_and_kept(store, is_deleted):
    there = created(store, convert({"metadata": {"name": "web", "finalizers": ["a"]}, "spec": {"nodeName": "n"}}, Pod))
    if is_deleted:
        store.delete(delete(), NOW, grace=30.0)
    ended = store.end("default", "web", there.metadata.uid).new
    assert (ended.status.phase, ended.metadata.deletion_grace_period_seconds) == (
        ("Failed", 0) if is_deleted else ("Succeeded", None)
    )
    assert store.end("default", "web", there.metadata.uid) is None
    freed = Patch(kind=Pod, namespace="default", name="web", body={"metadata": {"finalizers": []}}, type_="merge")
    assert (written(store, freed).new is None) is is_deleted


# -- patch: the store's part -------------------------------------------------------------------------------------------


def test_a_patch_cannot_change_server_set_fields(store):
    before = created(store, pod()).metadata
    kept = {"name": "other", "generation": 9, "creationTimestamp": None, "deletionTimestamp": NOW_TEXT}
    body = {"metadata": {**kept, "labels": {"a": "b"}}}
    after = written(store, Patch(kind=Pod, namespace="default", name="web", body=body, type_="merge")).new.metadata
    assert (after.name, after.generation, after.deletion_timestamp) == ("web", 1, None)
    assert after.creation_timestamp == before.creation_timestamp


# -- custom resources --------------------------------------------------------------------------------------------------


def test_the_content_of_a_custom_object_agrees_with_its_metadata(store):
    kind = custom_resource("queues.v1.batch.example.com")
    content = {
        "apiVersion": "batch.example.com/v1",
        "kind": "Queue",
        "metadata": {"name": "q", "mine": 1},
        "spec": {"n": 1},
    }
    made = created(store, convert(content, kind))
    assert made.content["metadata"]["resourceVersion"] == made.metadata.resource_version == "1"
    assert made.content["metadata"]["mine"] == 1
    patch = Patch(kind=kind, namespace="default", name="q", body={"spec": {"n": 2}}, type_="merge")
    changed = written(store, patch).new
    assert changed.content["spec"] == {"n": 2}
    assert changed.content["metadata"]["resourceVersion"] == changed.metadata.resource_version == "2"
