"""`stowplan fit`, `drain`, `survive` and `what-if`: options, output and errors."""

import json
from types import SimpleNamespace

import pytest
import yaml

from support.what_if.objects import budget, node, owned, pod

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "api", "namespace": "shop"},
    "spec": {
        "replicas": 2,
        "template": {
            "metadata": {"labels": {"app": "api"}},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]},
        },
    },
}
CLUSTER = (
    node("a", zone="x"),
    node("b", zone="y"),
    owned(pod("web-0", nodeName="a")),
    owned(pod("web-1", nodeName="b")),
    pod("waiting", "5"),
)


def read(ran):
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


FAILING = """
from stowplan.plugins import NodeFilterPlugin

class Failing(NodeFilterPlugin):
    name = "Failing"

    def filter_node(self, state, pod, node):
        raise KeyError("no team")
"""


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("fit", "web-0"), "--config"),
        (("drain", "a"), "--config"),
        (("survive", "--by", "node"), "--config"),
        (("what-if", "--remove", "a"), "--base-config"),
        (("what-if", "--remove", "a"), "--config"),
    ],
)
def test_an_answer_that_a_failing_plugin_decided_says_so(run, files, tmp_path, monkeypatch, words, option):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "failing_plugins.py").write_text(FAILING)
    profile = {"plugins": {"filter": {"enabled": [{"name": "Failing"}]}}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**kind, "profiles": [profile]}))
    plugin = ("--plugin", "failing_plugins:Failing")
    ran = run(*words, "-f", files(*CLUSTER), option, str(tmp_path / "config.yaml"), *plugin, "-o", "json")
    assert ran.code == 2
    assert json.loads(ran.out)["notes"][-1] == (
        'not an answer about the cluster alone, as this failed: running "Failing" filter plugin: '
        "KeyError: 'no team' (failing_plugins.py:8 in filter_node)"
    )


