"""The secure port of the process: every page, for authorized and unauthorized clients."""

import json
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.processes.scheduler_process import ADMIN, NOBODY, kube_scheduler

#: The others are asked for by all kinds of clients in test_secure_port.py.
CLOSED = [
    "/stowplan/decisions",
    "/stowplan/",
    "/stowplan/assets/page.js",
    "/stowplan/source",
    "/stowplan/plan",
    "/stowplan/configuration",
]


@pytest.fixture(scope="module")
def scheduler(api_server, tmp_path_factory):
    """A leader with a lease of its own."""
    folder = tmp_path_factory.mktemp("scheduler")
    lease = f"--leader-elect-resource-name=port-{api_server.kind}"
    with kube_scheduler(folder, api_server.kubeconfig, lease) as started:
        started.until("Successfully acquired lease")
        started.until("Handlers synced")
        yield started


@pytest.mark.parametrize("path", CLOSED)
def test_other_pages_require_authentication(scheduler, path):
    for who, name in ((None, "system:anonymous"), (NOBODY, "nobody")):
        status, _, body = scheduler.ask(path, who=who)
        assert (status, json.loads(body)["message"]) == (403, f'forbidden: User "{name}" cannot get path "{path}"')


@pytest.mark.parametrize(
    ("path", "begins"),
    [
        ("/healthz?verbose", "[+]leaderElection ok\nhealthz check passed\n"),
        ("/livez?verbose", "[+]ping ok\nlivez check passed\n"),
        (
            "/readyz?verbose",
            "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n",
        ),
        ("/readyz/sched-handler-sync", "ok"),
        ("/metrics", "# HELP "),
        ("/metrics/slis", "# HELP "),
        ("/metrics/resources", ""),
        ("/configz", '{"componentconfig":{'),
        ("/flagz", "\nkube-scheduler flagz\nWarning: "),
        ("/statusz", "\nkube-scheduler statusz\nWarning: "),
        ("/debug/pprof/", "<html>"),
        ("/debug/pprof/goroutine?debug=1", "goroutine profile: total "),
        ("/debug/flags", "<html>"),
        ("/stowplan/decisions", '{"schemaVersion":2,"decisions":['),
        ("/stowplan/pending", '{"schemaVersion":2,"counts":{'),
        ("/stowplan/", "<!doctype html>"),
        ("/stowplan/source", '{"schemaVersion":2,"kind":"Source","mode":"live",'),
        ("/stowplan/configuration", '{"schemaVersion":2,"kind":"Configuration","profiles":['),
    ],
)
def test_pages(scheduler, path, begins):
    status, _, body = scheduler.ask(path, who=ADMIN)
    assert status == 200
    assert body.startswith(begins)


def test_the_page_is_read_only(scheduler):
    assert scheduler.ask("/stowplan/what-if", who=ADMIN, method="POST", body=b"{}")[0] == 404
    source = json.loads(scheduler.ask("/stowplan/source", who=ADMIN)[2])
    assert "stowplan ui" in source["whyNot"]["whatIf"]


def test_the_plan_is_a_stream_that_follows_the_cluster(scheduler, api_server):
    namespace = api_server.new_namespace("plan")
    with scheduler.stream("/stowplan/plan", who=ADMIN) as lines:
        first = next(line for line in lines if line.startswith(b"data: "))
        assert json.loads(first.removeprefix(b"data: "))["kind"] == "snapshot"
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "seen", "namespace": namespace},
            "spec": {"containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": "example.com/wait"}]},
        }
        api_server.kubectl("create", "-f", "-", stdin=json.dumps(pod))
        deltas = (json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: "))
        assert any(f"{namespace}/seen" in delta["pods"]["key"] for delta in deltas)


def test_an_open_stream_does_not_delay_termination(api_server, tmp_path):
    lease = f"--leader-elect-resource-name=stream-{api_server.kind}"
    with kube_scheduler(tmp_path, api_server.kubeconfig, lease) as started:
        started.until("Handlers synced")
        with started.stream("/stowplan/plan", who=ADMIN) as lines:
            next(lines)
            assert started.end() == 0
        assert not started.said("requests were under way for longer than the grace period")


def test_metrics_of_all_components(scheduler):
    scheduler.ask("/readyz")
    families = {
        family.name: family for family in text_string_to_metric_families(scheduler.ask("/metrics", who=ADMIN)[2])
    }
    for name in (
        "scheduler_pending_pods",
        "scheduler_cache_size",
        "rest_client_requests",
        "leader_election_master_status",
        "authentication_attempts",
        "process_resident_memory_bytes",
        "kubernetes_build_info",
        "version_info",
        "stowplan_event_loop_lag_seconds",
        "stowplan_client_requests_waiting",
    ):
        assert name in families, name
    (status,) = families["leader_election_master_status"].samples
    assert (status.labels, status.value) == ({"name": "kube-scheduler"}, 1.0)
    gates = {sample.labels["name"]: sample for sample in families["kubernetes_feature_enabled"].samples}
    assert gates["SchedulerAsyncPreemption"].value == 1.0
    assert gates["SidecarContainers"].labels["stage"] == ""


def test_metrics_of_health_are_counted(scheduler):
    scheduler.ask("/readyz")
    text = scheduler.ask("/metrics/slis", who=ADMIN)[2]
    assert re.search(r'^kubernetes_healthcheck\{name="sched-handler-sync",type="readyz"\} 1', text, re.MULTILINE)
    assert scheduler.ask("/metrics/slis", who=ADMIN, method="DELETE")[2] == "metrics reset\n"


def test_resource_metrics_are_compressed_and_cannot_be_reset(scheduler):
    status, headers, _ = scheduler.ask("/metrics/resources", who=ADMIN)
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
    assert headers["Process-Start-Time-Unix"].isdigit()
    assert scheduler.ask("/metrics/resources", who=ADMIN, method="DELETE")[2] == "metrics reset\n"


def test_delegated_requests_are_counted(scheduler):
    scheduler.ask("/metrics", who=NOBODY)
    families = text_string_to_metric_families(scheduler.ask("/metrics", who=ADMIN)[2])
    (requests,) = (family for family in families if family.name == "rest_client_requests")
    assert {sample.labels["code"] for sample in requests.samples if sample.labels["method"] == "POST"} >= {"201"}


def test_the_configuration_is_the_one_in_effect(scheduler, api_server):
    config = json.loads(scheduler.ask("/configz", who=ADMIN)[2])["componentconfig"]
    assert config["leaderElection"]["resourceName"] == f"port-{api_server.kind}"
    assert config["clientConnection"]["kubeconfig"] == str(api_server.kubeconfig)


def test_statusz_lists_the_paths(scheduler):
    accept = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz"
    status = json.loads(scheduler.ask("/statusz", who=ADMIN, Accept=accept)[2])
    assert status["binaryVersion"] == "1.37.1"
    assert status["emulationVersion"] == "1.37"
    assert [path for path in status["paths"] if path != "/stowplan"] == [
        "/configz",
        "/flagz",
        "/healthz",
        "/livez",
        "/metrics",
        "/readyz",
    ]


def test_verbosity_can_be_changed(scheduler):
    try:
        status, _, body = scheduler.ask("/debug/flags/v", who=ADMIN, method="PUT", body="5")
        assert (status, body) == (200, "successfully set klog.logging.verbosity to 5\n")
        scheduler.until("Successfully renewed lease")
    finally:
        scheduler.ask("/debug/flags/v", who=ADMIN, method="PUT", body="3")
