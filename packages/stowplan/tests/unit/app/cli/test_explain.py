"""`stowplan explain`: selection of pods, output formats, and defaults."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from stowplan.testing import a_node, a_pod
from support.paths import STOWPLAN
from support.processes import forked

NODE, TAINTED = a_node("a").obj(), a_node("t").tainted("gpu").obj()
WEB = a_pod("web", "shop").requests(cpu="1").obj()
HUGE = a_pod("huge", "shop").requests(cpu="100").obj()

MY_PLUGIN = """
from stowplan.plugins import NodeFilterPlugin, unschedulable

class NotOnA(NodeFilterPlugin):
    name = "NotOnA"

    def filter_node(self, state, pod, node):
        if "odd" in pod.labels:
            raise ValueError("odd")
        return unschedulable("not on a, of all nodes") if node.name == "a" else None
"""
WITH_MY_PLUGIN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: NotOnA}]}}
"""


def priority_class(name, value, **fields):
    metadata = {"name": name}
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata,
        "value": value,
        **fields,
    }


# -- selection


def test_one_pod(run, files):
    ran = run("explain", "-f", files(NODE, WEB), "--pod", "shop/web")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("shop/web goes to a: 1 of 1 node would take it\n")


def test_a_bare_name_is_in_the_default_namespace(run, files):
    assert run("explain", "-f", files(NODE, a_pod("web").obj()), "--pod", "web").out.startswith("default/web goes to a")


@pytest.mark.parametrize("args", [(), ("--pending",)])
def test_without_a_name_pending_pods_are_explained(run, files, args):
    ran = run("explain", "-f", files(NODE, HUGE, WEB, a_pod("on").on("a").obj()), *args)
    assert ran.code == 0
    assert "shop/huge is pending" in ran.out
    assert "shop/web goes to a" in ran.out
    assert "default/on" not in ran.out


def test_no_pending_pods(run, files):
    assert run("explain", "-f", files(NODE)).out == "No pod is pending.\n"


def test_equal_pods_are_explained_once(run, files):
    pods = [a_pod(f"w-{i}").requests(cpu="100").obj() for i in range(4)]
    out = run("explain", "-f", files(NODE, *pods)).out
    assert "default/w-0 and 3 more like it (default/w-1, default/w-2, default/w-3) are pending" in out
    assert out.count("What would help") == 1


def test_finished_pods_are_not_pending(run, files):
    path = files(NODE, a_pod("job").phase("Succeeded").obj())
    assert run("explain", "-f", path).out == "No pod is pending.\n"
    assert "has finished (Succeeded)" in run("explain", "-f", path, "--pod", "job").err


def test_pods_of_other_schedulers_are_skipped_with_a_note(run, files):
    path = files(NODE, WEB, a_pod("theirs").scheduler("volcano").obj())
    ran = run("explain", "-f", path)
    assert ran.code == 0
    assert ran.err == (
        'note: skipped default/theirs: for scheduler "volcano", which the configuration has no profile for; '
        "--config FILE names one that has\n"
    )
    asked = run("explain", "-f", path, "--pod", "theirs")
    assert (asked.code, asked.err) == (0, "")
    assert 'no profile schedules it: its schedulerName is "volcano"' in asked.out


def test_a_pod_that_another_scheduler_has_placed_is_not_pending(run, files):
    asked = run("explain", "-f", files(NODE, a_pod("theirs").scheduler("volcano").on("a").obj()), "pod", "theirs")
    assert asked.out.startswith("default/theirs runs on a: not scheduled here\n")


def test_a_pod_that_names_no_scheduler_is_one_of_default_scheduler(run, files, tmp_path):
    profile = '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [%s]}'
    (tmp_path / "config.yaml").write_text(profile % '{"schedulerName": "mine"}')
    options = ("-f", files(NODE, a_pod("web").obj()), "--config", str(tmp_path / "config.yaml"))
    assert (
        'its schedulerName is "default-scheduler", this configuration is for mine'
        in run("explain", *options, "pod", "web").out
    )
    assert 'for scheduler "default-scheduler"' in run("explain", *options, "pending").err


def test_pending_pods_of_other_schedulers_are_mentioned(run, files):
    path = files(NODE, a_pod("theirs").scheduler("volcano").obj())
    assert run("explain", "-f", path).out == "No pod is pending for the schedulers of this configuration.\n"


# -- formats


def test_json_of_one_pod_and_of_many(run, files):
    path = files(NODE, TAINTED, HUGE)
    one = json.loads(run("explain", "-f", path, "--pod", "shop/huge", "-o", "json").out)
    assert one["pod"] == "shop/huge"
    assert one["suggestions"][0]["changes"] == [{"kind": "resources", "requests": {"cpu": "4"}}]
    assert one["obstacles"] == ["too large for every node: asks for 100 cpu, the largest node (a) offers 4"]
    assert one["rejected"]["a"]["detail"] == "lacks 96 cpu (0 of 4 in use)"
    many = json.loads(run("explain", "-f", path, "-o", "json").out)
    # The list form does not have every node.
    assert one.pop("rejected").keys() == {name for group in one["refusals"] for name in group["names"]}
    version = one.pop("schemaVersion")
    assert one.pop("emulatedVersion") == many["emulatedVersion"] == "1.37"
    assert (many["schemaVersion"], many["kind"], many["verdicts"]) == (version, "ExplainList", [one])
    assert many["summary"]["refused"] == many["summary"]["pods"] == 1


