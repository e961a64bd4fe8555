"""Writes with some stages disabled: what is lost, and that everything else is unchanged."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import AlreadyExists, BadRequest, Conflict, Invalid, NotFound
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.types import Pod
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from stowplan_cluster.apiserver.registry import ALL_STAGES, Options, Stages
from support.api import manifests
from support.api.embedded import Api
from support.examples import examples

NAMES = ("admission", "managed-fields", "validation")
NONE = Stages.without(NAMES)
SUBSETS = [names for size in range(len(NAMES) + 1) for names in combinations(NAMES, size)]
BINDING = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}


def test_all_are_on_by_default():
    assert Stages.without(()) == ALL_STAGES == Stages(admission=True, managed_fields=True, validation=True)


def test_the_error_for_an_unknown_stage_lists_the_stages():
    with pytest.raises(ValueError, match="no stage is called b, c; there are admission, managed-fields, validation"):
        Stages.without(["c", "admission", "b"])


@pytest.mark.parametrize("names", SUBSETS, ids=lambda names: "+".join(names) or "nothing left out")
async def test_objects_are_decoded_bound_watched_and_deleted(names):
    api = Api(stages=Stages.without(names))
    embedded = EmbeddedApi(api.server)
    version = (await embedded.list(Pod)).resource_version
    api.create("nodes", manifests.node("n1"))
    created = api.create("pods", manifests.pod())
    assert decode_json(created.data, Pod).spec.containers[0].image == "nginx:1.27"
    await embedded.bind(namespace="default", name="web", uid=created.uid, node="n1")
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    api.patch("pods", "default", "web", ready, kind="strategic", subresource="status")
    assert (await embedded.get(Pod, "web", namespace="default")).spec.node_name == "n1"
    await embedded.delete(Pod, "web", namespace="default", grace_period_seconds=0)
    events = embedded.watch(Pod, resource_version=version, timeout_seconds=0.01)
    seen = [(event.type, event.object.spec.node_name, event.object.status.phase) async for event in events]
    assert seen[:3] == [("ADDED", "", "Pending"), ("MODIFIED", "n1", "Pending"), ("MODIFIED", "n1", "Running")]
    assert seen[-1][0] == "DELETED"


@given(st.sets(st.sampled_from(NAMES)))
@examples(20)
def test_types_versions_and_names_are_always_enforced(names):
    api = Api(stages=Stages.without(names))
    pod = api.create("pods", manifests.pod()).to_dict()
    with pytest.raises(AlreadyExists):
        api.create("pods", manifests.pod())
    with pytest.raises(BadRequest):
        api.create("pods", manifests.pod("typed", nodeSelector="zone"))
    with pytest.raises(BadRequest):
        api.create("pods", manifests.pod("strict", colour="red"), options=Options(field_validation="Strict"))
    with pytest.raises(Invalid):
        api.create("pods", {"metadata": {}, "spec": {}})
    with pytest.raises(NotFound):
        api.delete("pods", "default", "nothing")
    api.patch("pods", "default", "web", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(Conflict):
        api.update("pods", pod)


class TestValidation:
    def test_refuses_and_warns(self):
        bad = manifests.pod("web", restartPolicy="Whenever")
        options = Options()
        with pytest.raises(Invalid, match="restartPolicy"):
            Api().create("pods", bad)
        stored = Api(stages=Stages(validation=False)).create("pods", bad, options=options)
        assert stored.to_dict()["spec"]["restartPolicy"] == "Whenever"
        assert options.warnings == []

    def test_of_an_update(self):
        patch = {"spec": {"nodeName": "n2"}}
        api = Api()
        api.create("pods", manifests.pod())
        with pytest.raises(Invalid, match="pod updates may not change fields"):
            api.patch("pods", "default", "web", patch)
        api = Api(stages=Stages(validation=False))
        api.create("pods", manifests.pod())
        assert api.patch("pods", "default", "web", patch).to_dict()["spec"]["nodeName"] == "n2"

    def test_of_custom_resource_definitions_is_always_on(self):
        definition = {"metadata": {"name": "wrong"}, "spec": {"group": "example.com"}}
        with pytest.raises(Invalid):
            Api(stages=NONE).create("customresourcedefinitions.apiextensions.k8s.io", definition)


class TestAdmission:
    def test_sets_priorities_and_tolerations(self):
        pod = manifests.pod(priorityClassName="system-node-critical", namespace="kube-system")
        full = Api().create("pods", {**pod}).to_dict()["spec"]
        bare = Api(stages=Stages(admission=False)).create("pods", pod).to_dict()["spec"]
        assert (full["priority"], len(full["tolerations"])) == (2_000_001_000, 2)
        assert {"priority", "tolerations"}.isdisjoint(bare)

    def test_stays_disabled_if_controllers_select_plugins(self):
        api = Api(stages=Stages(admission=False))
        api.server.set_admission(enabled=frozenset({"StorageObjectInUseProtection"}))
        claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {}}}
        claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
        assert "finalizers" not in api.create("persistentvolumeclaims", claim).to_dict()["metadata"]

    def test_plugin_names_are_checked_even_if_disabled(self):
        with pytest.raises(ValueError, match="Magic"):
            Api(stages=NONE).server.set_admission(disabled=frozenset({"Magic"}))


class TestManagedFields:
    def test_are_neither_recorded_nor_accepted_from_clients(self):
        full = Api().create("pods", manifests.pod()).to_dict()["metadata"]
        api = Api(stages=Stages(managed_fields=False))
        sent = manifests.pod()
        sent["metadata"]["managedFields"] = full["managedFields"]
        assert "managedFields" not in api.create("pods", sent).to_dict()["metadata"]
        patched = api.patch("pods", "default", "web", {"metadata": {"labels": {"a": "b"}}})
        assert "managedFields" not in patched.to_dict()["metadata"]

    def test_are_recorded_after_an_apply(self):
        """Like an object whose managed fields were cleared."""

        def cleared(api):
            api.create("configmaps", manifests.config_map(a="1", b="1"))
            return api.patch("configmaps", "default", "settings", {"metadata": {"managedFields": [{}]}})

        def steps(api):
            applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
            options = Options(field_manager="applier")
            api.patch("configmaps", "default", "settings", applied, kind="apply", options=options)
            changed = api.patch("configmaps", "default", "settings", {"data": {"b": "2"}})
            return changed.to_dict()["metadata"]["managedFields"]

        full, bare = Api(), Api(stages=Stages(managed_fields=False))
        assert "managedFields" not in cleared(full).to_dict()["metadata"]
        bare.create("configmaps", manifests.config_map(a="1", b="1"))
        assert steps(full) == steps(bare)
