"""The embedded API as a whole: initial objects, custom resources, restoring from a file."""

import pytest

from stowplan.kube.api.api_errors import BadRequest
from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan_cluster.apiserver.api_server import NAMESPACES
from stowplan_cluster.apiserver.registry import Options
from support.api import manifests
from support.api.embedded import Api, pod

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
WIDGETS = "widgets.example.com"
GROUPS = "podgroups.scheduling.k8s.io"


@pytest.fixture
def api():
    return Api()


def widget(name="w", **spec):
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"color": "red", **spec}}


def test_initial_objects(api):
    assert api.names("namespaces") == sorted(NAMESPACES)
    assert api.names("priorityclasses.scheduling.k8s.io") == ["system-cluster-critical", "system-node-critical"]


def test_filling_is_idempotent(api):
    objects = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}]
    api.server.create_all(objects)
    version = api.store.version
    api.server.create_all(objects)
    assert (api.names("nodes"), api.store.version) == (["n1"], version)


def test_objects_to_fill_in_must_fit_their_kind(api):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"colour": "red"}}
    with pytest.raises(BadRequest, match=r'unknown field "spec\.colour"'):
        api.server.create_all([node])


def test_an_unknown_kind_cannot_be_filled_in(api):
    with pytest.raises(ValueError, match=r"kind 'Widget' of apiVersion 'example\.com/v1' is not served"):
        api.server.create_all([{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}])


class TestCustomResources:
    def test_are_served_with_their_definition(self, api):
        with pytest.raises(AssertionError):
            api.resource(WIDGETS)
        api.create(CRDS, manifests.definition())
        obj = api.create(WIDGETS, widget()).to_dict()
        assert (obj["apiVersion"], obj["spec"]) == ("example.com/v1", {"color": "red", "size": 3})
        conditions = api.get(CRDS, "", WIDGETS)["status"]["conditions"]
        assert {one["type"]: one["status"] for one in conditions} == {"NamesAccepted": "True", "Established": "True"}

    def test_have_a_status_subresource(self, api):
        api.create(CRDS, manifests.definition())
        obj = api.create(WIDGETS, {**widget(), "status": {"replicas": 9}}).to_dict()
        assert "status" not in obj
        obj["status"] = {"replicas": 2}
        obj["spec"]["size"] = 7
        obj = api.update(WIDGETS, obj, subresource="status").to_dict()
        assert (obj["status"], obj["spec"]["size"], obj["metadata"]["generation"]) == ({"replicas": 2}, 3, 1)

    def test_are_deleted_with_their_definition(self, api):
        api.create(CRDS, manifests.definition())
        api.create(WIDGETS, widget())
        api.delete(CRDS, "", WIDGETS)
        assert api.store.list(WIDGETS) == []
        assert api.server.catalogue.of_storage(WIDGETS) is None

    def test_selectable_fields(self, api):
        from stowplan_cluster.apiserver.listing import ListOptions

        definition = manifests.definition()
        definition["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.color"}]
        api.create(CRDS, definition)
        for name, color in (("a", "red"), ("b", "blue")):
            api.create(WIDGETS, widget(name, color=color))
        page = api.registry.list(api.resource(WIDGETS), "", ListOptions(field_selector="spec.color=blue"))
        assert [one.name for one in page.items] == ["b"]


def test_taint_rules_are_served_in_both_versions(api):
    older = api.server.catalogue.find("resource.k8s.io", "v1alpha3", "devicetaintrules")
    spec = {"taint": {"key": "k", "effect": "NoSchedule"}}
    made = {"apiVersion": older.api_version, "kind": older.kind, "metadata": {"name": "broken"}, "spec": spec}
    api.registry.create(older, "", made)
    found = api.get("devicetaintrules.resource.k8s.io", "", "broken")
    assert found["apiVersion"] == "resource.k8s.io/v1beta2"
    assert found["spec"]["taint"].items() >= spec["taint"].items()


class TestState:
    def test_everything_is_restored(self, tmp_path):
        first = Api(state=tmp_path / "state")
        first.create(CRDS, manifests.definition())
        first.create(WIDGETS, widget())
        first.create("pods", pod(), options=Options(field_manager="me"))
        first.server.close()
        again = Api(state=tmp_path / "state")
        assert again.store.version == first.store.version
        assert again.get("pods", "default", "p") == first.get("pods", "default", "p")
        assert again.get(CRDS, "", WIDGETS) == first.get(CRDS, "", WIDGETS), "the latest status is lost"
        assert again.get(WIDGETS, "default", "w")["spec"]["size"] == 3
        again.create(WIDGETS, widget("second"))
        again.server.close()

    @pytest.mark.parametrize(("first", "second", "mode"), [(V1_36, V1_37, {"all": {}}), (V1_37, V1_36, "PodGroup")])
    def test_groups_of_a_cluster_of_another_version(self, tmp_path, first, second, mode):
        spec = {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}} if first == V1_37 else "PodGroup"}
        before = Api(state=tmp_path / "state", version=first)
        before.create(GROUPS, {"metadata": {"name": "g", "namespace": "default"}, "spec": spec})
        before.server.close()
        after = Api(state=tmp_path / "state", version=second)
        found = after.get(GROUPS, "default", "g")
        assert found["apiVersion"] == after.resource(GROUPS).api_version
        assert found["spec"]["disruptionMode"] == mode
        after.server.close()
