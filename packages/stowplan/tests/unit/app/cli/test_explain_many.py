"""Questions about many pods: selection, the summary, exit codes, workloads in files."""

import json

import pytest

from stowplan.testing import a_node, a_pod

NODE = a_node("a").allocatable(cpu="4", pods="110").obj()


def deployment(name="web", replicas=3, namespace="shop", **fields):
    template = {"metadata": {"labels": {"app": name}}, "spec": a_pod("x").requests(cpu="1").obj()["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, **fields},
        "spec": spec,
    }


def waiting(name, namespace="default", cpu="100", **labels):
    return a_pod(name, namespace=namespace).labels(**labels).requests(cpu=cpu).obj()


@pytest.fixture
def shops(files):
    """Two namespaces with pods that fit nowhere and one that fits."""
    return files(
        NODE,
        waiting("web-0", "shop", app="web"),
        waiting("web-1", "shop", app="web"),
        waiting("api-0", "shop", cpu="50", app="api"),
        waiting("job-0", "batch", cpu="1", app="job"),
        a_pod("gate-0", namespace="batch").gated("example.com/quota").obj(),
    )


def explained(run, *args):
    """The pods in the JSON output."""
    told = json.loads(run("explain", *args, "-o", "json").out)
    verdicts = told.get("verdicts", [told])
    return sorted(key for one in verdicts for key in (one["pod"], *one.get("alike", ())))


def test_a_summary_comes_first(run, shops):
    lines = run("explain", "-f", shops).out.splitlines()
    assert lines[0] == "5 pods: 1 would get a node now, 3 fit nowhere, 1 gated"
    assert lines[2] == "Why they wait"
    assert lines[3].split() == ["3", "pods", "NodeResourcesFit", "Insufficient", "cpu", "(shop)"]
    assert lines[4].split()[:3] == ["1", "pod", "SchedulingGates"]
    assert lines[6:9] == ["By namespace", "  3 pods  shop", "  2 pods  batch"]
    assert lines[10] == "What would help most"


@pytest.mark.parametrize("alike", [True, False])
def test_json_of_300_pods_on_500_nodes_is_small(run, files, alike):
    """With every node of each pod it would be some 25 MB. For a tenth of the pods, all different, it must be below a
    tenth."""
    number = 300 if alike else 30
    tainted = (a_node(f"node-{i}").allocatable(cpu="4", pods="110").tainted("team", f"t{i % 7}") for i in range(500))
    nodes = [node.obj() for node in tainted]
    pods = [waiting(f"web-{i:03}", cpu="2" if alike else f"{2000 + i}m") for i in range(number)]
    out = run("explain", "-f", files(*nodes, *pods), "-o", "json").out
    told = json.loads(out)
    assert told["summary"]["pods"] == number
    assert len(told["verdicts"]) == (1 if alike else number)
    assert all(one["refusals"][0]["nodes"] == 500 and "rejected" not in one for one in told["verdicts"])
    assert len(out) < 2_500_000 * number // 300


def test_suggestions_for_equal_pods_are_tried_with_all_of_them(run, files):
    pods = [a_pod(f"p{i}").host_port(80).obj() for i in range(3)]
    cordoned = a_node("b").unschedulable().obj()
    out = run("explain", "-f", files(NODE, a_pod("x").host_port(80).on("a").obj(), cordoned, *pods)).out
    helps = out[out.index("What would help") :].splitlines()[1:5]
    assert helps == [
        "  1. add 3 nodes like a: places 3 of 3 pods",
        "  2. do without hostPort 80/TCP: places 3 of 3 pods",
        "  3. uncordon b: places 1 of 3 pods",
        "",
    ]


def test_a_node_of_a_rare_kind_is_suggested_before_what_the_pod_asks_for_is_given_up(run, files):
    gpu = "nvidia.com/gpu"
    common = [a_node(f"n{i}-{j}").allocatable(cpu=str(4 + i)).obj() for i in range(6) for j in range(2)]
    rare = a_node("gpu-000").allocatable({gpu: "1", "cpu": "4"}).obj()
    pods = [a_pod("train").requests({gpu: "1"}).on("gpu-000").obj(), a_pod("notebook").requests({gpu: "1"}).obj()]
    path = files(*common, rare, *pods)
    out = run("explain", "-f", path, "pod", "notebook").out
    helps = out[out.index("What would help") :].splitlines()[1:3]
    assert helps[0] == "  1. add 1 node like gpu-000: places it"
    assert helps[1].startswith(f"  2. request no {gpu} to gain 13 nodes ")
    told = json.loads(run("explain", "-f", path, "pod", "notebook", "-o", "json").out)
    assert told["kind"] == "Explain"
    assert [one["text"] for one in told["relief"]] == ["add 1 node like gpu-000"]


def test_one_group_needs_no_summary(run, files):
    out = run("explain", "-f", files(NODE, waiting("a"), waiting("b"))).out
    assert out.startswith("default/a and 1 more like it (default/b) are pending")


@pytest.mark.parametrize(("replicas", "together"), [(9, 4), (4, 4)])
def test_pods_that_fit_alone_and_not_together(run, files, replicas, together):
    path = files(NODE, deployment(replicas=replicas))
    ran, told = run("explain", "-f", path, "--exit-code"), json.loads(run("explain", "-f", path, "-o", "json").out)
    crowded = together < replicas
    line = f"{replicas} pods: {replicas} would each get a node now, but only {together} of them together\n\n"
    assert ran.out.startswith(line if crowded else "shop/web-0 and 3 more like it")
    assert ran.code == (3 if crowded else 0)
    assert (told["summary"]["placeable"], told["summary"]["together"]) == (replicas, together)


def test_running_pods_do_not_wait(run, files):
    """Nor do those that would not get their node again, or wait for their images there."""
    running = [a_pod(name).requests(cpu="2").on("a").phase("Running") for name in ("x", "y")]
    beside = [a_pod("pulls").on("a").phase("Pending"), a_pod("leaves").on("a").deleted("2026-01-02T12:00:00Z")]
    path = files(a_node("a").allocatable(cpu="1", pods="110").obj(), *(pod.obj() for pod in (*running, *beside)))
    ran = run("explain", "-f", path, "pod", "x", "y", "pulls", "leaves", "--exit-code")
    assert ran.out.startswith("4 pods: 2 run, 1 has a node but does not run yet, 1 is being deleted\n")
    assert ran.code == 0
    told = json.loads(run("explain", "-f", path, "pod", "x", "y", "-o", "json").out)["summary"]
    assert (told["running"], told["placeable"], told["refused"], told["causes"], told["relief"]) == (2, 0, 0, [], [])
    for name, is_there in (("x", "runs on a"), ("pulls", "is bound to a"), ("leaves", "is being deleted on a")):
        assert run("explain", "-f", path, "pod", name).out.startswith(f"default/{name} {is_there} and ")


# -- workloads


def test_the_cause_of_a_daemon_sets_pod_is_on_its_own_node(run, files):
    own = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
    agent = a_pod("agent-x").requests(cpu="9").owner("DaemonSet", "agent").requires_node(fields=own).obj()
    path = files(NODE, a_node("b").obj(), a_node("c").obj(), agent, waiting("web-0"))
    told = json.loads(run("explain", "-f", path, "-o", "json").out)["summary"]
    assert [(cause["reason"], cause["pods"]) for cause in told["causes"]] == [("Insufficient cpu", 2)]


def of_web(name, **fields):
    pod = a_pod(name, "shop").requests(cpu="1").owner("ReplicaSet", "web-5d4").obj()
    return {**pod, "spec": {**pod["spec"], **fields}}


def test_pods_that_are_not_created(run, files):
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: small"}
    web = deployment(uid="1") | {"status": {"replicas": 1, "updatedReplicas": 1, "conditions": [failure]}}
    nothing = deployment("none", uid="2")
    path = files(NODE, web, nothing, of_web("web-5d4-x", nodeName="a"))
    ran = run("explain", "-f", path, "deploy/shop/web", "--exit-code")
    assert ran.out.startswith(
        "Deployment shop/web wants 3 pods: 1 runs, 2 are not created\n"
        "  not created: exceeded quota: small (FailedCreate)\n\nshop/web-5d4-x runs on a "
    )
    assert ran.code == 3
    told = json.loads(run("explain", "-f", path, "deploy/shop/web", "-o", "json").out)
    assert told["workloads"] == [
        {
            "kind": "Deployment",
            "workload": "shop/web",
            "wanted": 3,
            "existing": 1,
            "missing": 2,
            "reason": "FailedCreate",
            "message": "exceeded quota: small",
        }
    ]
    assert run("explain", "-f", path, "deploy/shop/none").out == (
        "Deployment shop/none wants 3 pods: 3 are not created\n"
        "  not created, and nothing that can be read from here says why\n"
    )
    paused = nothing | {"spec": {**nothing["spec"], "paused": True}}
    assert run("explain", "-f", files(NODE, paused), "deploy/shop/none").out == (
        "Deployment shop/none wants 3 pods: 3 are not created\n"
        "  it is paused: changes of its template are not rolled out\n"
    )
    path = files(NODE, web, nothing, of_web("web-5d4-x", nodeName="a"))
    both = run("explain", "-f", path, "deploy/shop/web", "deploy/shop/none").out.splitlines()
    assert [line for line in both if line.startswith(("Deployment", "1 pod"))] == [
        "Deployment shop/web wants 3 pods: 1 runs, 2 are not created",
        "Deployment shop/none wants 3 pods: 3 are not created",
        "1 pod: 1 runs",
    ]


def test_the_summary_as_json(run, shops):
    told = json.loads(run("explain", "-f", shops, "-o", "json").out)["summary"]
    counts = {name: told[name] for name in ("pods", "placeable", "refused", "gated", "unjudged")}
    assert counts == {"pods": 5, "placeable": 1, "refused": 3, "gated": 1, "unjudged": 0}
    assert told["namespaces"] == {"shop": 3, "batch": 2}
    assert told["causes"][0] == {
        "plugin": "NodeResourcesFit",
        "reason": "Insufficient cpu",
        "pods": 3,
        "namespaces": {"shop": 3},
    }
    # One node has room for a single pod with 4 CPUs.
    assert told["relief"][0]["pods"] == 1


@pytest.mark.parametrize(
    ("args", "pods"),
    [
        (("-n", "shop"), ["shop/api-0", "shop/web-0", "shop/web-1"]),
        (("-A", "pending"), ["batch/gate-0", "batch/job-0", "shop/api-0", "shop/web-0", "shop/web-1"]),
        (("-l", "app in (web, job)"), ["batch/job-0", "shop/web-0", "shop/web-1"]),
        (("--field-selector", "metadata.namespace!=shop,metadata.name=job-0"), ["batch/job-0"]),
        (("pod", "shop/web-0", "batch/job-0"), ["batch/job-0", "shop/web-0"]),
        (("pod/web-0", "po/api-0", "-n", "shop"), ["shop/api-0", "shop/web-0"]),
        (("-n", "shop", "po", "web-1"), ["shop/web-1"]),
        (("pods", "shop/web-1", "shop/web-1"), ["shop/web-1"]),
    ],
)
def test_selection_of_pods(run, shops, args, pods):
    assert explained(run, "-f", shops, *args) == pods


def test_no_pod_matches(run, shops):
    none = "None of the selected pods is pending"
    assert run("explain", "-f", shops, "-n", "none").out == (
        f'{none}; there are no pods in namespace "none", but in batch, shop.\n'
    )
    assert run("explain", "-f", shops, "-n", "shop", "-l", "app=db").out == f"{none}.\n"
    told = run("explain", "-f", shops, "pod", "shop/web-0", "-l", "app=api").out
    assert told == "No pod that was named has these labels and fields.\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-l", "a in"), "error: --selector: "),
        (("--field-selector", "spec.colour=red"), "error: --field-selector: 'spec.colour' is not a supported field"),
        (("--field-selector", "red"), "error: --field-selector: invalid selector: 'red'"),
        (("-n", "a", "-A"), "-n and -A exclude each other"),
        (("deployment/shop/nobody",), "error: no pod of Deployment shop/nobody in these files"),
        (("pod", "svc/web"), 'error: pod "svc/web" not found; there are no pods in namespace "svc", but in '),
        (("node", "a", "-l", "app=web", "--exit-code"), "-l, --exit-code: a node is asked about"),
        (("pod",), "error: pod is a kind: give a name, too; `explain pending` is about all pods without a node"),
        (("nodes",), "error: nodes is a kind: give a name, too, as in node/node-1"),
        (("sts", ""), "'statefulset/' is not a name: want [NAMESPACE/]NAME"),
        (("--watch",), "--watch is for a live cluster"),
    ],
)
def test_invalid_questions(run, shops, args, message):
    ran = run("explain", "-f", shops, *args)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ((), 0),
        (("--exit-code",), 3),
        (("--exit-code", "pod", "batch/job-0"), 0),
        (("--exit-code", "-o", "json", "pod", "shop/web-0"), 3),
        (("--exit-code", "-n", "none"), 0),
    ],
)
def test_exit_codes(run, shops, args, code):
    assert run("explain", "-f", shops, *args).code == code


