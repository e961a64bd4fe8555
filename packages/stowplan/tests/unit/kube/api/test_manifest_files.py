"""Reading files as `kubectl -f` does, and reporting all errors in them."""

import gzip
import io
import json

import pytest

from stowplan.kube.api.manifest_files import LoadError, load_files, load_manifests

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
    assert obj.spec.overhead == {"cpu": 0.5, "memory": 1000, "x": 5}


def test_unknown_kinds_are_skipped_with_a_note():
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    other = {**deployment, "metadata": {"name": "e"}}
    loaded = load(json.dumps({"kind": "List", "items": [deployment, other, POD]}))
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
        (b"\xff\xfe\x00", "stdin: not UTF-16 text (byte 2)"),
        (b"a: \xe4", "stdin: not UTF-8 text (byte 3)"),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: web-0, labels: {app: y}}}",
            "stdin: document 1: Pod default/web-0: metadata.labels[app]: expected a string, got true or false; "
            "quote it, as y, n, yes, no, on and off are booleans in YAML",
        ),
        ("a: b\nc: d\x01", "stdin: line 2: character '\\x01' is not allowed"),
        (
            gzip.compress(b"a: b", mtime=0),
            "stdin: compressed: unpack it first, or pass it on: gunzip -c FILE | stowplan ... -f -",
        ),
        (
            "name: {{ .Release.Name }}",
            "stdin: line 1, column 8: found unhashable key; "
            "it looks like a template: render it first, as `helm template` does",
        ),
        (
            "<<<<<<< HEAD\na: b\n",
            "stdin: line 2, column 2: mapping values are not allowed in this context; it has conflict markers of git",
        ),
    ],
    ids=str,
)
def test_unreadable_input(text, error):
    assert errors_of(text) == [error]


def given_twice(folder, first, second):
    (folder / "a.yaml").write_text(json.dumps(first))
    (folder / "b.json").write_text(json.dumps(second))
    return [str(folder / "a.yaml"), str(folder / "b.json")]


NAMESPACED = {**POD, "metadata": {"name": "web-0", "namespace": "default", "labels": {"a": "b"}}}


def test_the_last_of_several_objects_with_one_name_is_used(tmp_path):
    files = given_twice(tmp_path, POD, NAMESPACED)
    loaded = load_files(files)
    assert loaded.raw == (NAMESPACED,)
    assert loaded.notes == (
        "given more than once, the last one is used, as with kubectl apply: "
        f"Pod default/web-0 ({files[0]}: document 1, {files[1]}: document 1)",
    )


def test_a_duplicate_deployment_is_noted_too(tmp_path):
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    newer = {**deployment, "spec": {"replicas": 2}}
    files = given_twice(tmp_path, deployment, newer)
    loaded = load_files(files, others={"Deployment"})
    assert loaded.others == (newer,)
    assert "Deployment web (" in loaded.notes[0]
    notes = []
    assert [raw for _, raw in load_manifests(files, report=notes.append)] == [newer]
    assert notes == [loaded.notes[0]]


def test_the_same_object_twice_needs_no_note(tmp_path):
    loaded = load_files(given_twice(tmp_path, POD, POD))
    assert (names(loaded), loaded.notes) == (["web-0"], ())


def test_equal_names_in_other_namespaces_and_groups_are_no_duplicates():
    other = {**POD, "metadata": {"name": "web-0", "namespace": "other"}}
    events = [
        {"apiVersion": version, "kind": "Event", "metadata": {"name": "x"}} for version in ("v1", "events.k8s.io/v1")
    ]
    found = load_manifests(["-"], io.BytesIO("\n".join(map(json.dumps, [POD, other, *events])).encode()))
    assert len(found) == 4


