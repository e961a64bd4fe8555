"""Any invalid input gives a message with the location, exit code 2, and no traceback (see conftest.py)."""

import pytest

from stowplan.testing import a_node, a_pod

NODE, POD = a_node("a").obj(), a_pod("web").obj()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b"kind: [", "stdin: line 2, column 1: ", id="unreadable YAML"),
        pytest.param(
            b"apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: 5}",
            "stdin: document 1: Pod default/web: spec.containers: expected a list, got an integer",
            id="a wrong type",
        ),
    ],
)
def test_bad_objects(run, text, message):
    ran = run("explain", "-f", "-", stdin=text)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith(f"error: {message}")


def test_a_workload_without_a_template_is_left_out_with_a_note(run):
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "uid": "4711"}}
    ran = run("explain", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": [NODE, deployment]})
    assert (ran.code, ran.err) == (0, "")
    del deployment["metadata"]["uid"]
    ran = run("explain", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": [NODE, deployment]})
    assert ran.code == 0
    assert ran.err.splitlines()[-1] == "note: Deployment default/web has no template of pods, and is left out"


def test_configuration_errors_match_the_reference(run, files, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: -1\n")
    ran = run("explain", "-f", files(NODE), "--config", str(file))
    assert ran.code == 2
    message = "parallelism: Invalid value: -1: should be an integer value greater than zero"
    assert ran.err.splitlines()[0] == f"error: {file}: {message}"


def test_a_missing_configuration(run, files):
    ran = run("explain", "-f", files(NODE), "--config", "/does/not/exist.yaml")
    assert (ran.code, ran.err) == (2, "error: open /does/not/exist.yaml: no such file or directory\n")


def test_no_pods_at_all(run, files):
    ran = run("explain", "-f", files(NODE), "--pod", "web")
    assert ran.err == 'error: pod "default/web" not found; there is no pod in these files\n'


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        ("nonsense", 'error: plugin "nonsense": want module:Class\n'),
        ("no_such_module:X", 'error: plugin "no_such_module:X": cannot import no_such_module: ModuleNotFoundError'),
        ("json:dumps", 'error: plugin "json:dumps": '),
    ],
)
def test_plugins_that_cannot_be_loaded(run, files, plugin, message):
    ran = run("explain", "-f", files(NODE), "--plugin", plugin)
    assert ran.code == 2
    assert ran.err.startswith(message)


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(("explain", "-f", "-", "--kubeconfig", "c"), id="files and a live cluster"),
        pytest.param(("explain", "-f", "-", "pending", "web"), id="pending pods with a name"),
        pytest.param(("explain", "-f", "-", "node", "a", "b"), id="two nodes"),
        pytest.param(("explain", "-f", "-", "node/a", "web"), id="a node and a pod"),
        pytest.param(("explain", "pod.yaml"), id="a file as a name"),
        pytest.param(("explain", "-f", "-", "pending", "--pod", "a"), id="a question in both ways"),
        pytest.param(("explain", "-f", "-", "--pod", "a", "--pending"), id="both questions"),
        pytest.param(("explain", "-f", "-", "-o", "xml"), id="unknown form"),
        pytest.param(("explain", "--nonsense"), id="unknown flag"),
        pytest.param(("nonsense",), id="unknown command"),
    ],
)
def test_wrong_usage(run, args):
    ran = run(*args)
    assert ran.code == 2
    assert "Usage: stowplan" in ran.err
