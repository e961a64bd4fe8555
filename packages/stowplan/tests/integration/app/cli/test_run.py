"""`stowplan run`: output, refusals, and the effect of options."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from functools import partial

import msgspec
import pytest
import yaml

from stowplan import load_config
from stowplan.app.cli import run as command
from stowplan.app.cli.run import is_held, work
from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.daemon.process import Job
from stowplan.kube.api.api_errors import Forbidden, Unauthorized
from stowplan.kube.api.meta import ObjectMeta, ObjectReference
from stowplan.kube.api.policy import Event, EventSeries, Lease, LeaseSpec
from stowplan.kube.api.port import Unreachable
from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.scheduler.in_tree.registry import in_tree_registry
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.live.scheduler_doubles import FakeApi, FakeOpener, FakeScheduler
from support.plugins.argued_plugins import COMPLETE, CONFIGURATION
from support.processes import forked

NOW = 1_800_000_000.0  # 2027-01-15 08:00:00 UTC


@pytest.fixture
def kubeconfig(tmp_path):
    return write_kubeconfig(tmp_path / "kubeconfig", a_kubeconfig(cluster={"server": "http://127.0.0.1:1"}))


# -- options


@pytest.fixture
def job_of(run, monkeypatch, kubeconfig):
    """The job for a command line."""
    jobs = []
    monkeypatch.setattr(command, "work", lambda job, **more: jobs.append((job, more)))

    def options(*arguments):
        ran = run("run", "--kubeconfig", str(kubeconfig), "--emulated-version=1.36", *arguments)
        assert (ran.code, ran.err) == (0, "")
        return jobs[-1][0]

    options.more = lambda: jobs[-1][1]
    return options


def test_by_default_requests_are_not_limited(job_of):
    job = job_of()
    assert job.config.client_connection.qps < 0
    assert not job.config.leader_election.leader_elect
    assert [profile.scheduler_name for profile in job.config.profiles] == ["default-scheduler"]
    assert job.connection.server == "http://127.0.0.1:1"
    assert job.features.emulated_version == V1_36
    assert not job_of.more()["force"]


def test_a_limit_of_requests(job_of):
    connection = job_of("--qps", "0.4").config.client_connection
    assert (connection.qps, connection.burst) == (0.4, 1)


def test_a_name(job_of):
    profile = job_of("--scheduler-name", "mine").config.profile("mine")
    assert profile.points["bind"]


def config_file(tmp_path, more):
    path = tmp_path / "config.yaml"
    path.write_text(f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{more}\n")
    return str(path)


def test_a_file_and_a_name(job_of, tmp_path):
    path = config_file(tmp_path, "percentageOfNodesToScore: 7\nprofiles: [{schedulerName: a}]")
    config = job_of("--config", path, "--scheduler-name", "mine").config
    assert config.percentage_of_nodes_to_score == 7
    assert [profile.scheduler_name for profile in config.profiles] == ["mine"]


def test_arguments_of_a_plugin(job_of, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(CONFIGURATION))
    job = job_of("--config", str(path), "--plugin", "support.plugins.argued_plugins:Prefers", "--watch-config")
    assert job.config.profiles[0].plugin_args("Prefers") == job.watched.load().profiles[0].plugin_args("Prefers")
    assert {"name": "Prefers", "args": COMPLETE} in job.config.shown()["profiles"][0]["pluginConfig"]


def test_a_recording(job_of, tmp_path):
    path = tmp_path / "recording"
    assert job_of().recorder is None
    assert job_of("--record", str(path)).recorder is not None
    assert path.exists()


def test_validation(job_of):
    assert not job_of().validate
    assert job_of("--validate").validate


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--emulated-version=1.37", "--record", "/nope/file"],
            "error: --record open /nope/file: no such file or directory\n",
        ),
        (["--kubeconfig", "/nope"], "error: stat /nope: no such file or directory\n"),
        (["--context", "other"], 'context "other" does not exist; the contexts are'),
        (["--config", "/nope"], "error: open /nope: no such file or directory\n"),
        (["--plugin", "x"], 'error: plugin "x": want module:Class\n'),
        (["--scheduler-name", ""], "error: --scheduler-name: a pod's spec.schedulerName is never empty\n"),
        (["--qps", "0"], "Invalid value for '--qps': 0"),
        (["--log-format", "xml"], "Invalid value for '--log-format'"),
    ],
)
def test_refusals(run, kubeconfig, arguments, message):
    ran = run("run", "--kubeconfig", str(kubeconfig), *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_an_invalid_configuration_is_reported(run, kubeconfig, tmp_path):
    path = config_file(tmp_path, "parallelism: 0.5")
    ran = run("run", "--kubeconfig", str(kubeconfig), "--config", path)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {path}: ")


def test_a_name_for_several_profiles(run, kubeconfig, tmp_path):
    path = config_file(tmp_path, "profiles: [{schedulerName: a}, {schedulerName: b}]")
    ran = run("run", "--kubeconfig", str(kubeconfig), "--config", path, "--scheduler-name", "mine")
    assert ran.code == 2
    assert ran.err == "error: --scheduler-name mine: the configuration names its schedulers itself: a and b\n"


# -- running


@pytest.fixture
def job(kubeconfig):
    return Job(
        connection=ClusterFlags(kubeconfig=str(kubeconfig)).connect(),
        config=load_config(),
        registry=in_tree_registry(),
        features=DEFAULT_FEATURES,
        max_in_unschedulable=300,
        command="stowplan",
    )


def interrupted(**fields):
    return partial(FakeScheduler, then=lambda: os.kill(os.getpid(), signal.SIGINT), **fields)


def schedule(job, scheduler=None, api=None, *, force=False):
    opener = FakeOpener(scheduler or interrupted(), api)
    moments = iter([NOW, NOW, NOW + 75.4])
    work(job, force=force, flush=lambda: None, opener=opener, wall_clock=lambda: next(moments))
    return opener


def test_it_prints_its_cluster_and_the_remaining_pods(job, capsys):
    pods = ["a/b", "a/c", "a/d"]
    opener = schedule(job, interrupted(nodes=1200, pending=pods, places={"active": 0, "unschedulable": 2, "gated": 1}))
    assert capsys.readouterr().out == (
        "scheduling for default-scheduler on http://127.0.0.1:1 : 1,200 nodes, 3 pods pending\n"
        "stopped after 1m15s: 3 pods pending (2 unschedulable, 1 gated)\n"
    )
    assert opener.schedulers[0].stopped


# -- another scheduler


def lease(holder="other_1", renewed="2027-01-15T07:59:50.000000Z", duration=15):
    spec = LeaseSpec(holder_identity=holder, renew_time=renewed, lease_duration_seconds=duration)
    return Lease(metadata=ObjectMeta(name="kube-scheduler", namespace="kube-system"), spec=spec)


@pytest.mark.parametrize(
    ("lease", "held"),
    [
        pytest.param(lease(), True, id="renewed just now"),
        pytest.param(lease(renewed="2027-01-15T07:59:44.999999Z"), False, id="expired"),
        pytest.param(lease(renewed="2027-01-15T08:00:30.000000Z"), True, id="clocks differ"),
        pytest.param(lease(holder=""), False, id="released"),
        pytest.param(lease(holder=None), False, id="never held"),
        pytest.param(lease(renewed=None), False, id="never renewed"),
        pytest.param(lease(renewed="soon"), False, id="no time"),
        pytest.param(lease(duration=None), False, id="no duration"),
    ],
)
def test_whether_a_lease_is_held(lease, held):
    assert is_held(lease, NOW) == held


def test_it_does_not_start_beside_another_scheduler(job):
    with pytest.raises(InputError) as caught:
        schedule(job, api=FakeApi(lease()))
    assert caught.value.problems == (
        "other_1 schedules for default-scheduler here (Lease kube-system/kube-scheduler); two of that name would race "
        "for the same pods. Use --scheduler-name NAME to run next to it, or --force to start anyway",
    )


def test_force_starts_it_beside_another_scheduler(job, capsys):
    schedule(job, api=FakeApi(lease()), force=True)
    captured = capsys.readouterr()
    assert captured.out.startswith("scheduling for")
    assert captured.err == (
        "warning: other_1 schedules for default-scheduler here (Lease kube-system/kube-scheduler), "
        "and will race for the same pods\n"
    )


@pytest.mark.parametrize("found", [lease(holder=""), Forbidden("no"), None], ids=["released", "forbidden", "missing"])
def test_it_starts_if_no_other_scheduler_is_known(job, found, capsys):
    schedule(job, api=FakeApi(found))
    captured = capsys.readouterr()
    assert captured.out.startswith("scheduling for")
    assert not captured.err


def test_it_starts_beside_a_scheduler_of_another_name(job, capsys):
    (profile,) = job.config.profiles
    config = msgspec.structs.replace(job.config, profiles=(msgspec.structs.replace(profile, scheduler_name="mine"),))
    schedule(msgspec.structs.replace(job, config=config), api=FakeApi(lease()))
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            Unreachable("http://127.0.0.1:1: connection refused"),
            "cannot reach the cluster: http://127.0.0.1:1: connection refused",
        ),
        (
            Unauthorized("Unauthorized"),
            "http://127.0.0.1:1 refused: Unauthorized; the token or certificate is wrong or has expired",
        ),
    ],
)
def test_an_unreachable_or_unauthorized_server_is_reported_at_once(job, error, told):
    with pytest.raises(InputError) as caught:
        schedule(job, api=FakeApi(error))
    assert caught.value.problems == (told,)


def test_it_can_be_stopped_while_checking_for_others(job):
    class Slow(FakeApi):
        async def get(self, kind, name, *, namespace=""):
            import asyncio

            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

    assert not schedule(job, api=Slow()).schedulers


# -- another scheduler without a lease


def event(instance="default-scheduler-elsewhere", time="2027-01-15T07:59:48.000000Z", series=None):
    return Event(
        reporting_controller="default-scheduler",
        reporting_instance=instance,
        reason="Scheduled",
        event_time=time,
        series=series,
        regarding=ObjectReference(kind="Pod", namespace="shop", name="web-0"),
    )


def test_a_scheduler_with_recent_events_is_named(job, capsys):
    api = FakeApi(events=[event(time="2027-01-15T07:58:00.000000Z"), event()])
    schedule(job, api=api)
    captured = capsys.readouterr()
    assert api.asked["field_selector"] == "reportingController=default-scheduler"
    assert captured.out.startswith("scheduling for")
    assert captured.err == (
        "warning: default-scheduler-elsewhere reported pod shop/web-0 12 s ago (Scheduled): if it still schedules for "
        "default-scheduler, both will race for the same pods; use --scheduler-name NAME to run next to it\n"
    )


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([event(f"default-scheduler-{socket.gethostname()}")], id="our own"),
        pytest.param([event(time="2027-01-15T07:50:00.000000Z")], id="long ago"),
        pytest.param([event(time=None)], id="no time"),
        pytest.param([event(time="soon")], id="an invalid time"),
        pytest.param(Forbidden("no"), id="must not be read"),
    ],
)
def test_no_warning_without_recent_events(job, events, capsys):
    schedule(job, api=FakeApi(events=events))
    assert not capsys.readouterr().err


def test_a_series_counts_from_its_last_event(job, capsys):
    series = EventSeries(count=9, last_observed_time="2027-01-15T07:59:59.000000Z")
    schedule(job, api=FakeApi(events=[event(time="2027-01-15T01:00:00.000000Z", series=series)]))
    assert "shop/web-0 1 s ago" in capsys.readouterr().err


def test_a_pod_bound_by_another_scheduler_is_reported_once(job, capsys):
    def found():
        scheduler = interrupted()()
        scheduler.bound_by_others = ("shop/web-0", "n1")
        return scheduler

    schedule(job, found)
    assert capsys.readouterr().err == (
        "warning: pod shop/web-0 was bound to n1, and not by this scheduler: either a person did that, or another "
        "scheduler of the same name is at work, and both race for the same pods; "
        "use --scheduler-name NAME to run next to it\n"
    )


@contextmanager
def process(*arguments):
    command = [sys.executable, "-m", "stowplan", "run", *arguments]
    with forked.ForkedProcess(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        yield started


def test_as_a_process(tmp_path):
    from support.processes.servers import embedded_server

    with embedded_server(tmp_path, "--nodes=2") as server, process(f"--kubeconfig={server.kubeconfig}") as started:
        line = started.stdout.readline()
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=20)
    assert line.startswith("scheduling for default-scheduler on https://127.0.0.1:")
    assert line.endswith(" : 2 nodes, 0 pods pending\n")
    assert out.startswith("stopped after ")
    assert (started.returncode, err) == (0, "")


# -- the port


def test_a_port_of_its_own_answers_questions(tmp_path):
    from support.processes.servers import embedded_server

    with embedded_server(tmp_path, "--nodes=2") as server:
        arguments = (f"--kubeconfig={server.kubeconfig}", "--port=0", f"--cert-dir={tmp_path}")
        with process(*arguments) as started:
            assert started.stdout.readline().startswith("scheduling for")
            line = started.stdout.readline()
            assert line.startswith("ask it: stowplan explain --from-scheduler https://127.0.0.1:")
            assert line.endswith(f" --certificate-authority {tmp_path}/kube-scheduler.crt pod NAME\n")
            question = [*line.split()[4:8], "pending"]
            command = [sys.executable, "-m", "stowplan", "explain", *question]
            known, stranger = server.kubeconfig, tmp_path / "stranger"
            told = server.kubeconfig.read_text()
            stranger.write_text(re.sub("token: .*", "token: wrong", told))
            answers = [
                forked.run([*command, "--kubeconfig", str(who)], capture_output=True, text=True, timeout=60)
                for who in (known, stranger)
            ]
            started.send_signal(signal.SIGINT)
            started.communicate(timeout=20)
    assert (answers[0].returncode, answers[0].stderr) == (0, "")
    assert answers[0].stdout.startswith("activeQ:0; backoffQ:0; unschedulableEntities:0\n")
    assert answers[1].returncode == 2
    assert "does not accept these credentials" in answers[1].stderr


def test_a_folder_for_a_certificate_needs_a_port(run, kubeconfig, tmp_path):
    ran = run("run", "--kubeconfig", str(kubeconfig), "--cert-dir", str(tmp_path))
    assert (ran.code, ran.err) == (2, "error: --cert-dir is for --port: without a port there is no certificate\n")
