"""`stowplan explain --from-scheduler` with a secure port: answers, refusals, and trust."""

import asyncio
import json
import threading
from contextlib import contextmanager

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from msgspec.structs import replace

from stowplan import Cluster
from stowplan.app.cli.main import cli
from stowplan.app.daemon.decision_pages import SchedulerPages
from stowplan.app.daemon.plugin_registry import registry_with
from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.kube.config import load_config
from stowplan.kube.config.features import with_chosen
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.net.serving.requests.messages import Response
from stowplan.scheduler.inspection.records import SCHEMA_VERSION, OnPermitRecord, QueueRecord, encoded
from stowplan.testing import a_node, a_pod
from stowplan.ui.source_records import configuration_record
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.live.live_scheduler import live
from support.serving.secure_port import LOCAL, FakeAccess, secure_server

TOKEN = "canary-token-77"
GROUP = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
}


async def _serve(folder, access, extra, started, stop):
    settings = replace(LOCAL, certificate=None, certificate_directory=str(folder))
    node = a_node("n1").allocatable(cpu="2", memory="1Gi", pods="9").obj()
    async with live(node, features=with_chosen({"GenericWorkload": True}, V1_36)) as cluster:
        await cluster.create(a_pod("placed").requests(cpu="1").obj(), a_pod("big").requests(cpu="64").obj())
        await cluster.create(GROUP)
        pages = SchedulerPages(cluster.scheduler, times=cluster.time).pages() | extra
        async with secure_server(pages, settings=settings, access=access) as server:
            started(server.port, asyncio.get_running_loop(), cluster)
            await stop.wait()


@contextmanager
def scheduler(folder, *, access=None, **extra):
    """A scheduler that answers, in a separate thread; yields its URL."""
    found, ready, stop = [], threading.Event(), asyncio.Event()

    def started(*what):
        found.extend(what)
        ready.set()

    thread = threading.Thread(target=lambda: asyncio.run(_serve(folder, access or FakeAccess(), extra, started, stop)))
    thread.start()
    try:
        assert ready.wait(30)
        yield f"https://127.0.0.1:{found[0]}"
    finally:
        found[1].call_soon_threadsafe(stop.set)
        thread.join(30)


def run(*args):
    result = CliRunner().invoke(cli, ["explain", *map(str, args)], prog_name="stowplan")
    assert TOKEN not in result.output
    return result


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN)
    return path


@pytest.fixture
def kubeconfig(tmp_path):
    made = a_kubeconfig(cluster={"server": "https://127.0.0.1:1"}, user={"token": TOKEN})
    return write_kubeconfig(tmp_path / "kubeconfig", made)


@pytest.fixture
def ca(tmp_path):
    return tmp_path / "kube-scheduler.crt"


def test_the_page_of_a_pod(tmp_path, kubeconfig, ca):
    access = FakeAccess()
    with scheduler(tmp_path, access=access) as url:
        result = run("--from-scheduler", url, "--kubeconfig", kubeconfig, "--certificate-authority", ca, "pod", "big")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("default/big is pending: none of 1 node takes it\n")
    assert "What this scheduler knows of it\n  unschedulable (1 attempt; " in result.output
    assert access.asked == [(TOKEN, "get", "/stowplan/explain/default/big")]


def test_the_page_of_a_pod_group(tmp_path, token, ca):
    access = ("--token-file", token, "--certificate-authority", ca)
    with scheduler(tmp_path) as url:
        result = run("--from-scheduler", url, *access, "podgroup/default/train")
        unknown = run("--from-scheduler", url, *access, "podgroup/default/other")
    expected = "pod group default/train: 0 pods with a node, 0 in the queue, a gang of at least 3\n"
    assert result.output.startswith(expected)
    assert "  no pod names this group\n" in result.output
    assert unknown.exit_code == 2
    assert 'pod group "default/other" not found' in unknown.output


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_json_output(tmp_path, token, ca, output):
    with scheduler(tmp_path) as url:
        result = run(
            "--from-scheduler", url, "--token-file", token, "--certificate-authority", ca, "-o", output, "pod", "placed"
        )
    found = json.loads(result.output) if output == "json" else yaml.safe_load(result.output)
    assert (found["node"], found["currentNode"], found["totals"].keys()) == ("n1", "n1", {"n1"})
    assert found["scheduler"]["story"]["steps"][-1]["what"] == "bound"


