"""`explain -f` refuses what `up -f` refuses if it would be misleading otherwise."""

import json

import pytest

from stowplan.testing import a_node, a_pod

NODE = a_node("a").allocatable(cpu="4", pods="110").obj()


def pod(**spec):
    made = a_pod("p").requests(cpu="1").obj()
    made["metadata"].pop("uid", None)
    made["spec"] = made["spec"] | spec
    return made


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"contaners": []}, 'Pod default/p: unknown field "spec.contaners"; did you mean containers?'),
        (
            {"containers": [{"name": "c", "image": "i", "resources": {"request": {}}}]},
            'unknown field "spec.containers[0].resources.request"; did you mean requests?',
        ),
        ({"xyzzy": 1}, 'unknown field "spec.xyzzy"\n'),
        (
            {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "-1"}}}]},
            'Pod default/p: spec.containers[0].resources.requests[cpu]: Invalid value: "-1"',
        ),
        ({"restartPolicy": "Sometimes"}, "Pod default/p: spec.restartPolicy: Unsupported value"),
    ],
)
@pytest.mark.parametrize("command", [("explain",), ("what-if", "--remove", "a"), ("fit", "pod/p")])
def test_misleading_errors_are_refused_with_their_location(run, files, spec, problem, command):
    ran = run(*command, "-f", files(NODE, pod(**spec)))
    assert (ran.code, ran.out) == (2, "")
    assert "cluster.json: document 1, item 2: " in ran.err
    assert problem in ran.err


def test_missing_fields_are_noted(run, files):
    ran = run("explain", "-f", files(NODE, pod(containers=[{"name": "c"}])))
    assert (ran.code, ran.out[:9]) == (0, "default/p")
    assert "spec.containers[0].image: Required value; an API server would refuse it\n" in ran.err


def test_objects_from_a_cluster_are_not_validated(run, files):
    stored = pod(contaners=[])
    stored["metadata"]["uid"] = "4711"
    assert run("explain", "-f", files(NODE, stored)).err == ""


def test_templates_are_validated_like_pods(run, files):
    template = {"metadata": {"labels": {"app": "w"}}, "spec": pod(contaners=[])["spec"]}
    spec = {"selector": {"matchLabels": {"app": "w"}}, "template": template}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": spec}
    assert 'unknown field "spec.template.spec.contaners"' in run("explain", "-f", files(NODE, made)).err


def test_a_job_needs_no_selector(run, files):
    """The server generates one; an explicit one is validated."""
    spec = {"template": {"spec": pod()["spec"] | {"restartPolicy": "Never"}}}
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    ran = run("explain", "-f", files(NODE, made))
    assert ran.code == 0
    assert ran.err == "note: Job default/j has no pods yet; using its template: 1 pod (default/j-0…)\n"
    made["spec"] = spec | {"selector": {"matchLabels": {"app": "j"}}}
    assert "Job j: spec.selector: Invalid value: " in run("explain", "-f", files(NODE, made)).err


def test_many_notes_are_summarized(run, files):
    pods = [json.loads(json.dumps(pod(containers=[{"name": "c"}])).replace('"p"', f'"p{i}"')) for i in range(9)]
    lines = run("explain", "-f", files(NODE, *pods)).err.splitlines()
    assert len(lines) == 6
    assert lines[-1] == "note: 4 more problems for which an API server would refuse objects"


def test_fields_that_the_scheduler_ignores_are_not_validated(run, files):
    made = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}
    ran = run("explain", "-f", files(NODE, pod(), made))
    assert ran.code == 0
    assert "Service s: spec.ports: Required value; an API server would refuse it\n" in ran.err


@pytest.mark.parametrize(
    "named", [("v1", "Deployment"), ("extensions/v1beta1", "Deployment"), ("apps/v1", "deployment")]
)
def test_a_kind_that_no_server_has_is_told_with_the_one_that_was_meant(run, files, named):
    template = {"metadata": {"labels": {"app": "w"}}, "spec": pod()["spec"]}
    made = {"apiVersion": named[0], "kind": named[1], "metadata": {"name": "w"}, "spec": {"template": template}}
    assert (
        f"kind {named[1]!r} of apiVersion {named[0]!r} is not served here (did you mean Deployment of apps/v1?); "
        "an API server would refuse it\n"
    ) in run("explain", "-f", files(NODE, made)).err


def test_custom_kinds_are_not_judged(run, files):
    made = {"apiVersion": "example.com/v1", "kind": "Deployment", "metadata": {"name": "w"}}
    assert "is not served" not in run("explain", "-f", files(NODE, made)).err


@pytest.mark.parametrize("kind", ["Pod", "Job"])
def test_the_file_of_fit_is_checked_like_those_of_the_cluster(run, files, tmp_path, kind):
    spec = pod(nodeSelektor={"disk": "ssd"})["spec"]
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w"}, "spec": spec}
    if kind == "Job":
        made |= {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": spec}}}
    path = tmp_path / "new.json"
    path.write_text(json.dumps(made))
    ran = run("fit", "-f", files(NODE), str(path))
    assert (ran.code, ran.out) == (2, "")
    where = "spec" if kind == "Pod" else "spec.template.spec"
    assert ran.err.startswith(
        f'error: {path}: document 1: {kind} w: unknown field "{where}.nodeSelektor"; did you mean nodeSelector?'
    )


def test_the_file_of_fit_is_named_in_its_errors(run, files, tmp_path):
    path = tmp_path / "new.json"
    path.write_text(json.dumps(pod(containers="c")))
    assert run("fit", "-f", files(NODE), str(path)).err.startswith(f"error: {path}: document 1: Pod default/p: ")


def test_a_node_template_is_checked(run, files, tmp_path):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "t"}, "status": {"allocatabel": {"cpu": "4"}}}
    path = tmp_path / "node.json"
    path.write_text(json.dumps(node))
    ran = run("fit", "-f", files(NODE, pod()), "p", "--more", "9", "--node-template", str(path))
    assert (ran.code, ran.out) == (2, "")
    assert 'unknown field "status.allocatabel"; did you mean allocatable?' in ran.err