def test_ten_groups_are_explained(run, files):
    pods = [waiting(f"p{number}", cpu=str(10 + number)) for number in range(12)]
    out = run("explain", "-f", files(NODE, *pods)).out
    assert out.count(" is pending: none of 1 node") == 10
    assert "… and 2 more pods in 2 groups of equal ones: -o wide explains all" in out
    assert run("explain", "-f", files(NODE, *pods), "-o", "wide").out.count(" is pending: none of 1 node") == 12


def test_maps_by_node_hold_the_best_nodes_only(run, files):
    nodes = [a_node(f"n{number:02}").allocatable(cpu="4", pods="9").obj() for number in range(30)]
    path = files(*nodes, waiting("fits", cpu="1"), waiting("huge"))
    fits, huge = json.loads(run("explain", "-f", path, "-o", "json").out)["verdicts"]
    assert (fits["feasibleNodes"], len(fits["feasible"]), len(fits["scores"])) == (30, 10, 10)
    assert "rejected" not in huge
    assert [(group["nodes"], len(group["names"])) for group in huge["refusals"]] == [(30, 10)]
    assert len(json.loads(run("explain", "-f", path, "pod", "huge", "-o", "json").out)["rejected"]) == 30


def test_a_nominated_pod(run, files):
    pod = a_pod("p").requests(cpu="3").obj()
    pod["status"] = {"nominatedNodeName": "a"}
    full = a_pod("on").on("a").requests(cpu="4").obj()
    ran = run("explain", "-f", files(NODE, pod, full), "pod", "p")
    assert "  nominated to a: preemption makes room for it there\n" in ran.out
    gone = dict(pod, status={"nominatedNodeName": "z"})
    assert "  nominated to z: that node is gone\n" in run("explain", "-f", files(NODE, gone, full), "pod", "p").out


