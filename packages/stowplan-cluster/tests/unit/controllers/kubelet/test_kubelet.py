import pytest

from stowplan.kube.api.meta import parse_timestamp
from stowplan_cluster.controllers.kubelet.kubelet import Kubelet
from stowplan_cluster.controllers.kubelet.kubelet_hosts import AddressPool, is_network
from stowplan_cluster.controllers.kubelet.kubelet_node import LEASES
from stowplan_cluster.reconcile.kubelet import Containers
from support.live.living_cluster import Living, condition, node, pod

NEVER = {"restartPolicy": "Never"}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job-uid", "controller": True}


@pytest.fixture
def cluster():
    cluster = Living(Kubelet)
    cluster.create(node())
    return cluster


def annotated(**wishes):
    return {f"stowplan.io/{name.replace('_', '-')}": value for name, value in wishes.items()}


def state(pod):
    return pod["status"]["containerStatuses"][0]["state"]


# Nodes


def test_a_node_becomes_ready_with_a_kubelets_status(cluster):
    cluster.settle()
    found = cluster.get("Node", "node-1")
    assert condition(found, "Ready") == ("True", "KubeletReady")
    assert condition(found, "MemoryPressure") == ("False", "KubeletHasSufficientMemory")
    assert found["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "110"}
    assert found["status"]["addresses"][0]["type"] == "InternalIP"
    assert found["status"]["nodeInfo"]["kubeletVersion"] == "v1.37.0"


def test_existing_fields_of_a_node_are_kept():
    cluster = Living(Kubelet)
    manifest = node(ready="False")
    manifest["status"]["addresses"] = [{"type": "InternalIP", "address": "192.0.2.7"}]
    manifest["status"]["allocatable"] = {"cpu": "3", "memory": "7Gi", "pods": "10"}
    cluster.create(manifest)
    cluster.settle()
    found = cluster.get("Node", "node-1")
    assert condition(found, "Ready")[0] == "False"
    assert found["status"]["addresses"] == [{"type": "InternalIP", "address": "192.0.2.7"}]
    assert found["status"]["allocatable"]["cpu"] == "3"


def test_leases_are_renewed_every_ten_seconds_at_staggered_times():
    cluster = Living(Kubelet)
    for number in range(20):
        cluster.create(node(f"node-{number}"))
    cluster.settle()
    lease = cluster.get(LEASES, "node-7", "kube-node-lease")
    owner = cluster.get("Node", "node-7")["metadata"]
    assert lease["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "node-7", "uid": owner["uid"]}
    ]
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"]) == ("node-7", 40)
    cluster.advance(10)
    renewed = {}
    for number in range(20):
        lease = cluster.get(LEASES, f"node-{number}", "kube-node-lease")
        renewed[number] = parse_timestamp(lease["spec"]["renewTime"])
        assert cluster.now - renewed[number] <= 10
    assert len(set(renewed.values())) > 10
    versions = cluster.store.version
    cluster.advance(10)
    assert cluster.store.version == versions + 20


def test_a_stopped_kubelet_writes_nothing(cluster):
    cluster.create(node("quiet", annotations={"stowplan.io/kubelet": "stopped"}))
    assert cluster.run(node="quiet")["status"]["phase"] == "Pending"
    assert cluster.get(LEASES, "quiet", "kube-node-lease") is None
    assert condition(cluster.get("Node", "quiet"), "Ready") is None
    cluster.change("Node", "quiet", lambda obj: obj["metadata"].update(annotations={}))
    cluster.settle()
    assert cluster.phase("web") == "Running"
    cluster.change("Node", "quiet", lambda obj: obj["metadata"].update(annotations={"stowplan.io/kubelet": "stopped"}))
    cluster.delete("Pod", "web")
    cluster.advance(100)
    assert cluster.phase("web") == "Running"
    renewed = cluster.get(LEASES, "quiet", "kube-node-lease")["spec"]["renewTime"]
    assert cluster.now - parse_timestamp(renewed) >= 90


# Starting


def test_a_bound_pod_runs(cluster):
    web = cluster.run()
    status = web["status"]
    assert (status["phase"], status["qosClass"], status["observedGeneration"]) == ("Running", "BestEffort", 1)
    assert status["hostIP"] == cluster.get("Node", "node-1")["status"]["addresses"][0]["address"]
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    for type_ in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"):
        assert condition(web, type_) == ("True", "")
    (container,) = status["containerStatuses"]
    assert (container["name"], container["ready"], container["started"]) == ("main", True, True)
    assert container["image"] == "registry.example:5000/team/app:1"
    assert container["imageID"].startswith("registry.example:5000/team/app@sha256:")
    assert container["state"] == {"running": {"startedAt": status["startTime"]}}


def test_starting_costs_one_write(cluster):
    cluster.settle()
    cluster.create(pod(node="node-1"))
    before = cluster.store.version
    cluster.settle()
    assert cluster.store.version == before + 1


def test_its_writes_are_valid(cluster):
    sidecar = {"name": "proxy", "image": "proxy", "restartPolicy": "Always"}
    cluster.run(initContainers=[{"name": "init", "image": "busybox"}, sidecar], annotations=annotated(run_for="3s"))
    for _ in range(4):
        web = cluster.change("Pod", "web", lambda obj: obj["status"].update(message="checked"), subresource="status")
        assert web["status"]["message"] == "checked"
        cluster.advance(4)


def test_init_containers_are_done_and_sidecars_run(cluster):
    sidecar = {"name": "proxy", "image": "proxy", "restartPolicy": "Always"}
    web = cluster.run(initContainers=[{"name": "init", "image": "busybox"}, sidecar])
    init, proxy = web["status"]["initContainerStatuses"]
    assert (init["ready"], init["state"]["terminated"]["reason"]) == (True, "Completed")
    assert (proxy["ready"], proxy["started"], list(proxy["state"])) == (True, True, ["running"])


def test_pods_without_an_existing_node_are_not_started(cluster):
    assert cluster.run(node="")["status"]["phase"] == "Pending"
    assert cluster.run("lost", node="nowhere")["status"]["phase"] == "Pending"
    cluster.create(node("nowhere"))
    cluster.settle()
    assert cluster.phase("lost") == "Running"


def test_a_delayed_start(cluster):
    web = cluster.run(annotations=annotated(start_after="5s"))
    assert web["status"]["phase"] == "Pending"
    assert state(web) == {"waiting": {"reason": "ContainerCreating"}}
    assert condition(web, "Ready") == ("False", "ContainersNotReady")
    cluster.advance(4.9)
    assert cluster.phase("web") == "Pending"
    cluster.advance(0.2)
    assert cluster.phase("web") == "Running"
    assert condition(cluster.pod("web"), "Ready") == ("True", "")


def test_readiness_gates_keep_a_pod_unready(cluster):
    web = cluster.run(readinessGates=[{"conditionType": "example.com/lb"}])
    assert condition(web, "ContainersReady") == ("True", "")
    assert condition(web, "Ready") == ("False", "ReadinessGatesNotReady")

    def open_gate(obj):
        obj["status"]["conditions"].append({"type": "example.com/lb", "status": "True"})

    cluster.change("Pod", "web", open_gate, subresource="status")
    cluster.settle()
    assert condition(cluster.pod("web"), "Ready") == ("True", "")


def test_addresses_are_unique_and_from_the_nodes_range():
    cluster = Living(Kubelet)
    cluster.create(node(podCIDR="10.200.1.0/29"))
    cluster.create(node("node-2"))
    addresses = [cluster.run(f"web-{number}")["status"]["podIP"] for number in range(8)]
    assert len(set(addresses)) == 8
    assert addresses[:6] == [f"10.200.1.{number}" for number in range(1, 7)]
    assert cluster.run("host", hostNetwork=True)["status"]["podIP"] == cluster.pod("web-0")["status"]["hostIP"]
    cluster.delete("Pod", "web-2", grace_period_seconds=0)
    assert cluster.run("next")["status"]["podIP"] == addresses[2]
    hosts = {one["status"]["addresses"][0]["address"] for one in cluster.all("Node")}
    assert len(hosts) == 2


def test_a_restarted_kubelet_knows_used_addresses_and_resources():
    cluster = Living(Kubelet)
    cluster.create(node(cpu="2"))
    first = cluster.run("first", requests={"cpu": "1500m"})
    cluster.loop.close()
    cluster.create(pod("early", node="node-1", requests={"cpu": "1"}))
    cluster.restart()
    cluster.settle()
    assert cluster.pod("early")["status"]["reason"] == "OutOfcpu"
    assert cluster.run("second")["status"]["podIP"] != first["status"]["podIP"]
    assert cluster.pod("first") == first


# Admission


@pytest.mark.parametrize(
    ("requests", "reason", "message"),
    [
        pytest.param(
            {"cpu": "3"}, "OutOfcpu", "cpu, requested: 3000, used: 2000, capacity: 4000", id="cpu in milli-units"
        ),
        pytest.param(
            {"memory": "7Gi"},
            "OutOfmemory",
            "memory, requested: 7516192768, used: 2147483648, capacity: 8589934592",
            id="memory in bytes",
        ),
        pytest.param({"example.com/gpu": "1"}, None, "", id="extended resource that the node lacks"),
        pytest.param({"cpu": "2", "memory": "6Gi"}, None, "", id="just fits"),
        pytest.param(
            {"ephemeral-storage": "1"},
            "OutOfephemeral-storage",
            "ephemeral-storage, requested: 1, used: 0, capacity: 0",
            id="native resource that the node lacks",
        ),
    ],
)
def test_pods_that_do_not_fit_are_refused(cluster, requests, reason, message):
    cluster.run("first", requests={"cpu": "2", "memory": "2Gi"})
    web = cluster.run(requests=requests)
    if reason is None:
        assert web["status"]["phase"] == "Running"
        return
    text = f"Node didn't have enough resource: {message}"
    assert (web["status"]["phase"], web["status"]["reason"]) == ("Failed", reason)
    assert web["status"]["message"] == f"Pod was rejected: {text}"
    assert cluster.events("web") == [("Warning", reason, text)]


def test_too_many_pods_are_refused():
    cluster = Living(Kubelet)
    cluster.create(node(pods="1"))
    cluster.run("first")
    assert cluster.run()["status"]["message"] == (
        "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1"
    )


@pytest.mark.parametrize("end", ["delete", "finish"])
def test_finished_pods_free_their_resources(cluster, end):
    cluster.run("first", requests={"cpu": "4"}, annotations=annotated(run_for="5s"), **NEVER)
    if end == "delete":
        cluster.delete("Pod", "first")
    else:
        cluster.advance(6)
        assert cluster.phase("first") == "Succeeded"
    assert cluster.run(requests={"cpu": "4"})["status"]["phase"] == "Running"


def test_a_node_selector_that_does_not_match_is_refused(cluster):
    web = cluster.run(nodeSelector={"disk": "ssd"})
    assert (web["status"]["phase"], web["status"]["reason"]) == ("Failed", "NodeAffinity")


# Ending


@pytest.mark.parametrize(
    ("code", "phase", "reason"), [("0", "Succeeded", "Completed"), ("3", "Failed", "Error")], ids=["success", "failure"]
)
def test_a_pod_finishes_after_its_duration(cluster, code, phase, reason):
    cluster.run(annotations=annotated(run_for="30s", exit_code=code), **NEVER)
    cluster.advance(29)
    assert cluster.phase("web") == "Running"
    cluster.advance(1)
    web = cluster.pod("web")
    assert web["status"]["phase"] == phase
    ended = state(web)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (int(code), reason)
    assert condition(web, "Ready") == ("False", "PodCompleted" if phase == "Succeeded" else "PodFailed")


def test_only_pods_of_jobs_finish_by_default(cluster):
    cluster.run("job", owner=JOB, **NEVER)
    cluster.run("alone", **NEVER)
    cluster.advance(1)
    assert cluster.phase("job") == "Succeeded"
    cluster.advance(1_000)
    assert cluster.phase("alone") == "Running"


def test_failing_containers_are_restarted_with_backoff(cluster):
    cluster.run(annotations=annotated(run_for="1s", exit_code="1"), restartPolicy="OnFailure")
    cluster.advance(1)
    web = cluster.pod("web")
    assert web["status"]["containerStatuses"][0]["restartCount"] == 1
    assert web["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
    cluster.advance(1)
    web = cluster.pod("web")
    assert state(web)["waiting"]["reason"] == "CrashLoopBackOff"
    assert "back-off 10s restarting failed container=main pod=web_default(" in state(web)["waiting"]["message"]
    assert (web["status"]["phase"], condition(web, "Ready")[0]) == ("Running", "False")
    cluster.advance(10)
    web = cluster.pod("web")
    assert (web["status"]["containerStatuses"][0]["restartCount"], list(state(web))) == (2, ["running"])
    cluster.advance(1 + 19)
    assert "waiting" in state(cluster.pod("web"))
    cluster.advance(1)
    assert cluster.pod("web")["status"]["containerStatuses"][0]["restartCount"] == 3


def test_the_backoff_is_forgotten_after_ten_minutes(cluster):
    cluster.run(annotations=annotated(run_for="1s", exit_code="1"), restartPolicy="OnFailure")
    cluster.advance(2)
    web = cluster.pod("web")
    assert "waiting" in state(web)
    about = {"annotations": annotated(run_for="601s", exit_code="1")}
    cluster.change("Pod", "web", lambda pod: pod["metadata"].update(about))
    cluster.advance(10 + 601)
    assert cluster.pod("web")["status"]["containerStatuses"][0]["restartCount"] == 3
    cluster.change("Pod", "web", lambda pod: pod["metadata"].update(annotations=annotated(run_for="1s", exit_code="1")))
    cluster.advance(1 + 9)
    assert "waiting" in state(cluster.pod("web"))
    cluster.advance(1)
    assert cluster.pod("web")["status"]["containerStatuses"][0]["restartCount"] == 4


def test_restart_policies_after_success(cluster):
    cluster.run("once", annotations=annotated(run_for="1s"), restartPolicy="OnFailure")
    cluster.run("ever", annotations=annotated(run_for="1s"))
    cluster.advance(1)
    assert (cluster.phase("once"), cluster.phase("ever")) == ("Succeeded", "Running")


def test_active_deadline_seconds(cluster):
    cluster.run(activeDeadlineSeconds=20)
    cluster.advance(19)
    assert cluster.phase("web") == "Running"
    cluster.advance(1)
    status = cluster.pod("web")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert status["message"] == "Pod was active on the node longer than the specified deadline"
    assert state(cluster.pod("web"))["terminated"]["exitCode"] == 137


# Deleting


def test_a_deleted_pod_is_removed_at_once(cluster):
    cluster.run()
    cluster.delete("Pod", "web")
    cluster.settle()
    assert cluster.pod("web") is None


@pytest.mark.parametrize(("stop_after", "gone_after"), [("10s", 10), ("5m", 30)], ids=["in time", "killed"])
def test_a_pod_stops_within_its_grace_period(cluster, stop_after, gone_after):
    cluster.run(annotations=annotated(stop_after=stop_after))
    cluster.delete("Pod", "web")
    cluster.advance(gone_after - 1)
    assert cluster.phase("web") == "Running"
    cluster.advance(1)
    assert cluster.pod("web") is None


@pytest.mark.parametrize(
    ("policy", "phase", "code"), [("Always", "Succeeded", 0), ("Never", "Failed", 143)], ids=["service", "work"]
)
def test_a_deleted_pod_with_a_finalizer_is_finished(cluster, policy, phase, code):
    cluster.run(finalizers=["example.com/keep"], restartPolicy=policy)
    cluster.delete("Pod", "web")
    cluster.settle()
    web = cluster.pod("web")
    assert web["metadata"]["deletionGracePeriodSeconds"] == 0
    assert web["status"]["phase"] == phase
    assert state(web)["terminated"]["exitCode"] == code
    cluster.change("Pod", "web", lambda obj: obj["metadata"].update(finalizers=[]))
    assert cluster.pod("web") is None


def test_a_finished_pod_can_be_deleted(cluster):
    cluster.run(annotations=annotated(run_for="1s"), **NEVER)
    cluster.advance(2)
    cluster.delete("Pod", "web")
    cluster.settle()
    assert cluster.pod("web") is None


# Unready nodes, invalid annotations


def test_an_unready_node_starts_no_pods_and_does_not_update_readiness(cluster):
    cluster.run()

    def set_ready(status):
        def change(obj):
            ready = next(one for one in obj["status"]["conditions"] if one["type"] == "Ready")
            ready["status"] = status

        return change

    def unready(obj):
        next(one for one in obj["status"]["conditions"] if one["type"] == "Ready")["status"] = "False"

    cluster.change("Node", "node-1", set_ready("False"), subresource="status")
    cluster.change("Pod", "web", unready, subresource="status")
    assert cluster.run("late")["status"]["phase"] == "Pending"
    assert condition(cluster.pod("web"), "Ready")[0] == "False"
    cluster.change("Node", "node-1", set_ready("True"), subresource="status")
    cluster.settle()
    assert cluster.phase("late") == "Running"
    assert condition(cluster.pod("web"), "Ready")[0] == "True"


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ({"run_for": "soon"}, 'stowplan.io/run-for: time: invalid duration "soon"'),
        ({"run_for": "30"}, 'stowplan.io/run-for: time: missing unit in duration "30"'),
        ({"start_after": "-3s"}, "stowplan.io/start-after: '-3s' is negative"),
        ({"exit_code": "256"}, "stowplan.io/exit-code: '256' is not a number from 0 to 255"),
        ({"exit_code": "9" * 5000}, "stowplan.io/exit-code: "),
    ],
    ids=["no duration", "no unit", "negative", "too large", "far too large"],
)
def test_an_invalid_annotation_is_reported_and_ignored(cluster, annotation, text):
    web = cluster.run(annotations=annotated(**annotation), **NEVER)
    assert web["status"]["phase"] == "Running"
    (event,) = {message for _, reason, message in cluster.events("web") if reason == "InvalidAnnotation"}
    assert text in event


