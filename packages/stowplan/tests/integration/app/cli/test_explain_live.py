"""`stowplan explain` with a live cluster: its requests, its output, and its errors."""

import asyncio
import json
import os
import subprocess
import sys

import pytest

import stowplan
from stowplan.ask.loading.live_cluster import LiveClusterError
from stowplan.testing import a_node, a_pod
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.http.misbehaving_server import Misbehaving, answers, status
from support.paths import STOWPLAN
from support.processes.servers import embedded_server

SINCE = "2026-01-02T12:00:00Z"
MESSAGE = (
    "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
    "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)

REFUSED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": MESSAGE,
    "lastTransitionTime": SINCE,
}


def an_event(name, uid, note, *, time, **fields):
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "shop"},
        "eventTime": time,
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "type": "Warning",
        "note": note,
        "regarding": {"kind": "Pod", "namespace": "shop", "name": "huge", "uid": uid, "apiVersion": "v1"},
        **fields,
    }


def objects():
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    yield namespace
    yield from (a_node(name).allocatable(cpu="4", memory="16Gi", pods="10").obj() for name in ("a", "b"))
    pods = [
        a_pod("web-0", "shop").requests(cpu="3").on("a"),
        a_pod("api", "shop").requests(cpu="2"),
        a_pod("huge", "shop").requests(cpu="100"),
        a_pod("job", "shop"),
        a_pod("cart-5d4-x", "shop").owner("ReplicaSet", "cart-5d4").on("b"),
    ]
    for kind, name in (("Deployment", "cart"), ("ReplicaSet", "cart-5d4"), ("StatefulSet", "db")):
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "app"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
        about = {"metadata": {"name": name, "namespace": "shop", "uid": f"{name}-uid"}, "spec": spec}
        yield {"apiVersion": "apps/v1", "kind": kind, **about}
    for pod in pods:
        made = pod.obj()
        made["spec"]["containers"] = made["spec"].get("containers") or [{"name": "main"}]
        for container in made["spec"]["containers"]:
            container.setdefault("image", "registry.example.com/app:1")
        made.pop("status", None)
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    manifests = folder / "objects.json"
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects())}))
    with embedded_server(folder, "-f", str(manifests), "--controllers", "") as started:
        huge = started.json("get", "pod", "huge", "-n", "shop")
        _patch_status(started, "huge", {"conditions": [REFUSED]})
        _patch_status(started, "api", {"conditions": [REFUSED | {"message": "0/1 nodes are available"}]})
        _patch_status(started, "job", {"phase": "Succeeded"})
        uid = huge["metadata"]["uid"]
        repeated = {"series": {"count": 3, "lastObservedTime": "2026-01-02T12:08:00.000000Z"}}
        events = [
            an_event("huge.1", uid, "first words", time="2026-01-02T12:05:00.000000Z"),
            an_event("huge.2", uid, "last words", time="2026-01-02T12:06:00.000000Z", **repeated),
            an_event("other.1", "another-uid", "of another pod", time="2026-01-02T12:07:00.000000Z"),
        ]
        cart = started.json("get", "pod", "cart-5d4-x", "-n", "shop")["metadata"]["uid"]
        db = started.json("get", "statefulset", "db", "-n", "shop")["metadata"]["uid"]
        scheduled = {"reason": "Scheduled", "type": "Normal"}
        failed = {"reason": "FailedCreate", "regarding": {"kind": "StatefulSet", "name": "db", "namespace": "shop"}}
        failed["regarding"]["uid"] = db
        events += [
            an_event("cart.1", cart, "assigned", time="2026-01-02T12:05:00.000000Z", **scheduled),
            an_event("db.1", db, "exceeded quota", time="2026-01-02T12:05:00.000000Z", **failed),
        ]
        started.kubectl("create", "-f", "-", stdin=events)
        yield started


def _patch_status(server, name, change):
    server.kubectl(
        *("patch", "pod", name, "-n", "shop", "--subresource=status", "--type=strategic"),
        *("-p", json.dumps({"status": change})),
    )


@pytest.fixture
def ask(run, server):
    def asked(*args):
        return run("explain", "--kubeconfig", str(server.kubeconfig), *args)

    return asked


# -- pods


def test_a_pending_pod_with_the_schedulers_message(ask):
    ran = ask("pod", "shop/huge")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[:2] == ["shop/huge is pending: none of 2 nodes takes it", f"  {MESSAGE}"]
    # What to do comes before what was said.
    assert lines.index("What would help") < lines.index("What the scheduler said")
    said = lines[lines.index("What the scheduler said") + 1 :]
    assert said[:3] == [
        f"  PodScheduled=False (Unschedulable) since {SINCE}: the same",
        "  2026-01-02T12:08:00Z FailedScheduling ×3: last words",
        "  2026-01-02T12:05:00Z FailedScheduling: first words",
    ]
    assert "another pod" not in ran.out