def test_names_are_made_as_kubectl_create_makes_them():
    pod = {**POD, "metadata": {"generateName": "run-"}}
    loaded = load(json.dumps({"kind": "List", "items": [pod, pod]}))
    assert names(loaded) == ["run-1", "run-2"]
    assert loaded.raw[0]["metadata"]["name"] == "run-1"
    assert loaded.notes == ("made names from generateName, as kubectl create does: run-1, run-2",)


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
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
        for kind, name in (("Secret", "x"), ("ConfigMap", "x"), ("Secret", "y"))
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
    assert notes == (
        f"skipped kustomizations, `kubectl kustomize DIRECTORY` builds what one says: {folder}/kustomization.yaml",
    )
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
    assert "skipped kustomizations" in notes[0]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_files_as_windows_writes_them(encoding):
    text = "apiVersion: v1\r\nkind: Pod\r\nmetadata:\r\n  name: web-0\r\n"
    assert names(load(text.encode(encoding))) == ["web-0"]


def test_a_url_says_what_to_do():
    with pytest.raises(LoadError, match=r"curl -fsSL https://x.example/a.yaml \| stowplan"):
        load_files(["https://x.example/a.yaml"])


# --- input of other tools


def test_patches_of_a_kustomization_are_no_manifests(folder):
    patch = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"}, "spec": {"nodeName": "x"}}
    for name in ("patch.yaml", "setup/strategic.yaml", "json6902.yaml"):
        (folder / name).write_text(json.dumps(patch))
    kustomization = {
        "resources": ["pod.yaml"],
        "patches": [{"path": "patch.yaml"}, {"patch": "- op: remove\n  path: a.yaml"}],
        "patchesStrategicMerge": ["setup/strategic.yaml"],
        "patchesJson6902": [{"path": "json6902.yaml", "target": {"kind": "Pod"}}],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(kustomization))
    found = load_files([str(folder)], recursive=True)
    assert (names(found), found.raw[0]) == (["web-0", "n1"], POD)
    patches = [f"{folder}/{name}" for name in ("json6902.yaml", "patch.yaml", "setup/strategic.yaml")]
    assert found.notes[-1] == f"skipped what kustomizations change objects with: {', '.join(patches)}"


@pytest.mark.parametrize("text", ["patches: 3", "[", "- a", "patches: [{path: 3}, x]", "\xff"])
def test_a_broken_kustomization_is_skipped_too(folder, text):
    (folder / "kustomization.yaml").write_bytes(text.encode("latin-1"))
    assert names(load_files([str(folder)])) == ["web-0"]


def test_a_kustomization_alone_is_an_error(tmp_path):
    (tmp_path / "kustomization.yaml").write_text("resources: [../base]")
    with pytest.raises(LoadError, match=r"`kubectl kustomize DIRECTORY` builds what one says"):
        load_files([str(tmp_path)])


def test_a_chart_is_skipped_whole(folder):
    templates = folder / "chart" / "templates"
    templates.mkdir(parents=True)
    (folder / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: x\n")
    (folder / "chart" / "values.yaml").write_text("a: b\n")
    (templates / "pod.yaml").write_text("{{ .Values }}")
    found = load_files([str(folder)], recursive=True)
    assert names(found) == ["web-0", "n1"]
    assert found.notes[-1] == f"skipped Helm charts, `helm template DIRECTORY` renders one: {folder}/chart"
    with pytest.raises(LoadError, match="`helm template DIRECTORY` renders one"):
        load_files([str(folder / "chart")])


def test_what_is_no_object_in_a_folder_is_skipped(folder):
    (folder / "a-values.yaml").write_text("image: nginx")
    (folder / "b-patch.yaml").write_text("- op: remove")
    (folder / "c.yaml").write_text("kind: Pod")
    with pytest.raises(LoadError) as caught:
        load_files([str(folder)])
    assert caught.value.errors == (f"{folder}/c.yaml: document 1: Pod: apiVersion: missing",)
    (folder / "c.yaml").unlink()
    assert load_files([str(folder)]).notes[-1] == (
        "skipped what has neither apiVersion nor kind: "
        f"{folder}/a-values.yaml: document 1, {folder}/b-patch.yaml: document 1"
    )


def test_a_folder_without_any_object(tmp_path):
    (tmp_path / "values.yaml").write_text("a: b")
    with pytest.raises(LoadError, match="there is no object in its files"):
        load_files([str(tmp_path)])