class TestFit:
    def test_as_text(self, run, files):
        ran = run("fit", "-f", files(*CLUSTER), "web-0")
        assert ran.code == 0
        assert ran.out == (
            "like default/web-0: 6 more fit on 2 nodes\n"
            "  ZONE  PODS\n"
            "  x        3\n"
            "  y        3\n"
            "  NODE  PODS\n"
            "  a        3\n"
            "  b        3\n"
            "\n"
            "What keeps the next one off\n"
            "  NODES  REASON            PLUGIN\n"
            "      2  Insufficient cpu  NodeResourcesFit\n"
        )

    def test_as_data(self, run, files):
        asked = ("fit", "-f", files(*CLUSTER), "pod/web-0", "-o", "json")
        found = read(run(*asked, "--replicas", "8"))
        assert read(run(*asked, "--more", "8")) == found
        assert (found["fits"], found["wanted"], found["perNode"]) == (6, 8, {"a": 3, "b": 3})
        assert found["nodesToAdd"][0] == {"like": "a", "count": 1, "each": 4, "price": None}
        assert {"fits", "perNode", "limitedBy", "nodesToAdd"} < set(found)

    @pytest.mark.parametrize("name", ["deployment/shop/api", "deploy/shop/api"])
    def test_a_deployment_of_the_files(self, run, files, name):
        # Limits default requests, as on an API server.
        assert read(run("fit", "-f", files(*CLUSTER, DEPLOYMENT), name, "-o", "json"))["perNode"] == {"a": 1, "b": 1}

    def test_a_deployment_that_has_pods(self, run, files):
        assert read(run("fit", "-f", files(*CLUSTER), "deployment/web", "-o", "json"))["fits"] == 6

    def test_a_manifest(self, run, files, tmp_path):
        path = tmp_path / "api.yaml"
        path.write_text(yaml.safe_dump(DEPLOYMENT))
        assert read(run("fit", "-f", files(*CLUSTER), str(path), "-o", "json"))["pod"] == "shop/api"

    @pytest.mark.parametrize("beside", ["the pod", "the cluster"])
    def test_a_template_of_claims_stands_in_a_file(self, run, files, tmp_path, beside):
        devices = json.dumps([{"driver": "gpu.example.com", "count": 3}])
        with_gpus = node("a")
        with_gpus["metadata"]["annotations"] = {"stowplan.io/devices": devices}
        api = "resource.k8s.io/v1"
        gpus = {"apiVersion": api, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        spec = {"spec": {"devices": {"requests": [request]}}}
        template = {"apiVersion": api, "kind": "ResourceClaimTemplate", "metadata": {"name": "t"}, "spec": spec}
        wanted = pod("new", "1")
        wanted["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
        path = tmp_path / "new.yaml"
        path.write_text(yaml.safe_dump_all([wanted, *([template] if beside == "the pod" else [])]))
        cluster = files(with_gpus, gpus, *([] if beside == "the pod" else [template]))
        assert read(run("fit", "-f", cluster, str(path), "-o", "json"))["fits"] == 3

    def test_kind_name_and_namespace_as_in_kubectl(self, run, files):
        asked = ("fit", "-f", files(*CLUSTER), "-o", "json")
        found = [read(run(*asked, *words)) for words in (("pod/web-0",), ("pod", "web-0"), ("web-0", "-n", "default"))]
        assert found[0] == found[1] == found[2]
        assert run(*asked, "web-0", "-n", "none").err.startswith('error: pod "none/web-0" not found')
        assert "Ask about one pod, workload or file; got 'a b'" in run(*asked, "a", "b").err
        assert run(*asked, "web-0", "--like", "zz").err.startswith('error: node "zz" not found')

    def test_nodes_of_a_file_and_prices(self, run, files, tmp_path):
        path = tmp_path / "node.json"
        path.write_text(json.dumps(node("large", "64", pods="100")))
        ran = run(
            "fit", "-f", files(*CLUSTER), "web-0", "--replicas", "60", "--like", "a=1", "--node-template", f"{path}=3"
        )
        assert "  cheapest: 1 like large, 3.00 in all\n" in ran.out

    @pytest.mark.parametrize(
        ("asked", "says"),
        [
            (["web-9"], 'pod "default/web-9" not found; did you mean'),
            (["deployment/nope"], 'Deployment "default/nope" not found, and no pod of it'),
            (["a/b/c/d"], "'a/b/c/d' is not a name: want [NAMESPACE/]NAME"),
            (["web-0", "--replicas", "90", "--like", "zz"], 'node "zz" not found'),
            (["web-0", "--like", "a=cheap"], "want a price of 0 or more after ="),
            (["web-0", "--replicas", "-1"], "-1 is not in the range"),
            (["no-such-file.yaml"], "no-such-file.yaml: No such file or directory"),
        ],
    )
    def test_nonsense(self, run, files, asked, says):
        ran = run("fit", "-f", files(*CLUSTER), *asked)
        assert ran.code == 2
        assert says in ran.err

    def test_a_manifest_without_pods(self, run, files, tmp_path):
        path = tmp_path / "x.yaml"
        path.write_text(yaml.safe_dump(DEPLOYMENT | {"spec": {}}))
        ran = run("fit", "-f", files(*CLUSTER), str(path))
        assert (ran.code, "has no pod template" in ran.err) == (2, True)


class TestDrain:
    def test_as_text(self, run, files):
        ran = run("drain", "-f", files(*CLUSTER), "a")
        assert (ran.code, ran.out) == (
            0,
            "drain of a: 1 pod would find another node\n\nMoves\n  POD            FROM  TO\n  default/web-0  a     b\n",
        )

    def test_as_data(self, run, files):
        found = read(run("drain", "-f", files(*CLUSTER, budget(allowed=0)), "a", "-o", "json"))
        assert (found["moves"], found["stranded"]) == ([], [])
        (block,) = found["blockedBy"]
        assert (block["pod"], block["node"], block["budget"]) == ("default/web-0", "a", "default/web")

    @pytest.mark.parametrize("which", [["--zone", "x"], ["-l", "kubernetes.io/hostname in (a)"]])
    def test_nodes_by_zone_and_labels(self, run, files, which):
        assert read(run("drain", "-f", files(*CLUSTER), *which, "-o", "json"))["nodes"] == ["a"]

    @pytest.mark.parametrize(
        ("asked", "says"),
        [
            ([], "Say which nodes"),
            (["zz"], 'node "zz" not found'),
            (["-l", "a=="], "no node has the labels a=="),
            (["-l", "a in"], "--selector a in: "),
            (["--zone", "q", "-l", "a=b"], "no node has the zone q and the labels a=b; zones there: x, y"),
        ],
    )
    def test_nonsense(self, run, files, asked, says):
        ran = run("drain", "-f", files(*CLUSTER), *asked)
        assert ran.code == 2
        assert says in ran.err


class TestExitCodes:
    """With --exit-code, 3 is a no; without it, every answer is 0."""

    @pytest.mark.parametrize(
        ("words", "code"),
        [
            (["fit", "web-0"], 0),
            (["fit", "web-0", "--replicas", "6"], 0),
            (["fit", "web-0", "--replicas", "7"], 3),
            (["fit", "waiting"], 3),
            (["drain", "a"], 0),
            (["drain", "a", "b"], 3),
            (["drain", "c"], 3),
            (["drain", "c", "--force"], 0),
            (["survive", "--by", "node", "--only", "a"], 0),
            (["survive", "--by", "node", "--only", "c"], 3),
            (["survive", "--by", "node"], 3),
            (["what-if", "--add-nodes", "1", "--like", "a"], 3),
            (["what-if", "--add-nodes", "1", "--like", "d"], 0),
        ],
    )
    def test_of_each_command(self, run, files, tmp_path, words, code):
        unschedulable = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
        # `c` has a pod of nobody; `d` is large, but takes no pods; only nodes like it could take the one that waits.
        alone = (node("c", **unschedulable), pod("lone", nodeName="c"), node("d", "64", unschedulable=True))
        cluster = files(*CLUSTER, *alone)
        if words[-1] == "d":
            words = [*words, "--taint", "d-like-1", "node.kubernetes.io/unschedulable-"]
        ran = run(words[0], "-f", cluster, *words[1:], "--exit-code", "-o", "json")
        assert ran.code == code, ran.out + ran.err
        assert run(words[0], "-f", cluster, *words[1:], "-o", "json").code == 0

    def test_a_blocked_drain(self, run, files):
        asked = ("drain", "-f", files(*CLUSTER, budget(allowed=0)), "a", "--exit-code")
        assert run(*asked).code == 3
        assert run(*asked, "--disable-eviction").code == 0


class TestFlagsOfKubectlDrain:
    def test_they_are_accepted(self, run, files):
        flags = "--force=true --ignore-daemonsets --delete-emptydir-data=true --dry-run=server --grace-period=-1"
        flags += " --timeout=5m --skip-wait-for-delete-timeout=10 --chunk-size=500 --dry-run -n shop"
        asked = ("drain", "-f", files(*CLUSTER), "a")
        ran = run(*asked, *flags.split())
        assert (ran.code, ran.out) == (0, run(*asked).out)
        assert ran.err.splitlines()[:-1] == [
            f"note: {name} has no effect: nothing is deleted here, and nothing waited for"
            for name in ("--grace-period", "--timeout", "--skip-wait-for-delete-timeout")
        ]

    def test_a_flag_that_is_set_to_false_is_not_set(self, run, files):
        asked = ("drain", "-f", files(*CLUSTER, budget(allowed=0)), "a", "--exit-code")
        assert [run(*asked, f"--disable-eviction={value}").code for value in ("false", "true")] == [3, 0]

    def test_pods_by_their_labels(self, run, files):
        other = owned(pod("db-0", nodeName="a"))
        found = read(run("drain", "-f", files(*CLUSTER, other), "a", "--pod-selector", "app!=web", "-o", "json"))
        assert [move["pod"] for move in found["moves"]] == ["default/db-0"]
        assert "--pod-selector a in: " in run("drain", "-f", "-", "a", "--pod-selector", "a in", stdin="{}").err


class TestUnplaced:
    """Manifests have pods that are not on a node yet: counterfactuals do not affect them."""

    WAITING = (node("a", zone="x"), node("b", zone="y"), pod("w-0"), pod("w-1"))

    @pytest.mark.parametrize(
        ("asked", "says"),
        [
            (["drain", "a"], "drain of a: no pod would have to move\n"),
            (["survive"], "loss of each topology.kubernetes.io/zone: no pod is on these nodes that would have to go"),
        ],
    )
    def test_are_reported(self, run, files, asked, says):
        ran = run(*asked, "-f", files(*self.WAITING))
        assert ran.out.startswith(says)
        assert "2 pods (default/w-0, …) have no node in these files: only pods on nodes are judged" in ran.err


class TestSurvive:
    def test_as_text(self, run, files):
        ran = run("survive", "-f", files(*CLUSTER, pod("bare", nodeName="a")))
        assert ran.out == (
            "loss of each topology.kubernetes.io/zone: 1 of 2 losses would leave pods without a node\n"
            "  LOST  NODES  PODS  MOVE  STRANDED  GONE  DISPLACED\n"
            "  x         1     2     1         0     1          0\n"
            "  y         1     1     1         0     0          0\n"
            "  gone: no controller recreates it\n"
            "\n"
            "Without x\n"
            "  PODS  REASON\n"
            "     1  no controller recreates it  default/bare\n"
        )

    def test_as_data(self, run, files):
        found = read(run("survive", "-f", files(*CLUSTER), "--by", "node", "-o", "json"))
        losses = [(loss["lost"], loss["stranded"], loss["survived"]) for loss in found["losses"]]
        assert losses == [("a", [], True), ("b", [], True)]

    def test_progress_is_shown_on_a_terminal(self, run, files, monkeypatch):
        terminal = SimpleNamespace(isatty=lambda: True)
        monkeypatch.setattr("stowplan.app.cli.data_output.sys", SimpleNamespace(stderr=terminal))
        ran = run("survive", "-f", files(*CLUSTER), "--by", "node")
        assert "survive: 1 of 2 losses\rsurvive: 2 of 2 losses\r" in ran.err
        assert "\r" not in ran.out

    def test_nonsense(self, run, files):
        ran = run("survive", "-f", files(*CLUSTER), "--by", "rack")
        assert (ran.code, 'no node has the label "rack"\n' in ran.err) == (2, True)

    @pytest.mark.parametrize("by", ["zone", "topology.kubernetes.io/zoen"])
    def test_the_label_that_was_meant(self, run, files, by):
        ran = run("survive", "-f", files(*CLUSTER), "--by", by)
        assert ran.code == 2
        assert f'no node has the label "{by}"; did you mean topology.kubernetes.io/zone?\n' in ran.err


class TestWhatIf:
    def test_as_text(self, run, files):
        ran = run("what-if", "-f", files(*CLUSTER), "--remove", "a", "--add-nodes", "1", "--like", "b")
        assert ran.out.startswith(
            "change: add 1 node like b\n"
            "change: remove node a\n"
            "                    BEFORE  AFTER\n"
            "  nodes                  2      2\n"
            "  pods with a node       2      2\n"
            "  pending                1      1\n"
            "\n"
            "Lose their node\n"
            "  POD            GOES TO\n"
            "  default/web-0  b-like-1\n"
        )

    def test_as_data(self, run, files):
        ran = run("what-if", "-f", files(*CLUSTER), "--scale", "deployment/web=3", "-o", "json")
        found = read(ran)
        assert found["before"]["pending"] == found["after"]["pending"] == ["default/waiting"]
        assert (list(found["placed"]), found["displaced"]) == (["default/web-added-2"], {})

    def test_workloads_that_are_applied_have_pods(self, run, files, tmp_path):
        (more := tmp_path / "more.json").write_text(json.dumps(DEPLOYMENT))
        ran = run("what-if", "-f", files(*CLUSTER), "--apply", str(more))
        assert ran.out.startswith(f"change: apply {more}, with the pods of Deployment shop/api\n")
        assert "using its template: 2 pods (shop/api-0…)" in ran.err
        assert "Get a node\n  POD         NODE\n  shop/api-0  a\n  shop/api-1  b\n" in ran.out

    def test_of_workloads_that_have_pods_it_is_not_said_that_they_have_none(self, run, files, tmp_path):
        there = DEPLOYMENT | {"metadata": {"name": "web"}}
        (more := tmp_path / "more.json").write_text(json.dumps(there))
        ran = run("what-if", "-f", files(*CLUSTER), "--apply", str(more))
        assert ran.out.startswith(f"change: apply {more}, with the pods of Deployment default/web\n")
        assert "no pods yet" not in ran.err

    def test_pods_have_priorities_by_classes_of_the_cluster(self, run, files, tmp_path):
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
        (more := tmp_path / "more.json").write_text(json.dumps(pod("big", "4", priorityClassName="high")))
        ran = run("what-if", "-f", files(*CLUSTER, kind), "--apply", str(more))
        assert (ran.err, "default/big" in ran.out) == ("", True)

    def test_a_workload_that_has_no_pods_is_scaled_by_its_template(self, run, files):
        none = DEPLOYMENT | {"spec": DEPLOYMENT["spec"] | {"replicas": 0}}
        ran = run("what-if", "-f", files(*CLUSTER, none), "--scale", "deployment/shop/api=1", "-o", "json")
        assert read(ran)["placed"] == {"shop/api-added-0": "a"}

    def test_pods_that_are_scaled_away_are_deleted(self, run, files):
        ran = run("what-if", "-f", files(*CLUSTER), "--scale", "deployment/web=1")
        assert "  default/web-1  deleted\n" in ran.out

    def test_everything_at_once(self, run, files, tmp_path):
        more, config = tmp_path / "more.json", tmp_path / "config.yaml"
        more.write_text(json.dumps(pod("more", nodeSelector={"disk": "ssd"})))
        config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
        ran = run(
            *("what-if", "-f", files(*CLUSTER), "--label", "a", "disk=ssd", "--taint", "b", "k=v:NoExecute"),
            *("--apply", str(more), "--config", str(config), "-o", "json"),
        )
        found = read(ran)
        assert (found["placed"], found["displaced"]) == ({"default/more": "a"}, {"default/web-1": "a"})
        assert len(found["changes"]) == 4

    @pytest.mark.parametrize(
        ("asked", "says"),
        [
            ([], "Say what changes"),
            (["--add-nodes", "1"], "go together"),
            (["--remove", "zz"], 'node "zz" not found'),
            (["--label", "zz", "disk=ssd"], 'node "zz" not found'),
            (["--label", "a", "disk"], "want KEY=VALUE, or KEY- to remove it"),
            (["--label", "a", "disk=ssd=x"], "want KEY=VALUE, or KEY- to remove it"),
            (["--taint", "a", "k=v"], "want KEY[=VALUE]:EFFECT"),
            (["--taint", "a", "k=v:Maybe"], "want KEY[=VALUE]:EFFECT"),
            (["--scale", "web=3"], "web cannot be scaled; did you mean deployment/default/web?"),
            (["--scale", "pod/none=3"], "give the kind of a workload, as in deployment/none=3"),
            (["--scale", "ds/web=3"], "scale DaemonSet default/web to 3: it has one pod on each of its nodes"),
            (["--scale", "deployment/web"], "want KIND/[NS/]NAME=N"),
            (["--scale", "deployment/web=99999999999"], "want at most 100,000 pods"),
            (["--scale", "deployment/none=3"], "it has no pod in this cluster"),
            (["--scale", "deployment/shop/web=3"], "did you mean deployment/default/web?"),
            (["--apply", "nope.yaml"], "nope.yaml: No such file or directory"),
            (["--config", "nope.yaml"], "nope.yaml"),
        ],
    )
    def test_nonsense(self, run, files, asked, says):
        ran = run("what-if", "-f", files(*CLUSTER), *asked)
        assert ran.code == 2
        assert says in ran.err


@pytest.mark.parametrize("command", ["fit", "drain", "survive", "what-if"])
def test_files_and_a_live_cluster_exclude_each_other(run, files, command):
    asked = {"fit": ["web-0"], "drain": ["a"], "survive": [], "what-if": ["--remove", "a"]}[command]
    ran = run(command, *asked, "-f", files(*CLUSTER), "--context", "x")
    assert (ran.code, "give one or the other" in ran.err) == (2, True)