def test_json_is_stable(run, files):
    path = files(NODE, TAINTED, HUGE, WEB)
    outputs = {run("explain", "-f", path, "-o", "json").out for _ in range(3)}
    assert len(outputs) == 1
    text = outputs.pop()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def test_yaml_equals_json(run, files):
    path = files(NODE, HUGE)
    assert yaml.safe_load(run("explain", "-f", path, "-o", "yaml").out) == json.loads(
        run("explain", "-f", path, "-o", "json").out
    )


def test_wide(run, files):
    out = run("explain", "-f", files(NODE, TAINTED, HUGE), "-o", "wide").out
    assert "t     TaintToleration" in out
    assert "lacks 96 cpu (0 of 4 in use)" in out


# -- defaults of the API server


def test_priority_comes_from_its_class(run, files):
    low = a_pod("low").requests(cpu="4").on("a").obj()
    urgent = a_pod("urgent").requests(cpu="4").spec(priorityClassName="urgent").obj()
    out = run("explain", "-f", files(NODE, low, urgent, priority_class("urgent", 1000)), "--pod", "urgent").out
    assert "(priority 1,000)" in out
    assert "would evict 1 pod from a" in out


def test_a_default_priority_class_with_preemption_policy_never(run, files):
    low = a_pod("low").requests(cpu="4").priority(-1).on("a").obj()
    default = priority_class("normal", 5, globalDefault=True, preemptionPolicy="Never")
    out = run("explain", "-f", files(NODE, low, a_pod("x").requests(cpu="4").obj(), default), "--pod", "x").out
    assert "(priority 5)" in out
    assert "not eligible due to preemptionPolicy=Never" in out


def test_built_in_priority_classes_are_known(run, files):
    path = files(NODE, a_pod("x").spec(priorityClassName="system-node-critical").obj())
    assert "(priority 2,000,001,000)" in run("explain", "-f", path).out


def test_an_unknown_class_is_noted(run, files):
    pods = [a_pod(name).spec(priorityClassName="urgent").obj() for name in "xy"]
    ran = run("explain", "-f", files(NODE, *pods))
    assert ran.code == 0
    note = 'note: priority class "urgent" is not in the files: default/x and 1 more taken to have priority 0\n'
    assert ran.err == note


def test_limits_default_requests(run, files):
    out = run("explain", "-f", files(NODE, a_pod("x").limits(cpu="5").obj())).out
    assert "Insufficient cpu" in out


def test_ports_of_the_host_network(run, files):
    port = {"containerPort": 80}
    pods = [
        a_pod(name).host_network().spec(containers=[{"name": "c", "ports": [port]}], **node).obj()
        for name, node in (("old", {"nodeName": "a"}), ("new", {}))
    ]
    assert "80/TCP held by default/old" in run("explain", "-f", files(NODE, *pods)).out


def test_objects_without_a_namespace_are_in_the_default_one(run):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}
    ran = run(
        "explain", "-f", "-", "--pod", "default/x", stdin={"apiVersion": "v1", "kind": "List", "items": [NODE, pod]}
    )
    assert ran.out.startswith("default/x goes to a")


# -- sources and configuration


def test_files_directories_and_stdin_together(run, files, tmp_path):
    directory = tmp_path / "nodes"
    directory.mkdir()
    (directory / "a.json").write_text(json.dumps(NODE))
    ran = run("explain", "-f", str(directory), "-f", files(WEB), "-f", "-", stdin=HUGE)
    assert "shop/huge is pending" in ran.out
    assert "shop/web goes to a" in ran.out