ONE_BY_ONE = (
    "note: the cluster's scheduler tries the pods of groups one by one, as its feature gate GenericWorkload is off"
)


def test_a_group_of_which_the_scheduler_said_nothing(ask, server):
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "train"}, "spec": spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-0"}}
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "100"}}}
    pod["spec"] = {"schedulingGroup": {"podGroupName": "train"}, "containers": [container]}
    server.kubectl("create", "-n", "shop", "-f", "-", stdin=[group, pod])
    try:
        assert "\npod group shop/train " in ask("pod", "shop/train-0").out
        _patch_status(server, "train-0", {"conditions": [REFUSED]})
        alone = ask("pod", "shop/train-0")
        assert "pod group" not in alone.out
        assert alone.err == f"{ONE_BY_ONE}: groups do not count\n"
        whole = ask("podgroup/train", "-n", "shop")
        assert whole.out.startswith("pod group shop/train is held back")
        assert whole.err == f"{ONE_BY_ONE}; with the gate, it would decide as follows\n"
    finally:
        server.kubectl("delete", "-n", "shop", "podgroup/train", "pod/train-0")


def test_the_same_as_json(ask):
    said = json.loads(ask("pod", "shop/huge", "-o", "json").out)["scheduler"]
    assert said["condition"] == {"status": "False", "reason": "Unschedulable", "message": MESSAGE, "since": SINCE}
    assert [(event["note"], event["count"]) for event in said["events"]] == [("last words", 3), ("first words", 1)]


def test_a_placed_pod_is_evaluated_in_the_current_state(ask):
    out = ask("pod", "shop/web-0").out
    assert out.startswith("shop/web-0 is bound to a")
    assert "what the scheduler saw when it chose the node cannot be seen from outside" in out


def test_a_bare_name_is_in_the_namespace_of_the_context(run, server, tmp_path):
    config = server.json("config", "view", "--raw", "--minify")
    config["contexts"].append({"name": "shop", "context": {**config["contexts"][0]["context"], "namespace": "shop"}})
    path = write_kubeconfig(tmp_path / "config", config)
    ran = run("explain", "--kubeconfig", path, "--context", "shop", "pod", "huge")
    assert ran.out.startswith("shop/huge is pending")


def test_a_workload_with_the_events_of_its_running_pod(ask):
    out = ask("deployment/shop/cart").out
    assert out.startswith("Deployment shop/cart wants 1 pod: 1 has a node but does not run yet\n")
    assert "  2026-01-02T12:05:00Z Scheduled: assigned\n" in out


def test_a_workload_without_pods(ask):
    ran = ask("sts/shop/db", "--exit-code")
    assert ran.out == (
        "StatefulSet shop/db wants 1 pod: 1 is not created\n"
        "  not created: exceeded quota (FailedCreate, 2026-01-02T12:05:00Z)\n"
    )
    assert ran.code == 3
    assert ask("sts/shop/db-0").err == 'error: StatefulSet "shop/db-0" not found\n'


@pytest.mark.parametrize("words", [("sts/shop/db",), ("sts", "db", "-n", "shop")])
def test_a_workload_without_pods_can_be_copied_and_scaled(run, server, words):
    live = ("--kubeconfig", str(server.kubeconfig), "-o", "json")
    found = json.loads(run("fit", *live, "--replicas", "2", *words).out)
    assert (found["pod"], found["wanted"]) == ("shop/db", 2)
    changed = json.loads(run("what-if", *live, "--scale", "sts/db=2", "-n", "shop").out)
    assert changed["changes"] == ["scale StatefulSet shop/db to 2"]
    ran = run("fit", *live, "sts/shop/nope")
    assert (ran.code, ran.err) == (2, 'error: StatefulSet "shop/nope" not found, and no pod of it\n')


def test_events_of_all_pending_pods(ask):
    """The newest one of each pod: a page about many pods stays short."""
    out = ask("pending").out
    assert "  2026-01-02T12:08:00Z FailedScheduling ×3: last words\n" in out
    assert "first words" not in out
    assert "of another pod" not in out
    wide = ask("pending", "-n", "shop", "-o", "wide").out
    assert "  2026-01-02T12:05:00Z FailedScheduling: first words\n" in wide
    (huge,) = (one for one in json.loads(ask("-o", "json").out)["verdicts"] if one["pod"] == "shop/huge")
    assert [event["note"] for event in huge["scheduler"]["events"]] == ["last words", "first words"]


