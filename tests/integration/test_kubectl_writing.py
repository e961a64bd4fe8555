"""kubectl writes: create, apply on both sides, replace, edit, patch, label, delete; custom resources; access."""

import json

import pytest
import yaml

from support.api import manifests


def config(api_server, namespace, name="settings"):
    return api_server.json("get", "configmap", name, "-n", namespace)


@pytest.fixture
def settings(api_server, namespace):
    api_server.kubectl("create", "configmap", "settings", "-n", namespace, "--from-literal=a=1")
    return namespace


class TestCreate:
    def test_from_json_and_yaml(self, api_server, namespace):
        result = api_server.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(manifests.pod()))
        assert result.stdout == "pod/web created\n"
        result = api_server.kubectl("create", "-n", namespace, "-f", "-", stdin=[manifests.config_map(a="1")])
        assert result.stdout == "configmap/settings created\n"

    def test_by_the_generators(self, api_server, namespace):
        api_server.kubectl("create", "deployment", "shop", "--image=nginx", "--replicas=2", "-n", namespace)
        api_server.kubectl("run", "one", "--image=busybox", "-n", namespace)
        api_server.kubectl("create", "secret", "generic", "keys", "--from-literal=k=v", "-n", namespace)
        api_server.kubectl("create", "service", "clusterip", "shop", "--tcp=80:8080", "-n", namespace)
        api_server.kubectl("create", "serviceaccount", "robot", "-n", namespace)
        api_server.kubectl("create", "job", "once", "--image=busybox", "-n", namespace)
        found = api_server.kubectl("get", "deploy,po,secret,svc,sa,job", "-n", namespace, "-o", "name").stdout.split()
        assert {"deployment.apps/shop", "pod/one", "secret/keys", "service/shop", "serviceaccount/robot"} <= set(found)

    def test_an_invalid_object_is_refused_with_its_fields(self, api_server, namespace):
        bad = manifests.pod()
        bad["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
        bad["spec"]["containers"][0]["name"] = "Bad_Name"
        result = api_server.kubectl("create", "-n", namespace, "-f", "-", stdin=[bad], check=False)
        assert 'The Pod "web" is invalid' in result.stderr
        assert 'spec.containers[0].name: Invalid value: "Bad_Name"' in result.stderr
        assert 'spec.containers[0].resources.requests: Invalid value: "2"' in result.stderr

    def test_an_unknown_field_is_refused(self, api_server, namespace):
        bad = manifests.pod()
        bad["spec"]["colour"] = "red"
        result = api_server.kubectl("create", "-n", namespace, "-f", "-", stdin=[bad], check=False)
        assert 'strict decoding error: unknown field "spec.colour"' in result.stderr
        result = api_server.kubectl("create", "-n", namespace, "--validate=warn", "-f", "-", stdin=[bad])
        assert 'Warning: unknown field "spec.colour"' in result.stderr


class TestApply:
    def test_three_way_merge_on_the_client(self, api_server, namespace):
        def apply(**data):
            stdin = [manifests.config_map(**data)]
            return api_server.kubectl("apply", "-n", namespace, "-f", "-", stdin=stdin).stdout

        assert apply(a="1", b="1") == "configmap/settings created\n"
        api_server.kubectl("patch", "configmap", "settings", "-n", namespace, "-p", '{"data":{"c":"theirs"}}')
        assert apply(a="2") == "configmap/settings configured\n"
        assert config(api_server, namespace)["data"] == {"a": "2", "c": "theirs"}
        assert apply(a="2") == "configmap/settings unchanged\n"

    def test_lists_keep_their_order(self, api_server, namespace):
        deployment = manifests.workload("Deployment")
        containers = deployment["spec"]["template"]["spec"]["containers"]
        containers[0]["env"] = [{"name": name, "value": "1"} for name in ("B", "A", "C")]
        containers.append({"name": "side", "image": "busybox"})
        api_server.kubectl("apply", "-n", namespace, "-f", "-", stdin=[deployment])
        containers[0]["env"] = [{"name": name, "value": "2"} for name in ("D", "C", "A")]
        containers.reverse()
        api_server.kubectl("apply", "-n", namespace, "-f", "-", stdin=[deployment])
        live = api_server.json("get", "deployment", "web", "-n", namespace)["spec"]["template"]["spec"]["containers"]
        assert [one["name"] for one in live] == ["side", "c"]
        assert [one["name"] for one in live[1]["env"]] == ["D", "C", "A"]

    def test_on_the_server(self, api_server, namespace):
        def apply(manager, *flags, check=True, **data):
            stdin = [manifests.config_map(**data)]
            command = ["apply", "--server-side", f"--field-manager={manager}", "-n", namespace, "-f", "-", *flags]
            return api_server.kubectl(*command, stdin=stdin, check=check)

        assert apply("one", a="1", b="1").stdout == "configmap/settings serverside-applied\n"
        apply("one", a="1")
        assert config(api_server, namespace)["data"] == {"a": "1"}
        refused = apply("two", a="2", check=False)
        assert refused.returncode == 1
        assert 'Apply failed with 1 conflict: conflict with "one": .data.a' in refused.stderr
        apply("two", "--force-conflicts", a="2")
        assert config(api_server, namespace)["data"] == {"a": "2"}
        apply("one", b="3")
        assert config(api_server, namespace)["data"] == {"a": "2", "b": "3"}

    @pytest.mark.parametrize("way", ["--server-side=false", "--server-side"])
    def test_fifty_objects_twice(self, api_server, namespace, way):
        objects = [*manifests.fifty()]
        first = api_server.kubectl("apply", way, "-n", namespace, "-f", "-", stdin=objects).stdout.splitlines()
        assert len(first) == 50
        before = api_server.kubectl("get", "deploy,sts,ds,cm,pdb,role,pvc", "-n", namespace, "-o", "json").stdout
        second = api_server.kubectl("apply", way, "-n", namespace, "-f", "-", stdin=objects).stdout.splitlines()
        if way == "--server-side":
            assert second == first
        else:
            # kubectl always sends a patch for kinds that it merges by replacing; it just changes nothing.
            changed = {line.split("/")[0] for line in second if not line.endswith(" unchanged")}
            assert changed <= {"poddisruptionbudget.policy", "secret"}
        after = api_server.kubectl("get", "deploy,sts,ds,cm,pdb,role,pvc", "-n", namespace, "-o", "json").stdout
        assert versions(after) == versions(before)

    def test_prune_and_diff(self, api_server, namespace):
        objects = [manifests.config_map(name, a="1") for name in ("keep", "drop")]
        for obj in objects:
            obj["metadata"]["labels"] = {"set": "x"}
        api_server.kubectl("apply", "-n", namespace, "-f", "-", stdin=objects)
        changed = [{**objects[0], "data": {"a": "2"}}]
        diff = api_server.kubectl("diff", "-n", namespace, "-f", "-", stdin=changed, check=False)
        assert diff.returncode == 1
        assert '+  a: "2"' in diff.stdout
        api_server.kubectl(
            "apply",
            "-n",
            namespace,
            "--prune",
            "-l",
            "set=x",
            "--prune-allowlist=core/v1/ConfigMap",
            "-f",
            "-",
            stdin=objects[:1],
        )
        names = api_server.kubectl("get", "cm", "-n", namespace, "-l", "set=x", "-o", "name").stdout
        assert names == "configmap/keep\n"


def versions(listed):
    return {
        (item["kind"], item["metadata"]["name"]): item["metadata"]["resourceVersion"]
        for item in json.loads(listed)["items"]
        # Exclude objects that controllers keep updating.
        if item["kind"]
        not in ("Deployment", "StatefulSet", "DaemonSet", "PodDisruptionBudget", "PersistentVolumeClaim")
    }


class TestChange:
    def test_replace(self, api_server, settings):
        obj = config(api_server, settings)
        obj["data"] = {"b": "2"}
        result = api_server.kubectl("replace", "-f", "-", stdin=json.dumps(obj))
        assert result.stdout == "configmap/settings replaced\n"
        assert config(api_server, settings)["data"] == {"b": "2"}
        result = api_server.kubectl("replace", "-f", "-", stdin=json.dumps(obj), check=False)
        assert "the object has been modified; please apply your changes to the latest version" in result.stderr

    def test_edit(self, api_server, settings):
        editor = """sed -i 's/a: "1"/a: "9"/'"""
        result = api_server.kubectl("edit", "configmap", "settings", "-n", settings, KUBE_EDITOR=editor)
        assert result.stdout == "configmap/settings edited\n"
        assert config(api_server, settings)["data"] == {"a": "9"}

    @pytest.mark.parametrize(
        ("kind", "patch"),
        [
            ("merge", {"data": {"a": None, "b": "2"}}),
            ("strategic", {"data": {"a": None, "b": "2"}}),
            ("json", [{"op": "remove", "path": "/data/a"}, {"op": "add", "path": "/data/b", "value": "2"}]),
        ],
    )
    def test_patch(self, api_server, settings, kind, patch):
        command = ["patch", "configmap", "settings", "-n", settings, f"--type={kind}", "-p", json.dumps(patch)]
        assert api_server.kubectl(*command).stdout == "configmap/settings patched\n"
        assert config(api_server, settings)["data"] == {"b": "2"}

    def test_label_and_annotate(self, api_server, settings):
        api_server.kubectl("label", "configmap", "settings", "-n", settings, "color=red")
        again = api_server.kubectl("label", "configmap", "settings", "-n", settings, "color=blue", check=False)
        assert "already has a value (red), and --overwrite is false" in again.stderr
        api_server.kubectl("label", "configmap", "settings", "-n", settings, "color=blue", "--overwrite")
        api_server.kubectl("annotate", "configmap", "settings", "-n", settings, "note=it is")
        metadata = config(api_server, settings)["metadata"]
        assert (metadata["labels"], metadata["annotations"]) == ({"color": "blue"}, {"note": "it is"})
        api_server.kubectl("label", "configmap", "settings", "-n", settings, "color-")
        assert "labels" not in config(api_server, settings)["metadata"]

    def test_scale(self, api_server, namespace):
        api_server.kubectl("create", "-n", namespace, "-f", "-", stdin=[manifests.workload("Deployment")])
        result = api_server.kubectl("scale", "deployment/web", "--replicas=5", "-n", namespace)
        assert result.stdout == "deployment.apps/web scaled\n"
        assert api_server.json("get", "deployment", "web", "-n", namespace)["spec"]["replicas"] == 5
        result = api_server.kubectl(
            "scale", "deployment/web", "--replicas=1", "--current-replicas=9", "-n", namespace, check=False
        )
        assert "Expected replicas to be 9, was 5" in result.stderr


class TestDelete:
    def test_one_and_many(self, api_server, namespace):
        for name in "abc":
            api_server.kubectl("create", "configmap", name, "-n", namespace)
        assert api_server.kubectl("delete", "configmap", "a", "-n", namespace).stdout == 'configmap "a" deleted\n'
        api_server.kubectl("delete", "configmap", "--all", "-n", namespace)
        result = api_server.kubectl("delete", "configmap", "a", "-n", namespace, check=False)
        assert result.stderr == 'Error from server (NotFound): configmaps "a" not found\n'
        assert api_server.kubectl("delete", "configmap", "a", "-n", namespace, "--ignore-not-found").stdout == ""

    def test_a_bound_pod_with_and_without_grace(self, api_server, namespace):
        node = f"node-{namespace}"
        api_server.kubectl("create", "-f", "-", stdin=[manifests.node(node)])
        try:
            api_server.kubectl("create", "-n", namespace, "-f", "-", stdin=[manifests.pod(nodeName=node)])
            api_server.kubectl("delete", "pod", "web", "-n", namespace, "--grace-period=120", "--wait=false")
            obj = api_server.json("get", "pod", "web", "-n", namespace)
            assert obj["metadata"]["deletionGracePeriodSeconds"] == 120
            assert "Terminating" in api_server.kubectl("get", "pod", "web", "-n", namespace).stdout
            api_server.kubectl("delete", "pod", "web", "-n", namespace, "--grace-period=0", "--force")
            assert api_server.kubectl("get", "pods", "-n", namespace, "-o", "name").stdout == ""
        finally:
            api_server.kubectl("delete", "node", node)


class TestCustomResources:
    def test_a_custom_kind(self, api_server, namespace):
        group = f"{namespace}.example.com"
        definition = manifests.definition(group)
        api_server.kubectl("create", "-f", "-", stdin=[definition])
        try:
            name = f"crd/widgets.{group}"
            api_server.kubectl("wait", name, "--for=condition=Established", "--timeout=20s")
            self.use(api_server, namespace, group)
        finally:
            api_server.kubectl("delete", "crd", f"widgets.{group}")
        result = api_server.kubectl("get", f"widgets.{group}", "-A", check=False)
        assert result.returncode == 1

    def use(self, api_server, namespace, group):
        widgets = f"widgets.{group}"
        widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"color": "red"}}
        api_server.kubectl("apply", "-n", namespace, "-f", "-", stdin=[widget])
        assert api_server.json("get", widgets, "w", "-n", namespace)["spec"] == {"color": "red", "size": 3}
        header, row = api_server.kubectl("get", widgets, "-n", namespace).stdout.splitlines()
        assert (header.split(), row.split()) == (["NAME", "COLOR"], ["w", "red"])
        bad = {**widget, "spec": {"color": "green", "size": 0}}
        refused = api_server.kubectl("apply", "-n", namespace, "-f", "-", stdin=[bad], check=False).stderr
        assert 'spec.color: Unsupported value: "green": supported values: "red", "blue"' in refused
        assert "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1" in refused
        api_server.kubectl("scale", f"{widgets}/w", "--replicas=7", "-n", namespace)
        assert api_server.json("get", widgets, "w", "-n", namespace)["spec"]["size"] == 7
        api_server.kubectl("patch", widgets, "w", "-n", namespace, "--type=merge", "-p", '{"spec":{"color":"blue"}}')
        refused = api_server.kubectl(
            "patch", widgets, "w", "-n", namespace, "--type=strategic", "-p", "{}", check=False
        )
        assert refused.returncode == 1
        assert "FIELD" in api_server.kubectl("explain", f"{widgets}.spec.color").stdout


class TestAccess:
    def test_can_i(self, api_server):
        assert api_server.kubectl("auth", "can-i", "delete", "nodes").stdout == "yes\n"
        assert api_server.kubectl("auth", "can-i", "create", "pods", "--as=nobody", check=False).stdout == "no\n"


def test_yaml_of_all_kinds_of_strings(api_server, namespace):
    data = {"empty": "", "colon": "a: b", "lines": "one\ntwo\n", "quotes": "\"'", "number": "1e3", "unicode": "ä→𝄞"}
    api_server.kubectl("create", "-n", namespace, "-f", "-", stdin=[manifests.config_map(**data)])
    text = api_server.kubectl("get", "configmap", "settings", "-n", namespace, "-o", "yaml").stdout
    assert yaml.safe_load(text)["data"] == data
