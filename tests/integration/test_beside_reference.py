"""Our program compared with the reference's kube-scheduler on one API server: the same scenario for each, then their
pages.

Requires a kube-scheduler in KUBEBUILDER_ASSETS. Left out of the comparison is what docs/reference/differences.md lists,
and what depends on chance.
"""

import json
import re
import time
from collections import Counter
from types import SimpleNamespace

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from support.api import manifests
from support.processes.beside_reference import (
    HAS_REFERENCE,
    HIGH,
    NO_REFERENCE,
    NODES,
    OUR_FLAGS,
    PROGRAMS,
    wait_for,
)
from support.processes.scheduler_process import ADMIN, NOBODY, STRANGER, kube_scheduler
from support.processes.servers import assets, real_server

pytestmark = pytest.mark.skipif(not HAS_REFERENCE, reason=NO_REFERENCE)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server of its own: any pending pod on it would be scheduled and counted."""
    with real_server(tmp_path_factory.mktemp("server"), assets()) as server:
        yield server


# --- the same scenario


def sized(name, cpu, **spec):
    resources = {"requests": {"cpu": cpu, "memory": "64Mi"}, "limits": {"cpu": cpu}}
    container = {"name": "c", "image": "nginx:1.27", "resources": resources}
    return manifests.pod(name, **{"containers": [container], "terminationGracePeriodSeconds": 0, **spec})


#: Seconds; the default of podInitialBackoffSeconds.
INITIAL_BACKOFF = 1.0


class Scenario:
    """A scenario in steps, each of which is waited for, so that no count depends on speed."""

    def __init__(self, server, namespace):
        self._server, self._namespace = server, namespace

    def kubectl(self, *args, stdin=None):
        return self._server.kubectl("-n", self._namespace, *args, stdin=stdin)

    def pod(self, name):
        return json.loads(self.kubectl("get", "pod", name, "-o", "json").stdout)

    def bound(self, *pods):
        for pod in pods:
            self.kubectl("create", "-f", "-", stdin=[pod])
            self.is_bound(pod["metadata"]["name"])

    def is_bound(self, name):
        wait_for(lambda: self.pod(name)["spec"].get("nodeName"), f"the binding of {name}")

    def refused(self, pod):
        self.kubectl("create", "-f", "-", stdin=[pod])
        name = pod["metadata"]["name"]
        wait_for(lambda: self.pod(name).get("status", {}).get("conditions"), f"the refusal of {name}")

    def gone(self, *names):
        self.kubectl("delete", "pod", "--force", "--grace-period=0", *names)

    def run(self):
        self.bound(*(sized(f"small-{i}", "100m") for i in range(3)))
        self.refused(sized("big", "100"))
        self.gone("big")
        self.refused(sized("gated", "100m", schedulingGates=[{"name": "example.com/g"}]))
        self.kubectl("patch", "pod", "gated", "--type=merge", "-p", '{"spec":{"schedulingGates":[]}}')
        self.is_bound("gated")
        self.bound(sized("special", "3", nodeSelector={"special": "yes"}))
        self.refused(sized("homeless", "100m", nodeSelector={"disk": "ssd"}))
        # Counts depend on whether the node is added during the backoff, so wait for its end. Backoffs end with a
        # window of a second.
        over = time.monotonic() + INITIAL_BACKOFF + 2.0
        wait_for(lambda: time.monotonic() > over, "the end of its backoff")
        self.kubectl("label", "node", "n1", "disk=ssd")
        self.is_bound("homeless")
        self.bound(sized("important", "3", nodeSelector={"special": "yes"}, priorityClassName="high"))
        self.kubectl("create", "-f", "-", stdin=[sized("others", "100m", schedulerName="other")])

    def on_nodes(self):
        pods = json.loads(self.kubectl("get", "pods", "-o", "json").stdout)["items"]
        return sum("nodeName" in pod["spec"] for pod in pods)


def run_scenario(server, folder, whose):
    """Run one program's scenario in a namespace of its own, and return what it leaves behind."""
    namespace = server.new_namespace(f"life-{whose}")
    life = Scenario(server, namespace)
    life.kubectl("create", "-f", "-", stdin=[*NODES, HIGH])
    # The API server taints new nodes as not ready.
    life.kubectl("taint", "nodes", "--all", "node.kubernetes.io/not-ready:NoSchedule-")
    try:
        with kube_scheduler(folder, server.kubeconfig, name=whose, program=PROGRAMS[whose]) as scheduler:
            scheduler.until("Successfully acquired lease")
            life.run()
            # The reference updates the gauges of its cache once per second.
            counted = f'scheduler_cache_size{{type="pods"}} {life.on_nodes()}\n'
            wait_for(lambda: counted in scheduler.ask("/metrics", who=ADMIN)[2], counted)
            # The reference counts a request after its response.
            scheduler.ask("/metrics", who=ADMIN)
            told = {path: scheduler.ask(path, who=ADMIN)[2] for path in ("/metrics", "/metrics/resources")}
            lease = json.loads(life.kubectl("get", "lease", "-n", "kube-system", "kube-scheduler", "-o", "json").stdout)
            code = scheduler.end()
        return SimpleNamespace(
            code=code,
            metrics={family.name: family for family in text_string_to_metric_families(told["/metrics"])},
            resources=told["/metrics/resources"],
            helps=dict(re.findall(r"^# HELP (\S+) (?:\[(\w+)\] )?", told["/metrics"], re.MULTILINE)),
            lease=lease,
            pods=json.loads(life.kubectl("get", "pods", "-o", "json").stdout)["items"],
            events=json.loads(life.kubectl("get", "events.v1.events.k8s.io", "-o", "json").stdout)["items"],
        )
    finally:
        life.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
        life.kubectl("delete", "nodes,priorityclasses", "n0", "n1", "n2", "high", "--ignore-not-found")
        life.kubectl("delete", "lease", "-n", "kube-system", "kube-scheduler")