def test_a_restarted_kubelet_on_an_unready_node_finishes_deletions():
    cluster = Living(Kubelet)
    cluster.create(node(ready="False", annotations={"stowplan.io/kubelet": "stopped"}))
    cluster.run()
    cluster.delete("Pod", "web")
    cluster.advance(100)
    assert cluster.pod("web") is not None
    cluster.change("Node", "node-1", lambda obj: obj["metadata"].update(annotations={}))
    cluster.settle()
    assert cluster.pod("web") is None


def test_a_restarted_kubelet_continues_starting_pods(cluster):
    cluster.run(annotations=annotated(start_after="10s"), requests={"cpu": "4"})
    cluster.advance(4)
    cluster.loop.close()
    cluster.restart()
    assert cluster.run("late", requests={"cpu": "1"})["status"]["reason"] == "OutOfcpu"
    cluster.advance(5)
    assert cluster.phase("web") == "Pending"
    cluster.advance(1)
    assert cluster.phase("web") == "Running"


def test_addresses_are_unique_and_wrap_around():
    taken = {"10.0.0.2"}
    pool = AddressPool("10.0.0.0/29", taken)
    first = [pool.take() for _ in range(5)]
    assert first == [f"10.0.0.{number}" for number in (1, 3, 4, 5, 6)]
    assert pool.take() is None
    taken.discard("10.0.0.4")
    assert (pool.take(), pool.take()) == ("10.0.0.4", None)