class TestWhatIf:
    """The other commands read the objects of the kubeconfig's cluster themselves."""

    CONFIG = """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles:
        - schedulerName: default-scheduler
          pluginConfig:
          - name: NodeResourcesFit
            args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
    """

    @pytest.fixture
    def asked(self, tmp_path, token, ca, monkeypatch):
        """Runs a command about a scheduler that packs, and has a pod that waits on Permit."""

        async def of_live_cluster(*, config, gates, **options):
            nodes = [a_node(name).allocatable(cpu="4", memory="8Gi", pods="9").obj() for name in ("n1", "n2")]
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "w", "controller": True}
            pods = [a_pod(name).requests(cpu="1").obj() for name in ("waits", "other")]
            for pod in pods:
                pod["metadata"]["ownerReferences"] = [owner]
            member = a_pod("member").obj()
            member["spec"]["schedulingGroup"] = {"podGroupName": "train"}
            groups = [GROUP, member] if gates else []
            cluster = Cluster([*nodes, *pods, *groups], config, feature_gates=gates, emulated_version="1.36")
            return ClusterSource(cluster, {}, live=True)

        monkeypatch.setattr(ClusterSource, "of_live_cluster", of_live_cluster)

        def page(record):
            return lambda request: Response(encoded(record))

        waiting = QueueRecord(
            counts={}, pods=(), left_out=0, on_permit=(OnPermitRecord(pod="default/waits", node="n2"),)
        )

        def run(*words, gates=None, extenders=(), own=""):
            features, plugins = with_chosen(gates or {}, V1_36), registry_with(()).declarations
            fields = yaml.safe_load(self.CONFIG) | {"extenders": list(extenders)}
            record = configuration_record(load_config(fields, plugins=plugins, features=features), plugins, features)
            record = msgspec.structs.replace(record, yaml=record.yaml.replace("PrioritySort", own or "PrioritySort"))
            pages = {"/stowplan/configuration": page(record), "/stowplan/pending": page(waiting)}
            with scheduler(tmp_path, **pages) as url:
                access = ("--from-scheduler", url, "--token-file", token, "--certificate-authority", ca)
                return CliRunner().invoke(cli, [*map(str, (*words, *access))], prog_name="stowplan")

        return run

    def test_its_configuration_and_its_decisions(self, asked):
        ran = asked("what-if", "--scale", "replicaset/w=3")
        assert ran.exit_code == 0, ran.output
        assert "as the scheduler has decided, though it has not bound them yet: default/waits" in ran.output
        # It packs next to the pod that waits on Permit.
        assert "  default/w-added-2  n2\n" in ran.output

    def test_a_pod_that_waits_on_permit_leaves_with_its_node(self, asked):
        assert "  default/waits  n2    n1\n" in asked("drain", "n2").output

    def test_its_feature_gates(self, asked):
        refused = asked("fit", "podgroup/train")
        assert refused.exit_code == 2
        assert "places the pods of a group one by one: its feature gate GenericWorkload is off\n" in refused.output
        ran = asked("fit", "podgroup/train", gates={"GenericWorkload": True, "GangScheduling": True})
        assert "like pod group default/train: 5 more groups fit whole with 3 pods each\n" in ran.output

    def test_plugins_that_only_the_scheduler_has(self, asked):
        ran = asked("survive", own="Mine")
        assert ran.exit_code == 2
        assert "its configuration cannot be used here: initializing profiles: " in ran.output
        assert "hint: Mine: a plugin of your own is loaded with --plugin MODULE:CLASS" in ran.output

    def test_extenders_whose_secrets_it_keeps_are_left_out_with_a_note(self, asked, monkeypatch):
        calls = []

        def post(call):
            calls.append(call.url)
            asked = json.loads(call.body)["NodeNames"]
            return 200, json.dumps({"NodeNames": [name for name in asked if name == "n1"]}).encode()

        monkeypatch.setattr("stowplan.ask.offline.cluster.post_to_extender", post)
        managed = {"name": "example.com/slots", "ignoredByScheduler": True}
        secret = {"urlPrefix": "http://me:canary@a.example/x", "filterVerb": "f", "managedResources": [managed]}
        open_ = {"urlPrefix": "http://b.example", "filterVerb": "f", "nodeCacheCapable": True}
        ran = asked("fit", "other", extenders=[secret, open_])
        assert "note: the scheduler's extender http://me:xxxxx@a.example/x cannot be asked: " in ran.output
        assert "like default/other: 4 more fit on 1 node" in ran.output
        assert set(calls) == {"http://b.example/f"}
        assert "canary" not in ran.output

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["fit", "waits", "-f", "x.yaml"], "leave out -f"),
            (["survive", "--config", "x.yaml"], "leave out -f"),
            (["what-if", "--base-config", "x.yaml"], "leave out -f"),
            (["fit", "waits", "--pod-groups"], "leave out -f, -R, --pod-groups"),
        ],
    )
    def test_what_it_has_of_its_own(self, asked, words, says):
        ran = asked(*words)
        assert (ran.exit_code, says in ran.output) == (2, True)

    def test_access_is_for_a_scheduler(self, token):
        ran = CliRunner().invoke(cli, ["survive", "--token-file", str(token)], prog_name="stowplan")
        assert (ran.exit_code, "--token-file is for --from-scheduler" in ran.output) == (2, True)


def test_text_and_json_of_a_node(tmp_path, token, ca):
    with scheduler(tmp_path) as url:
        common = ("--from-scheduler", url, "--token-file", token, "--certificate-authority", ca, "node", "n1")
        page, data = run(*common), run(*common, "-o", "json")
    assert page.exit_code == 0, page.output
    assert "default/placed" in page.output
    found = json.loads(data.output)
    assert (found["node"], [one["pods"] for one in found["refuses"]]) == ("n1", [["default/big"]])


