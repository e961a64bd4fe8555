"""The verbs for all kinds: create, update, patch, server-side apply, delete, dry run."""

import pytest

from stowplan.kube.api.api_errors import AlreadyExists, ApiError, BadRequest, Conflict, Invalid, NotFound
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.registry import Options
from support.api.embedded import Api, pod


@pytest.fixture
def api():
    return Api()


def config_map(name="c", **data):
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


class TestCreate:
    @pytest.mark.parametrize("empty", ["", None], ids=["empty", "null"])
    def test_missing_kind_and_version_follow_from_the_path(self, api, empty):
        obj = {**config_map(), "apiVersion": empty, "kind": empty}
        stored = api.registry.create(api.resource("configmaps"), "default", obj)
        assert (stored.to_dict()["apiVersion"], stored.to_dict()["kind"]) == ("v1", "ConfigMap")

    def test_missing_metadata(self, api):
        with pytest.raises(Invalid, match="Required value: name or generateName is required"):
            api.registry.create(api.resource("configmaps"), "default", {"metadata": None})

    def test_warnings(self, api):
        options = Options()
        api.create("pods", pod(nodeSelector={"beta.kubernetes.io/os": "linux"}), options=options)
        deprecated = 'deprecated since v1.14; use "kubernetes.io/os" instead'
        assert options.warnings == [f"spec.nodeSelector[beta.kubernetes.io/os]: {deprecated}"]

    def test_the_server_gives_uid_time_and_version(self, api):
        stored = api.create("configmaps", config_map())
        metadata = stored.to_dict()["metadata"]
        assert metadata["creationTimestamp"] == "2027-01-15T08:00:00Z"
        assert metadata["uid"].count("-") == 4
        assert metadata["resourceVersion"] == str(stored.version) == str(api.store.version)

    def test_server_set_fields_of_the_client_are_ignored(self, api):
        obj = config_map()
        obj["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
        metadata = api.create("configmaps", obj).to_dict()["metadata"]
        assert metadata["uid"] != "mine"
        assert metadata["creationTimestamp"] != "2001-01-01T00:00:00Z"
        assert "generation" not in metadata

    def test_names_are_generated(self, api):
        obj = {"metadata": {"generateName": "web-", "namespace": "default"}}
        first, second = (
            api.create("configmaps", obj).name,
            api.create("configmaps", obj | {"metadata": dict(obj["metadata"], name="")}).name,
        )
        assert first.startswith("web-")
        assert len(first) == len("web-") + 5
        assert first != second

    def test_a_generated_name_in_use_is_generated_again(self, api, monkeypatch):
        suffixes = iter(["aaaaa", "aaaaa", "aaaaa", "bbbbb"])
        monkeypatch.setattr(api.registry._names, "suffix", lambda: next(suffixes))
        obj = {"metadata": {"generateName": "web-", "namespace": "default"}}
        assert [api.create("configmaps", obj).name for _ in range(2)] == ["web-aaaaa", "web-bbbbb"]

    def test_generating_names_is_bounded(self, api, monkeypatch):
        monkeypatch.setattr(api.registry._names, "suffix", lambda: "aaaaa")
        obj = {"metadata": {"generateName": "web-", "namespace": "default"}}
        api.create("configmaps", obj)
        with pytest.raises(AlreadyExists):
            api.create("configmaps", obj)

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            pytest.param({"name": ""}, Invalid, "name or generateName is required", id="no name"),
            pytest.param({"name": "Bad_Name"}, Invalid, r'metadata.name: Invalid value: "Bad_Name"', id="bad name"),
            pytest.param(
                {"namespace": "other"},
                BadRequest,
                "the namespace of the provided object does not match",
                id="namespace",
            ),
            pytest.param({"resourceVersion": "7"}, ApiError, "resourceVersion should not be set", id="version"),
        ],
    )
    def test_bad_metadata(self, api, change, error, message):
        obj = config_map()
        obj["metadata"] |= change
        with pytest.raises(error, match=message):
            api.registry.create(api.resource("configmaps"), "default", obj)

    def test_an_existing_name_is_refused(self, api):
        api.create("configmaps", config_map())
        with pytest.raises(AlreadyExists, match='configmaps "c" already exists'):
            api.create("configmaps", config_map())

    def test_the_name_of_a_terminating_object_is_in_use(self, api):
        obj = config_map()
        obj["metadata"]["finalizers"] = ["example.com/hold"]
        api.create("configmaps", obj)
        api.delete("configmaps", "default", "c")
        with pytest.raises(AlreadyExists, match=r'^object is being deleted: configmaps "c" already exists'):
            api.create("configmaps", config_map())

    def test_custom_objects_have_kind_and_version(self, api):
        api.create("customresourcedefinitions.apiextensions.k8s.io", DEFINITION)
        resource = api.resource("queues.example.com")
        with pytest.raises(BadRequest, match="cannot be handled as a Queue: Object 'Kind' is missing in"):
            api.registry.create(resource, "default", {"apiVersion": "example.com/v1", "metadata": {"name": "q"}})

    def test_events_of_both_groups_share_names(self, api):
        with pytest.raises(Invalid, match=r'^Event "e" is invalid: '):
            api.create("events", {"metadata": {"name": "e", "namespace": "default"}, "type": "Loud"})

    def test_the_namespace_must_exist(self, api):
        obj = config_map()
        obj["metadata"]["namespace"] = "none"
        with pytest.raises(NotFound, match='namespaces "none" not found'):
            api.create("configmaps", obj)

    def test_the_kind_must_fit_the_path(self, api):
        with pytest.raises(BadRequest, match="cannot be handled as a ConfigMap"):
            api.create("configmaps", {**config_map(), "kind": "Secret"})
        with pytest.raises(BadRequest, match="does not match the expected API version"):
            api.create("configmaps", {**config_map(), "apiVersion": "v2"})

    def test_unknown_fields_are_dropped_with_a_warning(self, api):
        options = Options(field_validation="Warn")
        stored = api.create("pods", pod(color="red"), options=options)
        assert options.warnings == ['unknown field "spec.color"']
        assert "color" not in stored.to_dict()["spec"]


