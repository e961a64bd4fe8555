"""`kube-scheduler`: output streams, exit codes, and the effect of flags, files and signals."""

import os
import re
import signal
import sys
from functools import partial

import pytest
import yaml

from stowplan import __version__
from stowplan.app.cli.kube_scheduler import main
from stowplan.kube import compiled
from stowplan.scheduler.framework.runtime.profile_plugins import PluginInitError
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.live.scheduler_doubles import FakeOpener, FakeScheduler
from support.plugins.argued_plugins import COMPLETE, CONFIGURATION
from support.processes.servers import free_port

CLUSTER = {"server": "http://127.0.0.1:1"}


@pytest.fixture
def kubeconfig(tmp_path):
    return write_kubeconfig(tmp_path / "kubeconfig", a_kubeconfig(cluster=CLUSTER))


def signalled(number=signal.SIGTERM):
    return partial(FakeScheduler, then=lambda: os.kill(os.getpid(), number))


@pytest.fixture
def command(capsys):
    """Runs it until it exits; returns exit code, stdout, stderr, and the job."""

    def run(*arguments, scheduler=None):
        opener = FakeOpener(scheduler or signalled())
        code = main(["--secure-port=0", *arguments], opener=opener)
        captured = capsys.readouterr()
        return code, captured.out, captured.err, opener

    return run


def messages(err):
    """Log lines without their headers and without details of this machine."""
    lines = [re.sub(r"^[IWE]\d{4} \S+ +\d+ \w+\.py:\d+\] ", "", line) for line in err.splitlines()]
    return [line for line in lines if not line.startswith('"Python settings" ')]


# -- before logging is set up


def test_help_takes_precedence_over_other_arguments(command):
    code, out, err, opener = command("word", "--help")
    assert (code, err, opener.jobs) == (0, "", [])
    assert "\nUsage:\n  kube-scheduler [flags]\n\nMisc flags:\n\n" in out
    assert out.endswith("\n")


def test_a_flag_that_cannot_be_read_shows_the_usage_and_then_the_error(command):
    code, out, err, _ = command("--nope")
    assert (code, out) == (1, "")
    assert err.startswith("Usage:\n  kube-scheduler [flags]\n\nMisc flags:\n")
    assert err.endswith("\nError: unknown flag: --nope\n")


@pytest.mark.parametrize(
    ("arguments", "err"),
    [
        (["foo"], 'Error: "kube-scheduler" does not take any arguments, got ["foo"]\n'),
        (["foo", 'b"r'], 'Error: "kube-scheduler" does not take any arguments, got ["foo" "b\\"r"]\n'),
        (["--logging-format=xml"], 'format: Invalid value: "xml": Unsupported log format\n'),
        (
            ["--logging-format=xml", "--log-flush-frequency=0"],
            '[flushFrequency: Invalid value: "0s": Must be greater than zero, '
            'format: Invalid value: "xml": Unsupported log format]\n',
        ),
    ],
)
def test_early_errors_are_plain_and_without_usage(command, arguments, err):
    assert command(*arguments)[:3] == (1, "", err)


def test_empty_arguments_are_ignored(command, kubeconfig):
    assert command("", f"--kubeconfig={kubeconfig}", "")[0] == 0


def test_versions(command):
    assert command("--version")[:3] == (0, "Kubernetes v1.37.1\n", "")
    code, out, err, _ = command("--version=raw")
    assert (code, err) == (0, "")
    assert re.fullmatch(
        r'version\.Info\{Major:"1", Minor:"37", EmulationMajor:"", EmulationMinor:"", MinCompatibilityMajor:"", '
        r'MinCompatibilityMinor:"", GitVersion:"v1\.37\.1", .*Platform:"\w+/\w+"\}\n',
        out,
    )


def test_gates_are_checked_before_the_version_and_the_log_after_it(command):
    assert command("--version", "--feature-gates=Nope=true")[0] == 1
    assert command("--version", "--logging-format=xml")[0] == 0