def test_custom_configuration_and_plugins(run, files, tmp_path, monkeypatch):
    (tmp_path / "my_demo_plugin.py").write_text(MY_PLUGIN)
    (tmp_path / "config.yaml").write_text(WITH_MY_PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = str(tmp_path / "config.yaml")
    ran = run("explain", "-f", files(NODE, WEB), "--config", config, "--plugin", "my_demo_plugin:NotOnA")
    assert ran.code == 0
    assert "1 node  NotOnA  not on a, of all nodes  (a)" in ran.out
    odd = a_pod("odd", "shop").labels(odd="yes").obj()
    asked = ("explain", "-f", files(TAINTED, a_node("b").obj(), WEB, odd), "--config", config)
    asked += ("--plugin", "my_demo_plugin:NotOnA")
    codes = {given: run(*asked, *given).code for given in ((), ("--exit-code",), ("pod", "shop/odd"))}
    assert codes == {(): 0, ("--exit-code",): 2, ("pod", "shop/odd"): 2}


# -- as a process


def command(*args, **options):
    return forked.run([sys.executable, "-m", "stowplan", *args], capture_output=True, text=True, **options)


@pytest.mark.slow
def test_output_is_plain_when_piped(files):
    ran = command("explain", "-f", files(NODE, TAINTED, HUGE))
    assert ran.returncode == 0
    assert "\x1b" not in ran.stdout
    # The reference's message is one line, however narrow the terminal.
    assert any("0/2 nodes are available" in line and line.endswith("scheduling.") for line in ran.stdout.splitlines())


@pytest.mark.slow
def test_a_reader_that_closes_the_pipe_is_no_error(files):
    pods = [a_pod(f"p-{i}").requests(cpu=str(10 + i)).obj() for i in range(300)]
    path = files(NODE, *pods)
    ran = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m stowplan explain -f {path} -o wide | head -1"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(STOWPLAN)},
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "300 pods: 300 fit nowhere\n"


# -- files without the objects that pods reference

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c", "namespace": "shop"},
    "spec": {"volumeName": "v"},
}
CLAIMING = a_pod("db", "shop").claims_volume("c")
UNBOUND = {**CLAIM, "spec": {"storageClassName": "fast"}}
SCRATCH = a_pod("db", "shop").volume("s", ephemeral={"volumeClaimTemplate": {"spec": {}}})
DEFAULT_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "example.com/disks",
    "volumeBindingMode": "WaitForFirstConsumer",
}


@pytest.mark.parametrize(
    ("objects", "pod", "lacking"),
    [
        pytest.param([], CLAIMING, "persistentvolumeclaims", id="no claims"),
        pytest.param([CLAIM], CLAIMING, "persistentvolumes", id="no volumes"),
        pytest.param([UNBOUND], CLAIMING, "storageclasses", id="no classes"),
    ],
)
@pytest.mark.parametrize("running", [False, True], ids=["pending", "running"])
def test_objects_absent_from_the_files_are_not_reported_as_missing(run, files, objects, pod, lacking, running):
    made = pod.obj()
    if running:
        made["spec"]["nodeName"] = "a"
    given = files(NODE, WEB, made, *objects)
    ran = run("explain", "-f", given, "pod", "shop/db")
    assert ran.code == 2
    assert f"cannot judge: no {lacking} in the files" in ran.out
    assert "not found" not in ran.out
    told = json.loads(run("explain", "-f", given, "-o", "json", "pod", "shop/db").out)
    assert told["error"].startswith(
        f"cannot judge: no {lacking} in the files; `stowplan dump` saves a cluster with them"
    )
    assert run("explain", "-f", given, "pod", "shop/web").out.startswith("shop/web goes to a"), "others are evaluated"


@pytest.mark.parametrize(("node", "lacking"), [("", "storageclasses"), ("a", "persistentvolumeclaims")])
def test_the_claim_of_an_ephemeral_volume(run, files, node, lacking):
    """The claim of a pending pod is created; the files do not show whether it gets a class."""
    pod = SCRATCH.obj()
    pod["spec"]["nodeName"] = node
    ran = run("explain", "-f", files(NODE, pod), "pod", "shop/db")
    assert ran.code == 2
    assert f"cannot judge: no {lacking} in the files" in ran.out


def test_a_missing_claim_beside_a_generated_one(run, files):
    ran = run(
        "explain", "-f", files(NODE, SCRATCH.obj(), a_pod("web", "shop").claims_volume("c").obj()), "pod", "shop/web"
    )
    assert "cannot judge: no persistentvolumeclaims in the files" in ran.out


def test_an_ephemeral_volume_gets_the_default_class(run, files):
    ran = run("explain", "-f", files(NODE, DEFAULT_CLASS, SCRATCH.obj()), "pod", "shop/db")
    assert ran.out.startswith("shop/db goes to a")


def test_a_node_page_mentions_absent_objects_of_its_pods(run, files):
    ran = run("explain", "-f", files(NODE, WEB, CLAIMING.obj()), "node", "a", "-o", "wide")
    assert "cannot judge: no persistentvolumeclaims in the files" in ran.out
    assert "not found" not in ran.out


def test_a_claim_absent_beside_others_is_missing(run, files):
    others = [{**CLAIM, "metadata": {"name": "other", "namespace": "shop"}}]
    ran = run("explain", "-f", files(NODE, CLAIMING.obj(), *others), "pod", "shop/db")
    assert 'persistentvolumeclaim "c" not found' in ran.out
    assert "cannot judge" not in ran.out


def test_an_unreachable_extender_gets_a_hint(run, files, tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "extenders": [{"urlPrefix": "http://127.0.0.1:9", "filterVerb": "filter"}],
            }
        )
    )
    asked = ("explain", "-f", files(a_node("a").obj(), a_pod("p").obj()), "--config", str(tmp_path / "config.json"))
    out = run(*asked).out
    assert 'default/p cannot be judged\n  error: Post "http://127.0.0.1:9/filter": connection refused\n' in out
    assert out.endswith("`stowplan explain --no-extenders` judges the pod without them\n")
    assert run(*asked, "--no-extenders").out.startswith("default/p goes to a")