def test_files_without_nodes(run, files):
    ran = run("explain", "-f", files(waiting("p")))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: no Node in these files; add a file with nodes: `stowplan dump` saves those of a cluster\n"


class TestWorkloadsInFiles:
    @pytest.mark.parametrize("asked", ["deployment/web", "deployment/shop/wbe"])
    def test_similar_names_are_suggested(self, run, files, asked):
        ran = run("explain", "-f", files(NODE, deployment()), asked)
        assert ran.code == 2
        assert ran.err.endswith(" in these files; did you mean deployment/shop/web?\n")

    def test_a_deployment_stands_for_its_replicas(self, run, files):
        ran = run("explain", "-f", files(NODE, deployment()))
        assert ran.err == ("note: Deployment shop/web has no pods yet; using its template: 3 pods (shop/web-0…)\n")
        assert ran.out.startswith("shop/web-0 and 2 more like it (shop/web-1, shop/web-2) would each go to a")
        assert explained(run, "-f", files(NODE, deployment()), "deployment/shop/web") == [
            "shop/web-0",
            "shop/web-1",
            "shop/web-2",
        ]

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(deployment(uid="4711"), id="read from a cluster"),
            pytest.param(deployment(replicas=0), id="scaled to zero"),
            pytest.param(
                {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": {}}, id="a CronJob"
            ),
        ],
    )
    def test_other_workloads_create_no_pods(self, run, files, other):
        assert run("explain", "-f", files(NODE, other)).out == "No pod is pending.\n"

    def test_no_pods_for_a_workload_that_has_some(self, run, files):
        pod = a_pod("web-x", namespace="shop").owner("ReplicaSet", "web-7d").requests(cpu="1").obj()
        assert explained(run, "-f", files(NODE, deployment(), pod)) == ["shop/web-x"]

    def test_a_stateful_set_with_its_claims(self, run, files):
        made = deployment("db", replicas=2)
        made["kind"] = "StatefulSet"
        made["spec"]["volumeClaimTemplates"] = [
            {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}}
        ]
        told = json.loads(run("explain", "-f", files(NODE, made), "-o", "json").out)
        assert told["summary"]["pods"] == 2
        assert all("no storageclasses in the files" in one["error"] for one in told["verdicts"])

    def test_a_job(self, run, files):
        made = deployment("train")
        made |= {"apiVersion": "batch/v1", "kind": "Job"}
        made["spec"] = {"parallelism": 4, "completions": 2, "template": made["spec"]["template"]}
        made["spec"]["template"]["spec"]["restartPolicy"] = "Never"
        assert explained(run, "-f", files(NODE, made)) == ["shop/train-0", "shop/train-1"]

    def test_an_invalid_template(self, run, files):
        made = deployment()
        made["spec"]["template"]["spec"]["containers"] = "none"
        ran = run("explain", "-f", files(NODE, made))
        assert ran.code == 2
        assert ": document 1, item 2: Deployment shop/web: Deployment in version" in ran.err