def test_pools_share_used_addresses():
    taken = set()
    wide, narrow = AddressPool("10.0.0.0/24", taken), AddressPool("10.0.0.0/30", taken)
    assert (wide.take(), narrow.take(), wide.take()) == ("10.0.0.1", "10.0.0.2", "10.0.0.3")


def test_version_6():
    assert AddressPool("fd00::/64", set()).take() == "fd00::1"


@pytest.mark.parametrize("network", ["10.0.0.1/32", "10.0.0.0/31"])
def test_a_network_without_room(network):
    assert AddressPool(network, set()).take() is None


@pytest.mark.parametrize(("text", "expected"), [("10.0.0.0/8", True), ("fd00::/8", True), ("", False), ("x/8", False)])
def test_networks(text, expected):
    assert is_network(text) == expected


# Machines that are off


def switch(cluster, how):
    cluster.change("Node", "node-1", lambda obj: obj["metadata"].update(annotations={"stowplan.io/kubelet": how}))
    cluster.settle()


@pytest.mark.parametrize(
    ("spec", "phase", "running"),
    [
        pytest.param({}, "Running", True, id="containers start again"),
        pytest.param({"restartPolicy": "OnFailure"}, "Running", True, id="they failed"),
        pytest.param(NEVER, "Failed", False, id="they are not to restart"),
    ],
)
def test_containers_are_lost_with_their_machine(cluster, spec, phase, running):
    cluster.run(annotations=annotated(start_after="3s", run_for="1h"), **spec)
    cluster.advance(3)
    assert "running" in state(cluster.pod("web"))
    switch(cluster, "off")
    cluster.advance(60)
    assert cluster.phase("web") == "Running"
    switch(cluster, "")
    if running:
        assert (condition(cluster.pod("web"), "Ready")[0], cluster.phase("web")) == ("False", "Running")
    cluster.advance(3)
    found = cluster.pod("web")
    assert (cluster.phase("web"), "running" in state(found)) == (phase, running)
    container = found["status"]["containerStatuses"][0]
    ended = container["lastState"]["terminated"] if running else state(found)["terminated"]
    assert (container["restartCount"], ended["exitCode"]) == (int(running), 137)