def refused(result):
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    return result.output


def test_an_untrusted_certificate(tmp_path, token):
    with scheduler(tmp_path) as url:
        said = refused(run("--from-scheduler", url, "--token-file", token, "pod", "big"))
        assert "not trusted" in said
        assert "--certificate-authority FILE trusts it, --insecure-skip-tls-verify does not look" in said
        result = run("--from-scheduler", url, "--token-file", token, "--insecure-skip-tls-verify", "pod", "big")
        assert result.exit_code == 0
        assert f"warning: nothing proves that {url} is your scheduler" in result.output


def test_a_forbidden_user(tmp_path, token, ca):
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong")
    with scheduler(tmp_path, access=FakeAccess(forbidden=("/stowplan/explain/default/big",))) as url:
        common = ("--from-scheduler", url, "--certificate-authority", ca, "pod", "big", "--token-file")
        assert "does not accept these credentials" in refused(run(*common, wrong))
        result = CliRunner().invoke(cli, ["explain", *map(str, (*common, token))], prog_name="stowplan")
        assert "needs the right to get the nonResourceURL /stowplan/explain/default/*" in refused(result)


def answer_with(fields):
    return json.dumps({"schemaVersion": SCHEMA_VERSION, "kind": "Explain", "pod": "default/big"} | fields).encode()


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b"<html>", "text/html", "the server is not a compatible Stowplan scheduler: "),
        (b"[]", "application/json", "the server is not a compatible Stowplan scheduler: "),
        (b"{}", "application/json", "compatible Stowplan scheduler: its documents have no schemaVersion"),
        (b'{"schemaVersion": 9}', "application/json", "their schemaVersion is 9, and this command reads 2"),
        (b'{"schemaVersion": 2, "pod": 7}', "application/json", "`$.pod`"),
        (
            answer_with({"page": [{"type": "line", "text": 7}]}),
            "application/json",
            "not a compatible Stowplan scheduler",
        ),
        (
            answer_with({"page": [{"type": "grid", "rows": [["a"], []]}]}),
            "application/json",
            "rows of different lengths",
        ),
    ],
)
def test_another_kind_of_server_answers(tmp_path, token, ca, body, content_type, words):
    pages = {"/stowplan/explain/": lambda request: Response(body, content_type=content_type)}
    with scheduler(tmp_path, **pages) as url:
        common = ("--from-scheduler", url, "--certificate-authority", ca, "--token-file", token)
        assert words in refused(run(*common, "pod", "big"))


def test_terminal_control_characters_are_removed(tmp_path, token, ca):
    body = answer_with({"page": [{"type": "line", "text": [["\u001b]0;evil\u0007", "new style"]]}]})
    with scheduler(tmp_path, **{"/stowplan/explain/": lambda request: Response(body)}) as url:
        result = run("--from-scheduler", url, "--certificate-authority", ca, "--token-file", token, "pod", "big")
    assert result.output == " ]0;evil\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--from-scheduler", "ftp://x", "--token-file", "TOKEN"], "--from-scheduler: unsupported scheme 'ftp'"),
        (
            ["--from-scheduler", "http://x", "--token-file", "TOKEN"],
            "--from-scheduler http://x: a scheduler's port is HTTPS",
        ),
        (
            ["--from-scheduler", "127.0.0.1:1", "--token-file", "TOKEN"],
            "cannot reach the scheduler at https://127.0.0.1:1",
        ),
        (
            ["--from-scheduler", "https://127.0.0.1:1", "--token-file", "TOKEN"],
            "cannot reach the scheduler at https://127.0.0.1:1",
        ),
        (["--from-scheduler", "https://x", "--token-file", "/nowhere"], "--token-file: open /nowhere: no such file"),
        (
            ["--from-scheduler", "https://x", "--token-file", "TOKEN", "--certificate-authority", "/nowhere"],
            "--certificate-authority /nowhere: No such file",
        ),
        (["--from-scheduler", "https://x", "-f", "a.yaml"], "-f: --from-scheduler asks a scheduler that has its own"),
        (["--from-scheduler", "https://x", "--config", "a.yaml"], "--config: --from-scheduler asks"),
        (
            ["--from-scheduler", "https://x", "--token-file", "TOKEN", "--context", "a"],
            "--context: the kubeconfig is not read",
        ),
        (
            ["--from-scheduler", "https://x", "-n", "shop", "-l", "a=b"],
            "-n, -l: a scheduler can be asked about one pod or all pending pods",
        ),
        (["--token-file", "TOKEN"], "--token-file: for --from-scheduler only"),
        (
            ["--insecure-skip-tls-verify", "-f", "x"],
            "and these select a live cluster: --insecure-skip-tls-verify;",
        ),
    ],
)
def test_invalid_usage(token, args, words):
    assert words in refused(run(*(str(token) if arg == "TOKEN" else arg for arg in args)))