def test_events_of_several_named_pods(ask):
    ran = ask("pod", "shop/huge", "shop/api")
    assert "last words" in ran.out
    assert "last words" not in ask("-n", "none").out


@pytest.mark.parametrize(
    ("question", "path"),
    [
        pytest.param((), "/apis/events.k8s.io/v1/events", id="all"),
        pytest.param(("-n", "shop"), "/apis/events.k8s.io/v1/namespaces/shop/events", id="a namespace"),
        pytest.param(("pod", "web", "api"), "/apis/events.k8s.io/v1/namespaces/default/events", id="the context's"),
    ],
)
async def test_events_of_many_pods_are_one_list_without_those_of_running_pods(against, question, path):
    async with a_server() as server:
        await against(server, *question)
    (events,) = (seen for seen in server.seen if seen.path.endswith("/events"))
    assert events.path == path
    assert events.query["fieldSelector"].startswith("regarding.kind=Pod,reason!=Scheduled,reason!=Pulling,")


# -- nodes


def test_an_unknown_node(ask):
    ran = ask("node", "c")
    assert (ran.code, ran.err) == (2, 'error: node "c" not found in the cluster; nodes there: a, b\n')


# -- requests


def a_list(kind="List", *items):
    return answers(200, {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": list(items)})


NOT_SERVED = answers(404, status(404, "NotFound", "the server could not find the requested resource"))


def a_version(text):
    major, minor = text.split(".")
    return answers(200, {"major": major, "minor": minor})


NEWEST = a_version("1.37")


def a_server(*others, version=NEWEST):
    node, pod = a_node("a").obj(), a_pod("web").requests(cpu="1").obj()
    rest = others or [NOT_SERVED] * 40
    return (
        Misbehaving(*rest)
        .at("/api/v1/nodes", a_list("NodeList", node))
        .at("/api/v1/pods", a_list("PodList", pod))
        .at("/api/v1/namespaces", a_list("NamespaceList"))
        .at("/version", version)
    )


@pytest.fixture
def against(run, tmp_path):
    async def asked(server, *args, command="explain"):
        path = write_kubeconfig(tmp_path / "config", a_kubeconfig(cluster={"server": server.url}))
        return await asyncio.to_thread(run, command, "--kubeconfig", path, *args)

    return asked


async def test_only_read_requests_for_kinds_that_a_scheduler_reads(against):
    async with a_server() as server:
        ran = await against(server)
    assert ran.out.startswith("default/web goes to a")
    assert {seen.method for seen in server.seen} == {"GET"}
    paths = [seen.path for seen in server.seen]
    assert {"/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces", "/apis/policy/v1/poddisruptionbudgets"} <= set(paths)
    assert not {"/api/v1/secrets", "/api/v1/configmaps"} & set(paths)
    (pods,) = (seen for seen in server.seen if seen.path == "/api/v1/pods")
    assert pods.query["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"


@pytest.mark.parametrize(
    ("version", "used", "note"),
    [
        ("1.37", "1.37", ""),
        ("1.36+", "1.36", "note: as kube-scheduler 1.36, as the cluster is 1.36\n"),
        ("1.30", "1.34", "note: as kube-scheduler 1.34, the oldest that is known: the cluster is 1.30\n"),
        ("1.38", "1.37", "note: as kube-scheduler 1.37, the newest that is known: the cluster is 1.38\n"),
        ("1.x", "1.37", "note: as kube-scheduler 1.37: the cluster's version '1.x' cannot be read\n"),
    ],
)
async def test_the_servers_version(against, version, used, note):
    async with a_server(version=a_version(version)) as server:
        ran = await against(server, "-o", "json")
    assert (ran.code, json.loads(ran.out)["emulatedVersion"]) == (0, used)
    assert ran.err.startswith(note or "note: this cluster does not serve ")


async def test_another_version_than_the_servers(against):
    async with a_server() as server:
        ran = await against(server, "--emulated-version=1.35", "-o", "json")
    assert json.loads(ran.out)["emulatedVersion"] == "1.35"
    assert "/version" not in {seen.path for seen in server.seen}


async def test_a_version_that_may_not_be_asked_for(against):
    forbidden = answers(403, status(403, "Forbidden", 'User "ada" cannot get path "/version"'))
    async with a_server(version=forbidden) as server:
        ran = await against(server)
    assert ran.err.startswith(
        'note: as kube-scheduler 1.37: the cluster\'s version: User "ada" cannot get path "/version"\n'
    )


async def test_kinds_that_are_not_served_are_one_note(against):
    async with a_server() as server:
        ran = await against(server)
    (note,) = ran.err.splitlines()
    assert note.startswith("note: this cluster does not serve ")
    assert "poddisruptionbudgets.policy" in note
    assert "resourceclaims.resource.k8s.io" in note


async def test_missing_permissions_are_one_line_and_the_kinds_left_out(against):
    forbidden = answers(403, status(403, "Forbidden", 'User "ada" cannot list that'))
    server = a_server().at("/apis/policy/v1/poddisruptionbudgets", forbidden).at("/api/v1/services", forbidden)
    async with server:
        ran = await against(server)
    assert ran.code == 0
    assert (
        "note: the permission to list poddisruptionbudgets.policy, services in all namespaces is missing: judged as if "
        "there were none; `stowplan explain --rbac` prints a role for it\n"
    ) in ran.err


async def test_impersonation(against):
    async with a_server() as server:
        ran = await against(server, "--as", "ada", "--as-group", "dev", "--as-group", "ops")
        assert ran.out.startswith("default/web goes to a")
    assert {seen.headers["impersonate-user"] for seen in server.seen} == {"ada"}
    assert {seen.headers["impersonate-group"] for seen in server.seen} <= {"dev", "ops"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--as-group", "dev"), "--as-group needs --as USER."),
        (("--as", "a\nb"), "--as-group: names of users and groups have no control characters"),
        (("--as", "ada", "-f", "x"), "-f reads files, and these select a live cluster: --kubeconfig, --as;"),
    ],
)
async def test_impersonation_of_nobody(against, args, message):
    async with a_server() as server:
        ran = await against(server, *args)
    assert (ran.code, message in ran.err, server.seen) == (2, True, [])


@pytest.mark.parametrize("path", ["nodes", "pods"])
async def test_nodes_and_pods_are_required(against, path):
    forbidden = answers(403, status(403, "Forbidden", 'User "ada" cannot do that'))
    server = Misbehaving(*[NOT_SERVED] * 40).at(f"/api/v1/{path}", forbidden)
    server.at("/version", NEWEST)
    async with server.at("/api/v1/nodes", a_list()).at("/api/v1/pods", a_list()):
        ran = await against(server)
    message = f'error: the permission to list {path} in all namespaces is missing (User "ada" cannot do that); '
    assert (ran.code, ran.out, ran.err) == (2, "", f"{message}`stowplan explain --rbac` prints a role for it\n")


async def test_quotas_of_a_live_cluster_are_noted(against):
    made = {"metadata": {"name": "team", "namespace": "default"}, "spec": {"hard": {"pods": "3"}}}
    status = {"status": {"used": {"pods": "1"}}}
    async with a_server().at("/api/v1/resourcequotas", a_list("ResourceQuotaList", made | status)) as server:
        ran = await against(server, "web", command="fit")
    text = "note: the quota team of namespace default allows only 2 of 4 more like pod web (pods: used 1 of hard 3)"
    assert (ran.code, text in ran.out) == (0, True)


async def test_quotas_that_may_not_be_read_are_not_required(against):
    forbidden = answers(403, status(403, "Forbidden", 'User "ada" cannot do that'))
    async with a_server().at("/api/v1/resourcequotas", forbidden) as server:
        ran = await against(server, "web", command="fit")
    assert ran.code == 0
    assert "the permission to list resourcequotas in all namespaces is missing: judged as if there were none" in ran.err


async def test_undecodable_objects_are_left_out_and_reported(against):
    bad = [{"metadata": {"name": f"bad-{i}", "namespace": "x"}, "spec": {"priority": "high"}} for i in range(5)]
    server = Misbehaving(*[NOT_SERVED] * 40).at("/api/v1/nodes", a_list("NodeList", a_node("a").obj()))
    async with server.at("/api/v1/pods", a_list("PodList", *bad, a_pod("web").obj())):
        ran = await against(server)
    assert ran.out.startswith("default/web goes to a")
    assert ran.err.count("it cannot be read") == 3
    assert "note: pods: 2 more are left out likewise\n" in ran.err


async def test_long_lists_are_paged_and_read_again_in_full_when_they_expire(against):
    first = {"kind": "PodList", "metadata": {"resourceVersion": "1", "continue": "next"}, "items": [a_pod("one").obj()]}
    expired = answers(410, status(410, "Expired", "too old"))
    whole = a_list("PodList", a_pod("one").obj(), a_pod("two").obj())
    server = Misbehaving(*[NOT_SERVED] * 40).at("/api/v1/nodes", a_list("NodeList", a_node("a").obj()))
    async with server.at("/api/v1/pods", answers(200, first), expired, whole):
        ran = await against(server)
    assert "default/one and 1 more like it (default/two)" in ran.out
    asked = [seen.query for seen in server.seen if seen.path == "/api/v1/pods"]
    assert [(query.get("limit"), query.get("continue")) for query in asked] == [
        ("1000", None),
        ("1000", "next"),
        (None, None),
    ]


# -- no cluster


async def test_an_unauthorized_request(against):
    unauthorized = answers(401, status(401, "Unauthorized", "Unauthorized"))
    async with Misbehaving(unauthorized, unauthorized, unauthorized) as server:
        ran = await against(server)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: {server.url} refused: Unauthorized; the token or certificate is wrong or has expired\n"


async def test_connection_refused(against):
    async with Misbehaving() as server:
        pass
    ran = await against(server)
    assert ran.code == 2
    assert ran.err == f"error: cannot reach the cluster: {server.url}: connection refused\n"


@pytest.mark.parametrize("command", ["record", "shadow", "ui"])
async def test_what_follows_a_cluster_ends_at_once_if_that_does_not_answer(following, command):
    async with Misbehaving() as server:
        pass
    process = await following(server, command)
    _, error = await process.communicate()
    assert process.returncode == 2
    assert error == f"error: cannot reach the cluster: {server.url}: connection refused\n".encode()


@pytest.mark.parametrize("command", ["record", "shadow"])
async def test_what_follows_a_cluster_that_it_may_not_read_does_not_end_as_if_it_had(following, command):
    forbidden = answers(403, status(403, "Forbidden", "not yours"))
    may_list_nodes = Misbehaving(*[forbidden] * 1000).at("/api/v1/nodes", *[a_list("NodeList", a_node("a").obj())] * 9)
    async with may_list_nodes as server:
        process = await following(server, command)
        while b"waiting for the first list of" not in await process.stderr.readline():
            pass
        process.terminate()
        output, error = await process.communicate()
    assert (process.returncode, output) == (2, b"")
    assert b"error: stopped before the cluster was read; no list yet of " in error
    assert error.endswith(b": not yours\n")


@pytest.fixture
def following(tmp_path):
    def start(server, command):
        path = write_kubeconfig(tmp_path / "config", a_kubeconfig(cluster={"server": server.url}))
        file = [str(tmp_path / "recording")] if command == "record" else []
        words = [sys.executable, "-m", "stowplan", command, *file, "--kubeconfig", path]
        return asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return start


def test_an_invalid_kubeconfig(run, tmp_path):
    path = tmp_path / "config"
    path.write_text("clusters: 3\n")
    ran = run("explain", "--kubeconfig", str(path), "pending")
    assert ran.code == 2
    assert ran.err.startswith(f'error: error loading config file "{path}": ')
    assert run("explain", "--kubeconfig", str(tmp_path / "absent")).code == 2


def test_without_files_the_cluster_is_found_as_by_kubectl(run, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    ran = run("explain")
    assert ran.code == 2
    assert ran.err.startswith(f"error: no cluster to talk to: {tmp_path / 'absent'} does not exist")
    assert ran.err.endswith("; -f reads files instead\n")


def test_kubeconfig_of_the_environment(run, server, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    assert run("explain", "pod", "shop/huge").out.startswith("shop/huge is pending")


def test_files_are_explained_without_importing_http(files):
    code = (
        "import sys; from stowplan.app.cli.main import cli\n"
        f"sys.argv[1:] = ['explain', '-f', {files(*objects())!r}, 'node', 'a']\n"
        "try: cli()\nfinally: print(sorted({'aiohttp', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    env = {**os.environ, "PYTHONPATH": str(STOWPLAN)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60)
    assert ran.stderr.splitlines()[-1] == "[]"
    assert "a would take" in ran.stdout


class TestFromPython:
    def test_a_copy_of_the_cluster(self, server):
        cluster = stowplan.Cluster.from_kubeconfig(server.kubeconfig)
        assert "shop/huge" in cluster.pending()
        assert cluster.explain("shop/api").node_name == "b"
        assert cluster.notes == ()

    async def test_within_a_running_event_loop(self, server):
        assert stowplan.Cluster.from_kubeconfig(server.kubeconfig).pending()

    def test_from_python_without_a_server(self, tmp_path):
        with pytest.raises(LiveClusterError, match="no-such-file"):
            stowplan.Cluster.from_kubeconfig(tmp_path / "no-such-file")
