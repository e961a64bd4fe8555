"""Reading files as `kubectl -f` does, and reporting all errors in them."""

import io
import json

import pytest

from stowplan.api.load import LoadError, load_files, load_manifests

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


def load(text):
    return load_files(["-"], io.BytesIO(text.encode() if isinstance(text, str) else text))


def names(loaded):
    return [obj.metadata.name for obj in loaded.objects]


def errors_of(text):
    with pytest.raises(LoadError) as caught:
        load(text)
    return list(caught.value.errors)


def test_yaml_with_many_documents():
    loaded = load("# comment\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n---\n" + json.dumps(NODE))
    assert names(loaded) == ["a", "n1"]
    assert [str(source) for source in loaded.sources] == ["stdin: document 1", "stdin: document 3"]
    assert loaded.raw[1] == NODE


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(POD) + "\n" + json.dumps(NODE),
        json.dumps(POD, indent=1) + json.dumps(NODE, indent=1),
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [POD, NODE]}),
        json.dumps(
            {"kind": "List", "items": [{"kind": "List", "items": [POD]}, NODE, {"kind": "List", "items": None}]}
        ),
        "{apiVersion: v1, kind: Pod, metadata: {name: web-0}}\n---\n" + json.dumps(NODE),
        "\ufeff" + json.dumps(POD) + "\n" + json.dumps(NODE),
    ],
    ids=["lines", "concatenated", "List", "nested List", "flow YAML", "byte order mark"],
)
def test_shapes_of_input(text):
    assert names(load(text)) == ["web-0", "n1"]


def test_items_of_a_pod_list_need_no_kind():
    loaded = load(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]}))
    assert [(obj.kind, obj.metadata.name) for obj in loaded.objects] == [("Pod", "a")]
    assert str(loaded.sources[0]) == "stdin: document 1, item 1"


def test_yaml_scalars_are_read_as_kubectl_does():
    metadata = "{name: a, creationTimestamp: 2026-01-01T00:00:00Z, labels: {2: 1:30, true: '5'}}"
    spec = "{hostNetwork: yes, priority: 010, overhead: {cpu: 0.5, memory: 1e3, x: 5}}"
    pod = f"{{apiVersion: v1, kind: Pod, metadata: {metadata}, spec: {spec}}}"
    (obj,) = load(pod).objects
    assert obj.metadata.creation_timestamp == "2026-01-01T00:00:00Z"
    assert obj.metadata.labels == {"2": "1:30", "true": "5"}
    assert (obj.spec.host_network, obj.spec.priority) == (True, 8)
    assert obj.spec.overhead == {"cpu": 0.5, "memory": "1e3", "x": 5}


def test_unknown_kinds_are_skipped_with_a_note():
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    loaded = load(json.dumps({"kind": "List", "items": [deployment, deployment, POD]}))
    assert names(loaded) == ["web-0"]
    assert loaded.notes == ("skipped 2 objects of kind Deployment (apps/v1), which the scheduler does not read",)


def test_invalid_fields_are_reported_with_their_location():
    bad = {**POD, "spec": {"containers": [{"resources": {"requests": {"cpu": "1x"}}}]}}
    (error,) = errors_of(f"{json.dumps(NODE)}\n---\n{json.dumps(bad)}")
    assert error.startswith(
        'stdin: document 2: Pod default/web-0: spec.containers[0].resources.requests[cpu]: "1x" is not a quantity: '
    )
    assert errors_of(json.dumps({**NODE, "spec": {"unschedulable": "no"}})) == [
        "stdin: document 1: Node n1: spec.unschedulable: expected true or false, got a string"
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "stdin: empty, there is no object in it"),
        ("# nothing\n---\n", "stdin: empty, there is no object in it"),
        ("a: b: c", "stdin: line 1, column 5: mapping values are not allowed in this context"),
        ("[]", "stdin: document 1: expected an object with apiVersion and kind, got a list"),
        ("hello", "stdin: document 1: expected an object with apiVersion and kind, got 'hello'"),
        ("foo: bar", "stdin: document 1: apiVersion: missing"),
        ("{apiVersion: v1, kind: Pod}", "stdin: document 1: Pod: metadata.name: missing"),
        (
            "{apiVersion: v1, kind: Pod, metadata: []}",
            "stdin: document 1: Pod: metadata: expected an object, got a list",
        ),
        (b"\xff\xfe\x00", "stdin: not UTF-8 text (byte 0)"),
    ],
    ids=str,
)
def test_unreadable_input(text, error):
    assert errors_of(text) == [error]