class TestUpdate:
    def test_without_a_version_it_replaces_any_version(self, api):
        obj = api.create("configmaps", config_map(a="1")).to_dict()
        del obj["metadata"]["resourceVersion"]
        assert api.update("configmaps", {**obj, "data": {"b": "2"}}).to_dict()["data"] == {"b": "2"}

    def test_an_update_without_changes_writes_nothing(self, api):
        stored = api.create("pods", pod())
        api.clock.advance(60)
        assert api.update("pods", stored.to_dict()) is api.registry.get(api.resource("pods"), "default", "p")
        assert api.store.version == stored.version

    def test_server_set_metadata_is_kept(self, api):
        obj = api.create("configmaps", config_map()).to_dict()
        sent = {**obj, "metadata": {"name": "c", "labels": {"x": "y"}}}
        metadata = api.update("configmaps", sent | {"metadata": sent["metadata"] | {"namespace": "default"}}).to_dict()[
            "metadata"
        ]
        assert metadata["uid"] == obj["metadata"]["uid"]
        assert metadata["creationTimestamp"] == obj["metadata"]["creationTimestamp"]
        assert metadata["labels"] == {"x": "y"}

    def test_another_uid_is_refused(self, api):
        obj = api.create("configmaps", config_map()).to_dict()
        obj["metadata"]["uid"] = "other"
        with pytest.raises(Conflict, match="UID in precondition: other"):
            api.update("configmaps", obj)

    def test_generation_counts_changes_of_spec_only(self, api):
        deployment = {
            "metadata": {"name": "d", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]},
            },
        }
        obj = api.create("deployments.apps", deployment).to_dict()
        assert obj["metadata"]["generation"] == 1
        obj["metadata"]["labels"] = {"x": "y"}
        obj = api.update("deployments.apps", obj).to_dict()
        assert obj["metadata"]["generation"] == 1
        obj["spec"]["replicas"] = 3
        assert api.update("deployments.apps", obj).to_dict()["metadata"]["generation"] == 2

    def test_status_and_spec_are_updated_separately(self, api):
        obj = api.create("pods", pod()).to_dict()
        obj["status"]["phase"] = "Running"
        obj["metadata"]["labels"] = {"x": "y"}
        obj = api.update("pods", obj).to_dict()
        assert (obj["status"]["phase"], obj["metadata"]["labels"]) == ("Pending", {"x": "y"})
        obj["status"]["phase"] = "Running"
        obj["spec"]["containers"][0]["image"] = "other"
        obj = api.update("pods", obj, subresource="status").to_dict()
        assert (obj["status"]["phase"], obj["spec"]["containers"][0]["image"]) == ("Running", "i")

    @pytest.mark.parametrize(
        ("storage", "spec"),
        [
            ("leases.coordination.k8s.io", {}),
            ("poddisruptionbudgets.policy", {"minAvailable": 1}),
            ("csinodes.storage.k8s.io", {"drivers": []}),
            ("csidrivers.storage.k8s.io", {}),
            (
                "volumeattachments.storage.k8s.io",
                {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
            ),
        ],
    )
    def test_some_kinds_require_a_version(self, api, storage, spec):
        namespace = {"namespace": "default"} if api.resource(storage).namespaced else {}
        obj = api.create(storage, {"metadata": {"name": "x", **namespace}, "spec": spec}).to_dict()
        del obj["metadata"]["resourceVersion"]
        with pytest.raises(
            Invalid, match=r"metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        ):
            api.update(storage, obj)

    def test_the_name_must_be_that_of_the_path(self, api):
        api.create("configmaps", config_map())
        unnamed = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}
        why = r"the name of the object \(c based on URL\) was undeterminable: name must be provided"
        with pytest.raises(BadRequest, match=why):
            api.registry.update(api.resource("configmaps"), "default", "c", unnamed)
        with pytest.raises(BadRequest, match=r"the name of the object \(d\) does not match the name on the URL \(c\)"):
            api.registry.update(api.resource("configmaps"), "default", "c", config_map("d"))

    def test_fields_restored_by_admission_are_unchanged(self, api):
        obj = api.create("pods", pod()).to_dict()
        del obj["spec"]["priority"]
        metadata = api.update("pods", obj).to_dict()["metadata"]
        assert metadata["generation"] == 1

    @pytest.mark.parametrize("field", ["deletionTimestamp", "deletionGracePeriodSeconds"])
    def test_deletion_metadata_is_not_updated(self, api, field):
        obj = api.create("pods", pod()).to_dict()
        obj["metadata"][field] = {"deletionTimestamp": "2027-01-15T09:00:00Z"}.get(field, 1)
        with pytest.raises(Invalid, match=f"metadata.{field}: Invalid value: .*: field is immutable"):
            api.update("pods", obj)

    def test_true_and_1_are_different_values(self, api):
        revision = {"metadata": {"name": "r", "namespace": "default"}, "data": {"a": 1}, "revision": 1}
        api.create("customresourcedefinitions.apiextensions.k8s.io", DEFINITION)
        api.create("queues.example.com", {"metadata": {"name": "q", "namespace": "default"}, "spec": {"a": 1}})
        obj = api.get("queues.example.com", "default", "q")
        obj["spec"]["a"] = True
        assert api.update("queues.example.com", obj).to_dict()["spec"]["a"] is True
        assert api.get("queues.example.com", "default", "q")["metadata"]["generation"] == 2
        obj = api.create("controllerrevisions.apps", revision).to_dict()
        with pytest.raises(Invalid, match=r"data: Invalid value: .*: field is immutable"):
            api.update("controllerrevisions.apps", {**obj, "data": {"a": True}})


DEFINITION = {
    "metadata": {"name": "queues.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "queues", "kind": "Queue"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


class TestPatch:
    def test_a_status_condition_by_type(self, api):
        api.create("pods", pod())
        for status in ("False", "True"):
            patch = {"status": {"conditions": [{"type": "PodScheduled", "status": status}]}}
            obj = api.patch("pods", "default", "p", patch, kind="strategic", subresource="status").to_dict()
            assert [(one["type"], one["status"]) for one in obj["status"]["conditions"]] == [("PodScheduled", status)]

    def test_a_version_in_the_patch_must_be_the_present_one(self, api):
        stored = api.create("configmaps", config_map())
        patch = {"metadata": {"resourceVersion": str(stored.version), "labels": {"x": "y"}}}
        api.patch("configmaps", "default", "c", patch)
        with pytest.raises(Conflict, match="the object has been modified"):
            api.patch("configmaps", "default", "c", {**patch, "data": {"a": "b"}})

    def test_the_result_is_validated(self, api):
        api.create("pods", pod())
        with pytest.raises(Invalid, match="pod updates may not change fields other than"):
            api.patch("pods", "default", "p", {"spec": {"nodeName": "n1"}})
        assert "nodeName" not in api.get("pods", "default", "p")["spec"]

    @pytest.mark.parametrize(
        ("kind", "patch", "complaint"),
        [
            pytest.param(
                "strategic",
                {"spec": {"priority": "high"}},
                r'^ "" is invalid: patch: Invalid value: "map\[spec:map\[priority:high\]\]": json: cannot unmarshal',
                id="wrong type",
            ),
            pytest.param(
                "strategic",
                {"spec": {"color": "red"}},
                r'Invalid value: "map\[spec:map\[color:red\]\]": strict decoding error: unknown field "spec.color"',
                id="unknown field",
            ),
            pytest.param(
                "merge",
                {"kind": "Node"},
                r'patch: Invalid value: "\{\\"apiVersion\\":\\"v1\\",\\"kind\\":\\"Node\\",',
                id="other kind",
            ),
        ],
    )
    def test_patches_that_do_not_fit_the_kind(self, api, kind, patch, complaint):
        api.create("pods", pod())
        with pytest.raises(Invalid, match=complaint) as caught:
            api.patch("pods", "default", "p", patch, kind=kind, options=Options(field_validation="Strict"))
        assert [cause.field for cause in caught.value.status.details.causes] == ["patch"]

    def test_strategic_patches_need_no_kind(self, api):
        api.create("pods", pod())
        patch = {"kind": "Other", "metadata": {"labels": {"a": "b"}}}
        obj = api.patch("pods", "default", "p", patch, kind="strategic").to_dict()
        assert (obj["kind"], obj["metadata"]["labels"]) == ("Pod", {"a": "b"})


class TestApply:
    def apply(self, api, data, manager="one", **options):
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
        options = Options(field_manager=manager, **options)
        return api.registry.patch(api.resource("configmaps"), "default", "c", obj, kind="apply", options=options)

    def test_applying_again_writes_nothing(self, api):
        first, _ = self.apply(api, {"a": "1"})
        api.clock.advance(60)
        again, _ = self.apply(api, {"a": "1"})
        assert again.version == first.version


class TestDelete:
    def test_finalizers_delay_the_deletion(self, api):
        obj = config_map()
        obj["metadata"]["finalizers"] = ["example.com/hold"]
        api.create("configmaps", obj)
        deletion = api.delete("configmaps", "default", "c")
        assert not deletion.finished
        obj = api.get("configmaps", "default", "c")
        assert obj["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:00Z"
        version = api.store.version
        api.delete("configmaps", "default", "c")
        assert api.store.version == version, "the second deletion changed something"
        obj["metadata"]["finalizers"] = []
        api.update("configmaps", obj)
        assert api.names("configmaps", "default") == []

    def test_starting_the_deletion_increments_the_generation(self, api):
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
        metadata = {"name": "x", "namespace": "default", "finalizers": ["example.com/hold"]}
        api.create("poddisruptionbudgets.policy", {"metadata": metadata, "spec": spec})
        for _ in range(2):
            assert not api.delete("poddisruptionbudgets.policy", "default", "x").finished
            assert api.get("poddisruptionbudgets.policy", "default", "x")["metadata"]["generation"] == 2

    def test_a_namespace_terminates_once(self, api):
        api.create("namespaces", {"metadata": {"name": "team"}})
        for _ in range(2):
            assert not api.delete("namespaces", "", "team").finished
            obj = api.get("namespaces", "", "team")
            assert (obj["status"]["phase"], obj["metadata"]["deletionTimestamp"]) == (
                "Terminating",
                "2027-01-15T08:00:00Z",
            )
            api.clock.advance(5)

    @pytest.mark.parametrize("spec", [{}, {"nodeName": "n1"}], ids=["unbound", "bound"])
    def test_watchers_see_the_zero_grace_period(self, api, spec):
        api.create("pods", pod(**spec))
        seen = []
        api.store.on_change(lambda event: seen.append((event.type, event.stored.to_dict()["metadata"])))
        api.delete("pods", "default", "p", options=DeleteOptions(grace_period_seconds=0))
        told = [(kind, metadata["deletionGracePeriodSeconds"]) for kind, metadata in seen]
        assert told == [("MODIFIED", 0), ("DELETED", 0)]