def test_a_pod_that_was_deleted_while_its_machine_was_off_is_gone_when_it_is_back(cluster):
    cluster.run(annotations=annotated(stop_after="20s"))
    switch(cluster, "off")
    cluster.delete("Pod", "web")
    cluster.advance(600)
    assert cluster.phase("web") == "Running"
    switch(cluster, "")
    assert cluster.pod("web") is None


def test_pods_of_a_node_that_is_created_again_start_again(cluster):
    cluster.run()
    cluster.delete("Node", "node-1")
    cluster.advance(5)
    cluster.create(node())
    cluster.settle()
    assert cluster.pod("web")["status"]["containerStatuses"][0]["restartCount"] == 1


def test_settings_apply_to_pods_without_annotations():
    cluster = Living(lambda registry: Kubelet(registry, Containers(start_after=5, stop_after=7)))
    cluster.create(node())
    cluster.run()
    cluster.run("quick", annotations=annotated(start_after="0s", stop_after="0s"))
    assert (cluster.phase("web"), cluster.phase("quick")) == ("Pending", "Running")
    cluster.advance(5)
    assert cluster.phase("web") == "Running"
    for name in ("web", "quick"):
        cluster.delete("Pod", name)
    cluster.advance(6)
    assert cluster.names("Pod") == ["web"]
    cluster.advance(1)
    assert cluster.names("Pod") == []
