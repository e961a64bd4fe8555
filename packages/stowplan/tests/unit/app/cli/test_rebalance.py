"""`stowplan rebalance`: goals, output, commands and errors."""

import json

import pytest

from support.what_if.objects import budget, node, owned, pod

TAINTED = node("a", taints=[{"key": "k", "effect": "NoSchedule"}])
CLUSTER = (TAINTED, node("b"), owned(pod("web-0", nodeName="a")), owned(pod("web-1", nodeName="a")))


def read(ran):
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_text(run, files):
    ran = run("rebalance", "-f", files(*CLUSTER), "--goal", "mend")
    assert ran.code == 0
    assert "rebalance: pods that their nodes would not take any more: 2 moves" in ran.out
    assert "web-0  a     b   TaintToleration: node(s) had untolerated taint(s)" in ran.out


@pytest.mark.parametrize("given", ["-1s", "soon"])
def test_how_much_work_may_be_lost(run, files, given):
    assert "0 moves" not in run("rebalance", "-f", files(*CLUSTER), "--goal=mend", "--max-lost-work=0s").out
    ran = run("rebalance", "-f", files(*CLUSTER), "--goal=mend", f"--max-lost-work={given}")
    assert ran.code == 2
    assert "Invalid value for --max-lost-work" in ran.err


def test_json(run, files):
    found = read(run("rebalance", "-f", files(*CLUSTER), "--goal", "free-nodes=1", "-o", "json"))
    assert [(move["pod"], move["from"], move["to"], move["step"]) for move in found["moves"]] == [
        ("default/web-0", "a", "b", 1),
        ("default/web-1", "a", "b", 2),
    ] or found["cordon"] == ["b"]
    assert found["kind"] == "Rebalance"


def test_what_stays_and_why(run, files):
    ran = run("rebalance", "-f", files(*CLUSTER, budget(allowed=0)), "--goal", "mend", "--exit-code")
    assert ran.code == 3
    assert "Would have to move, and stay" in ran.out
    assert "default/web: the budget allows no disruption now" in ran.out


def test_commands(run, files):
    ran = run("rebalance", "-f", files(*CLUSTER), "--goal", "mend", "--commands")
    first, *rest = ran.out.splitlines()
    assert first == "set -e"
    assert rest[0].endswith("| kubectl create --raw /api/v1/namespaces/default/pods/web-0/eviction -f -  # to b")
    assert rest[1].startswith("# Step 2")


def test_commands_end_as_the_plan_does(run, files):
    ran = run("rebalance", "-f", files(*CLUSTER, budget(allowed=0)), "--goal", "mend", "--commands", "--exit-code")
    assert (ran.code, ran.out) == (3, "set -e\n")
    ran = run("rebalance", "-f", files(*CLUSTER), "--goal", "mend", "--commands", "-o", "json")
    assert (ran.code, "--commands prints a script: leave out -o" in ran.err) == (2, True)


def test_a_limit_that_is_reached_is_noted(run, files, tmp_path):
    (tmp_path / "policy.yaml").write_text(POLICY)
    asked = ("rebalance", "-f", files(*CLUSTER), "--policy", str(tmp_path / "policy.yaml"), "--max-moves")
    assert "at most 1 pod may move: there may be more to do" in run(*asked, "1").out
    assert "may move" not in run(*asked, "2").out


def test_hostile_names_are_quoted(run, files):
    bad = owned(pod("web-0", nodeName="a"))
    bad["metadata"]["name"] = "x'; reboot; '"
    ran = run("rebalance", "-f", files(TAINTED, node("b"), bad), "--goal", "mend", "--commands")
    assert "'; reboot; '" not in ran.out.replace("'\"'\"'", "")


def test_room_for_a_file(run, files, tmp_path):
    (tmp_path / "new.json").write_text(json.dumps(pod("new", "2")))
    found = read(run("rebalance", "-f", files(*CLUSTER), "--goal", f"room-for={tmp_path / 'new.json'}", "-o", "json"))
    assert (found["met"], found["placed"]) == (True, {"default/new": "b"})


@pytest.mark.parametrize("goal", ["mendd", "free-nodes", "free-nodes=0", "free-nodes=x", "room-for=", "pack=2", ""])
def test_no_such_goal(run, files, goal):
    ran = run("rebalance", "-f", files(*CLUSTER), "--goal", goal)
    assert ran.code == 2
    assert f"--goal {goal}: want mend|spread|pack|free-nodes=N|room-for=FILE" in ran.err


def test_no_such_file(run, files):
    ran = run("rebalance", "-f", files(*CLUSTER), "--goal", "room-for=/nowhere.yaml")
    assert ran.code == 2
    assert "/nowhere.yaml" in ran.err