def test_a_duplicate_object_is_reported_with_both_locations(tmp_path):
    (tmp_path / "a.yaml").write_text(json.dumps(POD))
    (tmp_path / "b.json").write_text(json.dumps({**POD, "metadata": {"name": "web-0", "namespace": "default"}}))
    with pytest.raises(LoadError) as caught:
        load_files([str(tmp_path / "a.yaml"), str(tmp_path / "b.json")])
    assert str(caught.value) == (
        f"{tmp_path}/b.json: document 1: Pod default/web-0: already given in {tmp_path}/a.yaml: document 1"
    )


def test_a_directory_is_read_without_its_subdirectories(tmp_path):
    (tmp_path / "b.yml").write_text(json.dumps(POD))
    (tmp_path / "a.json").write_text(json.dumps(NODE))
    (tmp_path / "notes.txt").write_text("not an object")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "c.yaml").write_text("broken: [")
    assert names(load_files([str(tmp_path)])) == ["n1", "web-0"]


def test_all_errors_are_raised_at_once(tmp_path):
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "dir").mkdir()
    paths = [str(tmp_path / name) for name in ("missing.yaml", "empty.yaml", "dir")]
    with pytest.raises(LoadError) as caught:
        load_files(paths)
    assert caught.value.errors == (
        f"{paths[0]}: No such file or directory",
        f"{paths[1]}: empty, there is no object in it",
        f"{paths[2]}: a directory without *.yaml, *.yml, *.json files",
    )


# -- folders of other projects


def test_a_scheduler_configuration_among_the_objects_gets_a_hint():
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "metadata": {}}
    assert (
        "give it as the configuration, --config FILE" in load(json.dumps({"kind": "List", "items": [config]})).notes[-1]
    )


def test_skipped_kinds_are_reported_together():
    others = [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}} for kind in ("Secret", "ConfigMap", "Secret")
    ]
    loaded = load(json.dumps({"kind": "List", "items": [*others, POD]}))
    assert loaded.notes == ("skipped 3 objects of kinds that the scheduler does not read: 1 ConfigMap, 2 Secret",)


def test_a_plain_equals_sign_is_text():
    loaded = load("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {sign: =, pair: a=b}}\n=: =\n")
    assert loaded.objects[0].metadata.labels == {"sign": "=", "pair": "a=b"}
    assert loaded.raw[0]["="] == "="


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "setup").mkdir()
    (tmp_path / "setup" / "node.yaml").write_text(json.dumps(NODE))
    (tmp_path / "setup" / "README.md").write_text("not for us")
    (tmp_path / "pod.yaml").write_text(json.dumps(POD))
    (tmp_path / "kustomization.yaml").write_text("resources: [pod.yaml]")
    return tmp_path


def test_subfolders_are_read_on_request(folder):
    assert names(load_files([str(folder)])) == ["web-0"]
    assert names(load_files([str(folder)], recursive=True)) == ["web-0", "n1"]


def test_kustomization_files_are_skipped(folder):
    notes = load_files([str(folder)]).notes
    assert notes == (f"{folder}/kustomization.yaml: skipped, `kubectl kustomize {folder}` builds what it says",)
    with pytest.raises(LoadError, match="apiVersion: missing"):
        load_files([str(folder / "kustomization.yaml")])


@pytest.mark.parametrize("text", ["", "# apiVersion: v1\n# kind: Secret\n", "---\n"])
def test_a_file_with_only_comments_is_skipped(folder, text):
    (folder / "off.yaml").write_text(text)
    found = load_files([str(folder)])
    assert names(found) == ["web-0"]
    assert f"{folder}/off.yaml: skipped, there is no object in it" in found.notes


def test_a_folder_with_only_commented_out_files(tmp_path):
    (tmp_path / "off.yaml").write_text("# nothing")
    with pytest.raises(LoadError, match="there is no object in its files"):
        load_files([str(tmp_path)])


def test_a_folder_with_only_subfolders_gets_a_hint(folder):
    (folder / "pod.yaml").unlink()
    (folder / "kustomization.yaml").unlink()
    with pytest.raises(LoadError, match="-R reads its folders"):
        load_files([str(folder)])


def test_manifests_report_skipped_kinds_too(folder):
    notes = []
    found = load_manifests([str(folder)], recursive=True, report=notes.append)
    assert [raw["kind"] for _, raw in found] == ["Pod", "Node"]
    assert len(notes) == 1
    assert "kustomization.yaml: skipped" in notes[0]
