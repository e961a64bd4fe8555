"""kubectl reads: tables, documents, selectors, watches, discovery."""

import json
import re

import pytest

from support.api import manifests


def two_pods(api_server, namespace):
    objects = [manifests.pod("web", labels={"app": "web", "tier": "front"}), manifests.pod("db", labels={"app": "db"})]
    api_server.kubectl("create", "-n", namespace, "-f", "-", stdin=objects)
    return namespace


@pytest.fixture(scope="module")
def pods(api_server):
    """A namespace with two pods, shared by tests that only read."""
    return two_pods(api_server, api_server.new_namespace("pods"))


def lines(result):
    return [re.split(r" {2,}", line.strip()) for line in result.stdout.splitlines()]


def test_a_table(api_server, pods):
    header, *rows = lines(api_server.kubectl("get", "pods", "-n", pods))
    assert header == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:4] for row in rows] == [["db", "0/1", "Pending", "0"], ["web", "0/1", "Pending", "0"]]


def test_a_wide_table(api_server, pods):
    header, *rows = lines(api_server.kubectl("get", "po", "-n", pods, "-o", "wide"))
    assert header == [
        *["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"],
        "NOMINATED NODE",
        "READINESS GATES",
    ]
    assert rows[0][5:] == ["<none>"] * 4


def test_labels_and_custom_columns(api_server, pods):
    header, *rows = lines(api_server.kubectl("get", "pods", "-n", pods, "-L", "tier"))
    assert header[-1] == "TIER"
    assert rows[1][-1] == "front"
    columns = "custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image"
    assert lines(api_server.kubectl("get", "pods", "-n", pods, "-o", columns))[1:] == [
        ["db", "nginx:1.27"],
        ["web", "nginx:1.27"],
    ]


def test_json_yaml_name_and_jsonpath(api_server, pods):
    listed = api_server.json("get", "pods", "-n", pods)
    assert (listed["kind"], [item["metadata"]["name"] for item in listed["items"]]) == ("List", ["db", "web"])
    text = api_server.kubectl("get", "pod", "web", "-n", pods, "-o", "yaml").stdout
    assert "restartPolicy: Always" in text
    assert "managedFields" not in text
    text = api_server.kubectl("get", "pod", "web", "-n", pods, "-o", "yaml", "--show-managed-fields").stdout
    assert "manager: kubectl-create" in text
    assert "f:containers" in text
    assert api_server.kubectl("get", "pods", "-n", pods, "-o", "name").stdout == "pod/db\npod/web\n"
    path = "{range .items[*]}{.metadata.name}={.spec.schedulerName} {end}"
    found = api_server.kubectl("get", "pods", "-n", pods, "-o", f"jsonpath={path}").stdout
    assert found == "db=default-scheduler web=default-scheduler "


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        (["-l", "app=web"], ["web"]),
        (["-l", "app in (web,db),!tier"], ["db"]),
        (["--field-selector", "metadata.name=web"], ["web"]),
        (["--field-selector", "spec.nodeName=,status.phase!=Pending"], []),
        (["--chunk-size", "1"], ["db", "web"]),
        (["--sort-by", ".metadata.labels.app"], ["db", "web"]),
    ],
)
def test_selectors(api_server, pods, selector, names):
    result = api_server.kubectl("get", "pods", "-n", pods, "-o", "name", *selector)
    assert result.stdout.split() == [f"pod/{name}" for name in names]


def test_describe(api_server, pods):
    text = api_server.kubectl("describe", "pod", "web", "-n", pods).stdout
    for wanted in (r"Name: +web", r"Priority: +0", r"Status: +Pending", r"QoS Class: +Burstable", r"Events: +<none>"):
        assert re.search(wanted, text), wanted
    text = api_server.kubectl("describe", "namespace", pods).stdout
    assert "Status:       Active" in text


def test_missing_objects(api_server, namespace):
    result = api_server.kubectl("get", "pod", "none", "-n", namespace, check=False)
    assert result.returncode == 1
    assert result.stderr == 'Error from server (NotFound): pods "none" not found\n'
    result = api_server.kubectl("get", "nonsense", check=False)
    assert result.stderr == 'error: the server doesn\'t have a resource type "nonsense"\n'
    assert "No resources found" in api_server.kubectl("get", "pods", "-n", namespace).stderr


def test_watch(api_server, namespace):
    watching = api_server.started_kubectl("get", "configmaps", "-n", namespace, "-o", "name", "--watch-only")
    with watching:
        try:
            for number in range(50):
                api_server.kubectl("create", "configmap", f"seen-{number}", "-n", namespace)
                # The first events may have happened before the watch.
                if number and _has_line(watching):
                    break
            else:
                raise AssertionError("kubectl saw nothing")
        finally:
            watching.terminate()


def _has_line(process):
    import select

    readable, _, _ = select.select([process.stdout], [], [], 0.2)
    return bool(readable) and process.stdout.readline().startswith("configmap/seen-")


def test_wait_for(api_server, namespace):
    pods = two_pods(api_server, namespace)
    waiting = api_server.started_kubectl("wait", "-n", pods, "pod/web", "--for=condition=PodScheduled", "--timeout=30s")
    with waiting:
        patch = {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}
        api_server.kubectl("patch", "pod", "web", "-n", pods, "--subresource=status", "-p", json.dumps(patch))
        assert waiting.stdout.read() == "pod/web condition met\n"
    api_server.kubectl("wait", "-n", pods, "pod/web", "--for=jsonpath={.status.phase}=Pending", "--timeout=5s")
    api_server.kubectl("delete", "pod", "db", "-n", pods)
    api_server.kubectl("wait", "-n", pods, "pod/db", "--for=delete", "--timeout=5s")


class TestDiscovery:
    def test_api_resources(self, api_server):
        text = api_server.kubectl("api-resources").stdout
        for line in (
            r"^pods +po +v1 +true +Pod$",
            r"^nodes +no +v1 +false +Node$",
            r"^deployments +deploy +apps/v1 +true +Deployment$",
            r"^customresourcedefinitions +crd,crds +apiextensions.k8s.io/v1 +false +CustomResourceDefinition$",
            r"^resourceslices +resource.k8s.io/v1 +false +ResourceSlice$",
        ):
            assert re.search(line, text, re.MULTILINE), line

    def test_version(self, api_server):
        version = json.loads(api_server.kubectl("version", "-o", "json").stdout)["serverVersion"]
        assert (version["major"], version["minor"]) == ("1", "37" if api_server.kind == "embedded" else "36")

    def test_explain(self, api_server):
        text = api_server.kubectl("explain", "pod.spec.containers").stdout
        assert "FIELD: containers <[]Container>" in text
        assert "imagePullPolicy" in text
        text = api_server.kubectl("explain", "deployment.spec.replicas").stdout
        assert "FIELD: replicas <integer>" in text