# -- errors in the log


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--feature-gates=Nope=true"], "unrecognized feature gate: Nope"),
        (["--emulated-version=1.35.1"], "patch version not allowed, got: kube=1.35.1"),
        (
            ["--secure-port=-1", "--requestheader-allowed-names=a,"],
            "[--secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port, "
            r"empty value in \"requestheader-allowed-names\"]",
        ),
        (
            ["--master=http://127.0.0.1:1", "--secure-port=1", "--tls-min-version=VersionTLS14"],
            r"unknown tls version \"VersionTLS14\"",
        ),
        (["--plugin=nowhere:X"], r"plugin \"nowhere:X\": cannot import nowhere: ModuleNotFoundError: "),
    ],
)
def test_later_errors_are_log_lines(command, arguments, error):
    code, out, err, opener = command(*arguments)
    assert (code, out, opener.jobs) == (1, "", [])
    assert re.match(r"E\d{4} \d\d:\d\d:\d\d\.\d{6} [ \d]{6}\d command\.py:\d+\] ", err)
    assert messages(err)[0].startswith(f'"command failed" err="{error}')


def failing(error):
    def make():
        raise error

    return make


def test_a_plugin_that_does_not_start_is_one_line(command, kubeconfig):
    broken = failing(PluginInitError('initializing plugin "X": no'))
    code, _, err, _ = command(f"--kubeconfig={kubeconfig}", scheduler=broken)
    assert code == 1
    assert messages(err) == [r'"command failed" err="initializing plugin \"X\": no"']


def test_an_internal_error_is_reported_with_its_traceback(command, kubeconfig):
    code, _, err, _ = command(f"--kubeconfig={kubeconfig}", scheduler=failing(RuntimeError("broken")))
    assert code == 1
    assert '"command failed" err="broken" stacktrace=<\n\tTraceback' in err


# -- running


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_it_starts_and_stops_on_request(command, kubeconfig, monkeypatch, loop):
    if loop == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    code, out, err, opener = command(f"--kubeconfig={kubeconfig}")
    assert (code, out) == (0, "")
    version = f"stowplan {compiled.with_form(__version__)} (decides as kube-scheduler 1.37)"
    assert messages(err) == [
        f'"Starting Kubernetes Scheduler" version="{version}"',
        '"Requested to terminate, exiting"',
    ]
    assert opener.schedulers[0].stopped


def test_sigint_stops_it_too(command, kubeconfig):
    assert command(f"--kubeconfig={kubeconfig}", scheduler=signalled(signal.SIGINT))[0] == 0


def test_without_leader_election_it_runs_until_a_signal(command, kubeconfig):
    code, _, err, _ = command(f"--kubeconfig={kubeconfig}", "--leader-elect=false")
    assert code == 1
    assert messages(err)[-1] == '"command failed" err="finished without leader elect"'
    assert not [line for line in messages(err) if "no effect" in line]


def test_signal_handlers_are_restored_at_exit(command, kubeconfig):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    command(f"--kubeconfig={kubeconfig}")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_signal_during_startup_is_honoured(command, kubeconfig):
    def make():
        os.kill(os.getpid(), signal.SIGTERM)
        return FakeScheduler()

    assert command(f"--kubeconfig={kubeconfig}", scheduler=make)[0] == 0


def test_a_lost_lease_ends_it(command, kubeconfig):
    def make():
        scheduler = FakeScheduler()
        scheduler.loses = True
        return scheduler

    code, _, err, _ = command(f"--kubeconfig={kubeconfig}", scheduler=make)
    assert code == 1
    assert messages(err)[-1] == '"Leaderelection lost"'
    assert not [line for line in messages(err) if "command failed" in line]


def test_a_scheduler_that_fails_ends_the_command(command, kubeconfig):
    class Failing(FakeScheduler):
        async def run(self, *, lead=None):
            raise RuntimeError("broken")

    code, _, err, _ = command(f"--kubeconfig={kubeconfig}", scheduler=Failing)
    assert code == 1
    assert '"command failed" err="broken" stacktrace=<' in err