@pytest.fixture(scope="module")
def lives(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lives")
    both = {whose: run_scenario(server, folder, whose) for whose in PROGRAMS}
    if not all(SAMPLED in life.metrics for life in both.values()):
        for life in both.values():
            life.metrics.pop(SAMPLED, None)
    return SimpleNamespace(**both)


#: Measured for one cycle in ten, at random; of so few cycles it may have none.
SAMPLED = "scheduler_plugin_execution_duration_seconds"

#: Optional families, and families that only one of the two has.
LEFT_OUT = re.compile(
    r"go_|python_|stowplan_|aggregator_|apiserver_(?!delegated|client)|field_validation_|informer_|workqueue_"
    r"|rest_client_transport_create|scheduler_(batch_cache_flushed|store_schedule_results)|openshift"
)
#: What is counted otherwise as results are shared by more pods; what chance or the clock decides.
COUNTED_OTHERWISE = re.compile(
    r"scheduler_(batch|get_node_hint|store_schedule|plugin_|goroutines|event_handling|queueing_hint|inflight|framework_.*Sign)"
)
#: Families of which every series is compared.
COUNTED = re.compile(r"scheduler_|leader_election_|hidden_|disabled_|cardinality_|version_info")


def series_of(life):
    """Counts by series; for histograms of durations the number of observations only."""
    found = {}
    for name, family in life.metrics.items():
        for sample in family.samples:
            # Ours is a later binary, which emulates the reference's version.
            labels = {key: value for key, value in sample.labels.items() if key != "binary"}
            shown = f"{sample.name}{json.dumps(labels, sort_keys=True)}"
            if not COUNTED.match(name) or COUNTED_OTHERWISE.match(shown):
                continue
            if sample.name.endswith(("_bucket", "_sum", "_created")) and "duration" in sample.name:
                continue
            if "Sign" not in sample.labels.values():
                found[shown] = sample.value
    return found


def test_families_are_the_same(lives):
    def kinds(life):
        return {
            name: (family.type, life.helps.get(name, life.helps.get(f"{name}_total")))
            for name, family in life.metrics.items()
            if not LEFT_OUT.match(name)
        }

    assert kinds(lives.ours) == kinds(lives.theirs)


def test_labels_and_buckets_are_the_same(lives):
    def shapes(life):
        return {
            name: (
                {frozenset(sample.labels) for sample in family.samples if not sample.name.endswith("_bucket")},
                {sample.labels["le"] for sample in family.samples if sample.name.endswith("_bucket")},
            )
            for name, family in life.metrics.items()
            if family.samples and not LEFT_OUT.match(name)
        }

    assert shapes(lives.ours) == shapes(lives.theirs)


def test_counts_are_the_same(lives):
    theirs = series_of(lives.theirs)
    assert series_of(lives.ours) == theirs
    assert theirs['scheduler_schedule_attempts_total{"profile": "default-scheduler", "result": "scheduled"}'] == 7
    assert theirs["scheduler_preemption_victims_sum{}"] == 1


def test_gates_are_the_same(lives):
    theirs, ours = (
        {(s.labels["name"], s.labels["stage"]): s.value for s in life.metrics["kubernetes_feature_enabled"].samples}
        for life in (lives.theirs, lives.ours)
    )
    # A distribution may have feature gates of its own.
    assert ours.items() <= theirs.items()


def test_resources_of_pods_are_the_same(lives):
    def lines(life):
        # The choice between equal nodes is random.
        return sorted(re.sub(r'node="n\d"|namespace="[^"]*"', "", line) for line in life.resources.splitlines()[1:])

    def without_help(life):
        return [line for line in lines(life) if not line.startswith("# HELP")]

    assert without_help(lives.ours) == without_help(lives.theirs)
    assert len(without_help(lives.ours)) > 10


def test_events_are_the_same(lives):
    def events(life):
        return Counter(
            (
                event["regarding"]["kind"],
                event["regarding"]["name"],
                event["reason"],
                event["action"],
                event["type"],
                event["reportingController"],
                re.sub(r"\S+/(\S+ to )n\d|\S+/|[0-9a-f-]{36}", r"\1", event["note"]),
            )
            for event in life.events
        )

    assert events(lives.ours) == events(lives.theirs)


def test_pod_statuses_are_the_same(lives):
    def told(life):
        return {
            pod["metadata"]["name"]: (
                bool(pod["spec"].get("nodeName")),
                pod["status"].get("nominatedNodeName"),
                [
                    {key: value for key, value in condition.items() if not key.endswith("Time")}
                    for condition in pod["status"].get("conditions", ())
                ],
            )
            for pod in life.pods
        }

    assert told(lives.ours) == told(lives.theirs)


def test_leases_are_the_same(lives):
    def shape(life):
        spec = life.lease["spec"]
        identity = re.fullmatch(r"\S+_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", spec["holderIdentity"])
        return sorted(spec), bool(identity), spec["leaseDurationSeconds"], spec["leaseTransitions"]

    assert shape(lives.ours) == shape(lives.theirs)
    assert lives.ours.code == lives.theirs.code == 0


# --- pages


@pytest.fixture(scope="module")
def schedulers(server, lives, tmp_path_factory):
    """Both running, each leading with a lease of its own, and nothing to schedule."""
    folder = tmp_path_factory.mktemp("pages")
    common = ["--authorization-webhook-cache-unauthorized-ttl=1h", "-v=4"]
    started = {
        whose: kube_scheduler(
            folder, server.kubeconfig, *common, f"--leader-elect-resource-name={whose}", name=whose, program=program
        )
        for whose, program in PROGRAMS.items()
    }
    with started["theirs"] as theirs, started["ours"] as ours:
        for scheduler in (theirs, ours):
            scheduler.until("Successfully acquired lease")
        yield SimpleNamespace(theirs=theirs, ours=ours)


GROUPS = [
    f"/{group}{rest}"
    for group in ("healthz", "livez", "readyz")
    for rest in (
        *("", "?verbose", "?verbose=1", "?exclude=ping", "?exclude=zzz", "?verbose&exclude=zzz&exclude=yyy"),
        *("?verbose&exclude=shutdown", "/", "/ping", "/ping?verbose", "/leaderElection", "/shutdown"),
        *("/sched-handler-sync", "/zzz"),
    )
]
MACHINES = "application/{};v={};g=config.k8s.io;as={}"
#: Path, who asks, method, body, Accept.
ASKED = [
    *((path, who, "GET", None, None) for path in GROUPS for who in (ADMIN, None)),
    *((path, ADMIN, method, None, None) for path in ("/healthz", "/readyz") for method in ("POST", "DELETE", "PUT")),
    *(
        (path, who, "GET", None, None)
        for path in ("/metrics", "/configz", "/statusz", "/debug/pprof/", "/debug/flags/v", "/nowhere", "/", "/version")
        for who in (None, NOBODY, STRANGER)
    ),
    *((path, None, method, None, None) for path in ("/metrics", "/debug/flags/v") for method in ("POST", "DELETE")),
    *(
        (path, ADMIN, "GET", None, None)
        for path in ("/nowhere", "/", "/version", "/metrics/", "/configz/", "/debug", "/debug/pprof/cmdline")
    ),
    *(("/a&b<c>", who, "GET", None, None) for who in (ADMIN, None)),
    *(("/debug/pprof/nope", ADMIN, "GET", None, None), ("//healthz", ADMIN, "GET", None, None)),
    *(("/debug/flags/v", ADMIN, "PUT", body, None) for body in ("5", "x", "-1", "", "3.5", "99999999999", "3")),
    *(("/debug/flags/v", ADMIN, method, None, None) for method in ("GET", "POST", "DELETE")),
    *(
        (path, ADMIN, "GET", None, accept)
        for path in ("/flagz", "/statusz")
        for accept in (
            *("application/json", "text/html", MACHINES.format("json", "v9", "Flagz")),
            MACHINES.format("json", "v1", "Statusz"),
        )
    ),
    *(("/metrics", ADMIN, "DELETE", None, None), ("/metrics/slis", ADMIN, "DELETE", None, None)),
    ("/metrics/resources", ADMIN, "DELETE", None, None),
]
#: Header fields that clients depend on.
HEADERS = (
    "Content-Type",
    "Cache-Control",
    "X-Content-Type-Options",
    "Location",
    "Warning",
    "Allow",
    "Content-Encoding",
)


def shown(asked):
    path, who, method, *more = asked
    name = {None: "nobody", ADMIN: "admin", NOBODY: "user"}.get(who, "stranger")
    return " ".join((method, path, name, *filter(None, more)))


@pytest.mark.parametrize("asked", ASKED, ids=shown)
def test_responses_are_the_same(schedulers, asked):
    path, who, method, body, accept = asked
    headers = {} if accept is None else {"Accept": accept}
    theirs, ours = (
        scheduler.ask(path, who=who, method=method, body=body, **headers)
        for scheduler in (schedulers.theirs, schedulers.ours)
    )
    assert (ours[0], ours[2]) == (theirs[0], theirs[2])
    assert {name: ours[1].get(name) for name in HEADERS} == {name: theirs[1].get(name) for name in HEADERS}


@pytest.mark.parametrize("path", ["/metrics", "/metrics/slis", "/metrics/resources", "/configz", "/flagz", "/statusz"])
def test_headers_of_pages_are_the_same(schedulers, path):
    theirs, ours = (scheduler.ask(path, who=ADMIN)[:2] for scheduler in (schedulers.theirs, schedulers.ours))
    assert ours[0] == theirs[0]
    assert {name: ours[1].get(name) for name in HEADERS} == {name: theirs[1].get(name) for name in HEADERS}
    assert ("Process-Start-Time-Unix" in ours[1]) == ("Process-Start-Time-Unix" in theirs[1])


def test_the_configuration_is_the_same(schedulers):
    theirs, ours = (
        json.loads(scheduler.ask("/configz", who=ADMIN)[2])["componentconfig"]
        for scheduler in (schedulers.theirs, schedulers.ours)
    )
    assert (ours["leaderElection"].pop("resourceName"), theirs["leaderElection"].pop("resourceName")) == (
        "ours",
        "theirs",
    )
    assert ours == theirs


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
@pytest.mark.parametrize("kind", ["Flagz", "Statusz"])
def test_encoded_pages_are_the_same(schedulers, kind, version, form):
    def read(scheduler):
        accept = MACHINES.format(form, version, kind)
        status, headers, body = scheduler.ask(f"/{kind.lower()}", who=ADMIN, Accept=accept)
        document = yaml.safe_load(body)
        return (status, headers["Content-Type"], headers["Warning"], sorted(document)), document

    (theirs, document), (ours, own) = read(schedulers.theirs), read(schedulers.ours)
    assert ours == theirs
    for field in ("kind", "apiVersion", "metadata", "emulationVersion"):
        assert own.get(field) == document.get(field)
    flags, more = set(document.get("flags", ())), set(own.get("flags", ()))
    # Both a distribution and we may have flags of our own.
    assert flags - more <= {"unsupported-kube-api-over-localhost"}
    assert more - flags <= OUR_FLAGS