POLICY = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: all
  pluginConfig:
  - name: RemovePodsViolatingNodeTaints
  - name: RemoveFailedPods
    args: {minPodLifetimeSeconds: 0}
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints, RemoveFailedPods]}
"""


def test_a_policy(run, files, tmp_path):
    (tmp_path / "policy.yaml").write_text(POLICY)
    failed = owned(pod("old", nodeName="a"))
    failed["status"] = {"phase": "Failed"}
    ran = run("rebalance", "-f", files(*CLUSTER, failed), "--policy", str(tmp_path / "policy.yaml"))
    assert "2 moves, 1 deletion" in ran.out
    assert "RemovePodsViolatingNodeTaints: k" in ran.out
    ran = run("rebalance", "-f", files(*CLUSTER, failed), "--policy", str(tmp_path / "policy.yaml"), "--commands")
    assert "pods/old/eviction" in ran.out.splitlines()[1]


def test_a_policy_with_problems(run, files, tmp_path):
    (tmp_path / "policy.yaml").write_text(POLICY.replace("minPodLifetimeSeconds: 0", "minPodLifetime: 0"))
    ran = run("rebalance", "-f", files(*CLUSTER), "--policy", str(tmp_path / "policy.yaml"))
    assert ran.code == 2
    assert "line 9: profiles[0].pluginConfig[1].args.minPodLifetime: there is no such field" in ran.err


@pytest.mark.parametrize("given", [(), ("--goal", "mend", "--policy", "p.yaml")])
def test_a_goal_or_a_policy(run, files, given):
    ran = run("rebalance", "-f", files(*CLUSTER), *given)
    assert ran.code == 2
    assert "Give one of --goal and --policy" in ran.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--step-timeout", "9"), "--step-timeout is for --apply"),
        (("--record-namespace", "ops"), "--record-namespace is for --apply"),
        (("--prometheus-token-file", "token"), "--prometheus-token-file is for a --policy"),
    ],
)
def test_options_that_need_another(run, files, given, said):
    ran = run("rebalance", "-f", files(*CLUSTER), "--goal", "mend", *given)
    assert ran.code == 2
    assert said in ran.err


def test_only_live_clusters_can_be_changed(run, files):
    ran = run("rebalance", "-f", files(*CLUSTER), "--goal", "mend", "--apply")
    assert ran.code == 2
    assert "--apply needs a live cluster" in ran.err
    ran = run("rebalance", "--goal", "mend", "--apply", "--commands")
    assert "give one or the other" in ran.err


def test_the_roles_for_it(run):
    ran = run("rebalance", "--goal", "mend", "--apply", "--rbac", "--record-namespace", "ops")
    assert "pods/eviction" in ran.out
    assert "namespace: ops" in ran.out
    assert "eviction" not in run("rebalance", "--goal", "mend", "--rbac").out


BY_USE = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: all
  pluginConfig:
  - name: LowNodeUtilization
    args:
      thresholds: {cpu: 20}
      targetThresholds: {cpu: 60}
      metricsUtilization: {source: KubernetesMetrics}
  plugins:
    balance: {enabled: [LowNodeUtilization]}
"""


@pytest.mark.parametrize("apply", [(), ("--apply",)])
def test_the_rights_that_a_policy_needs(run, tmp_path, apply):
    (tmp_path / "p.yaml").write_text(BY_USE)
    by_use = run("rebalance", "--policy", str(tmp_path / "p.yaml"), "--rbac", *apply).out
    (tmp_path / "p.yaml").write_text(BY_USE.replace("metricsUtilization: {source: KubernetesMetrics}", ""))
    by_requests = run("rebalance", "--policy", str(tmp_path / "p.yaml"), "--rbac", *apply).out
    goal = run("rebalance", "--goal", "mend", "--rbac", *apply).out
    rights = [("priorityclasses" in role, "metrics.k8s.io" in role) for role in (by_use, by_requests, goal)]
    assert rights == [(True, True), (True, False), (False, False)]


def metrics(kind, name, cpu):
    usage = {"cpu": cpu, "memory": "1Gi"}
    used = {"usage": usage} if kind == "NodeMetrics" else {"containers": [{"name": "c", "usage": usage}]}
    metadata = {"name": name} | ({} if kind == "NodeMetrics" else {"namespace": "default"})
    return {"apiVersion": "metrics.k8s.io/v1beta1", "kind": kind, "metadata": metadata, **used}


def test_measured_use_in_files(run, files, tmp_path):
    (tmp_path / "policy.yaml").write_text(BY_USE)
    cluster = (node("a"), node("b", "8"), owned(pod("web-0", "10m", nodeName="a")))
    ran = run("rebalance", "-f", files(*cluster), "--policy", str(tmp_path / "policy.yaml"))
    assert "no NodeMetrics in these files" in ran.err
    used = (metrics("NodeMetrics", "a", "3"), metrics("NodeMetrics", "b", "0"), metrics("PodMetrics", "web-0", "3"))
    ran = run("rebalance", "-f", files(*cluster, *used), "--policy", str(tmp_path / "policy.yaml"))
    assert "LowNodeUtilization: a has cpu 75 %" in ran.out


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("--goal", "pack", "--weights", "haste=1"), "weights: haste: want one of disruption, cost, time"),
        (("--goal", "pack", "--weights", "time"), "--weights: want NAME=W, got 'time'"),
        (("--goal", "pack", "--weights", "time=soon"), "--weights: time: want a number, got 'soon'"),
        (("--goal", "mend", "--weights", "time=1"), "weights: mend: it is reached or not"),
        (("--policy", "p.yaml", "--weights", "time=1"), "--weights are for a --goal"),
    ],
)
def test_weights_that_are_refused(run, files, given, problem):
    ran = run("rebalance", "-f", files(*CLUSTER), *given)
    assert ran.code == 2
    assert problem in ran.err


def test_weights(run, files):
    ran = run("rebalance", "-f", files(*CLUSTER), "--goal", "pack", "--weights", "disruption=9, cost=1")
    assert "nothing to do" in ran.out