def test_kubeadms_command_line_starts(command, kubeconfig):
    code, _, err, opener = command(
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=true",
    )
    assert code == 0
    assert not [line for line in messages(err) if "no effect" in line]
    assert opener.jobs[0].connection.server == "http://127.0.0.1:1"


def test_explicit_default_values_cause_no_warning(command, kubeconfig):
    _, _, err, _ = command(
        f"--kubeconfig={kubeconfig}", "--secure-port=10259", "--leader-elect-lease-duration=15s", "--profiling"
    )
    assert not [line for line in messages(err) if "no effect" in line]


def test_the_resulting_job(command, kubeconfig):
    job = command(
        f"--kubeconfig={kubeconfig}",
        "--master=http://127.0.0.2:2",
        "--kube-api-qps=7",
        "--pod-max-in-unschedulable-pods-duration=1m",
        "--feature-gates=SchedulerAsyncPreemption=false",
    )[3].jobs[0]
    assert job.connection.server == "http://127.0.0.2:2"
    assert job.config.client_connection.qps == 7
    assert job.max_in_unschedulable == 60
    assert not job.features.enabled("SchedulerAsyncPreemption")
    assert job.features.enabled("SchedulerPopFromBackoffQ")
    assert job.command == "kube-scheduler"


def test_gates_that_will_be_removed_are_reported(command, kubeconfig):
    err = command(f"--kubeconfig={kubeconfig}", "--feature-gates=SidecarContainers=true,KMSv1=false")[2]
    assert messages(err)[:2] == [
        '"Warning: setting GA feature gate. It will be removed in a future release." '
        'featureGate="SidecarContainers" value=true',
        '"Warning: setting deprecated feature gate. It will be removed in a future release." '
        'featureGate="KMSv1" value=false',
    ]


def test_a_reported_version(command, kubeconfig):
    err = command(f"--kubeconfig={kubeconfig}", "--version=v1.37.1-mine")[2]
    assert messages(err)[0] == '"Starting Kubernetes Scheduler" version="v1.37.1-mine"'


def test_an_out_of_tree_plugin_is_loaded(command, kubeconfig, tmp_path):
    path, written = tmp_path / "config.yaml", tmp_path / "written.yaml"
    path.write_text(yaml.safe_dump({**CONFIGURATION, "clientConnection": {"kubeconfig": str(kubeconfig)}}))
    assert command(f"--config={path}")[0] == 1
    plugin = "--plugin=support.plugins.argued_plugins:Prefers"
    _, _, err, opener = command(f"--config={path}", plugin, "-v=3")
    assert "Prefers" in {ref.name for ref in opener.jobs[0].config.profiles[0].points["score"]}
    assert "node: large" in map(str.strip, err.splitlines())
    assert command(f"--config={path}", plugin, f"--write-config-to={written}")[0] == 0
    (entry,) = (e for e in yaml.safe_load(written.read_text())["profiles"][0]["pluginConfig"] if e["name"] == "Prefers")
    assert entry["args"] == COMPLETE


# -- more log lines


def test_flags_and_configuration_are_shown_when_asked(command, kubeconfig):
    err = command(f"--kubeconfig={kubeconfig}", "-v", "3")[2]
    lines = messages(err)
    shown = [line for line in lines if line.startswith("FLAG: ")]
    assert f'FLAG: --kubeconfig="{kubeconfig}"' in shown
    assert 'FLAG: --v="3"' in shown
    names = [line.split("=")[0] for line in shown]
    assert names == sorted(names)
    assert any(
        line.startswith('"the scheduler starts to work with those plugins" Plugins={"bind":[{"name":"DefaultBinder"}]')
        for line in lines
    )
    assert '"Using component config" config=<' in lines
    assert "\tapiVersion: kubescheduler.config.k8s.io/v1" in lines
    assert '"Handlers synced"' in lines


def test_a_password_in_a_url_is_not_logged(command):
    code, _, err, _ = command("--master=https://user:PASSWORD@127.0.0.1:1", "-v=10")
    assert code == 1
    assert 'FLAG: --master="https://user:xxxxx@127.0.0.1:1"' in messages(err)
    assert "PASSWORD" not in err


def test_vmodule_patterns(command, kubeconfig):
    err = command(f"--kubeconfig={kubeconfig}", "--vmodule=assem*=3")[2]
    assert '"Handlers synced"' in messages(err)


def test_split_streams_with_a_buffer(command, kubeconfig):
    code, out, err, _ = command(
        f"--kubeconfig={kubeconfig}",
        "--http2-max-streams-per-connection=7",
        "--feature-gates=LoggingAlphaOptions=true",
        "--log-text-split-stream",
        "--log-text-info-buffer-size=64Ki",
        "--log-flush-frequency=1h",
    )
    assert code == 0
    assert [line.split('"')[1] for line in messages(out)] == [
        "Starting Kubernetes Scheduler",
        "Requested to terminate, exiting",
    ]
    assert messages(err) == [
        "component has alpha features enabled in emulated version, this is unsupported: features=[LoggingAlphaOptions]",
        "--http2-max-streams-per-connection is accepted and has no effect",
    ]


# -- --write-config-to


def test_the_configuration_is_written_and_nothing_is_started(command, kubeconfig, tmp_path):
    path = tmp_path / "out.yaml"
    code, _, err, opener = command(f"--kubeconfig={kubeconfig}", f"--write-config-to={path}")
    assert code == 0
    assert messages(err) == [f'"Wrote configuration" file="{path}"']
    assert not opener.schedulers[0].ready.is_set()
    text = path.read_text()
    written = yaml.safe_load(text)
    assert written["clientConnection"]["kubeconfig"] == str(kubeconfig)
    assert list(written) == sorted(written)
    assert '  acceptContentTypes: ""\n' in text
    assert "  qps: 50\n" in text
    assert written["profiles"][0]["plugins"]["bind"] == {}


def test_the_written_file_is_a_valid_configuration(command, kubeconfig, tmp_path):
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    command(f"--kubeconfig={kubeconfig}", f"--write-config-to={first}")
    assert command(f"--config={first}", f"--write-config-to={second}")[0] == 0
    assert second.read_text() == first.read_text()


def test_a_file_that_cannot_be_written(command, kubeconfig, tmp_path):
    code, _, err, _ = command(f"--kubeconfig={kubeconfig}", f"--write-config-to={tmp_path / 'no' / 'out.yaml'}")
    assert code == 1
    assert messages(err) == [f'"command failed" err="open {tmp_path / "no" / "out.yaml"}: no such file or directory"']


# -- the secure port


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def serving(command, kubeconfig, port):
    def run(*arguments):
        code, _, err, _ = command(
            f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", f"--secure-port={port}", *arguments
        )
        return code, messages(err)

    return run


def test_the_port_is_served_until_the_end(serving, port):
    code, said = serving()
    assert code == 0
    assert said[0] == "Generated self-signed cert in-memory"
    assert f"Serving securely on 127.0.0.1:{port}" in said
    assert said[-4:] == [
        f"Stopped listening on 127.0.0.1:{port}",
        '"[graceful-termination] secure server has stopped listening"',
        '"[graceful-termination] secure server is exiting"',
        '"Requested to terminate, exiting"',
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--tls-cert-file=/nope", "--tls-private-key-file=/nope"], "open /nope: no such file or directory"),
        (
            ["--authentication-kubeconfig=/nope"],
            "failed to get delegated authentication kubeconfig: failed to get delegated authentication kubeconfig: "
            "stat /nope: no such file or directory",
        ),
        (["--client-ca-file=/nope"], "unable to load client CA provider: open /nope: no such file or directory"),
    ],
)
def test_errors_of_the_port_are_one_line(serving, arguments, error):
    code, said = serving(*arguments)
    assert code == 1
    assert said[-1] == f'"command failed" err="{error}"'
    assert len([line for line in said if "command failed" in line]) == 1
