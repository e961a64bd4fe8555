"""`kube-scheduler` as a process: signals, closed pipes, and scheduling pods of a cluster."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial

import pytest

from support.api import manifests
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.observing.collector import collecting
from support.processes.api_client import Client
from support.processes.servers import embedded_server, running, until

COMMAND = [sys.executable, "-m", "stowplan.app.cli.kube_scheduler"]

#: A scheduler that ignores the request to stop.
STUBBORN = """
import asyncio, sys
from support.live.scheduler_doubles import FakeOpener, FakeScheduler
from stowplan.app.cli.kube_scheduler import main

class Stubborn(FakeScheduler):
    async def run(self, *, lead=None):
        self.synced.set()
        self.ready.set()
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                print("asked to stop", file=sys.stderr, flush=True)

sys.exit(main(sys.argv[1:], opener=FakeOpener(Stubborn)))
"""


#: This process's, so that it finds `support`.
PATH = {"PYTHONPATH": ":".join(filter(None, sys.path))}


def unreachable(tmp_path):
    return write_kubeconfig(tmp_path / "kubeconfig", a_kubeconfig(cluster={"server": "http://127.0.0.1:1"}))


@contextmanager
def stubborn(tmp_path):
    """Such a process, which runs, and its log."""
    log = tmp_path / "log"
    command = [sys.executable, "-c", STUBBORN, f"--kubeconfig={unreachable(tmp_path)}", "--secure-port=0", "-v3"]
    with running(command, log, env=PATH) as process:
        until(lambda: "Handlers synced" in log.read_text(), process, log)
        yield process, log


def test_the_second_signal_exits_at_once(tmp_path):
    with stubborn(tmp_path) as (process, log):
        process.send_signal(signal.SIGTERM)
        until(lambda: "asked to stop" in log.read_text(), process, log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 1


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM])
def test_unused_signals_are_ignored(tmp_path, number):
    with stubborn(tmp_path) as (process, log):
        process.send_signal(number)
        process.send_signal(signal.SIGTERM)
        until(lambda: "asked to stop" in log.read_text(), process, log)
        process.send_signal(number)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 1


def test_sigquit_shows_stacks_and_exits_at_once(tmp_path):
    with stubborn(tmp_path) as (process, log):
        process.send_signal(signal.SIGQUIT)
        assert process.wait(20) == 2
    said = log.read_text()
    assert "(most recent call first)" in said
    assert " in main\n" in said
    _, _, tasks = said.partition("\ntask ")
    assert "Stubborn.run\t<string>:" in tasks
    assert "asked to stop" not in said


#: Sends itself a signal in the middle of the imports.
EARLY = """
import os, sys

class AtYaml:
    def find_spec(self, name, path=None, target=None):
        if name == "yaml":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), int(sys.argv.pop()))

from stowplan.app.cli.kube_scheduler import main

def opener(job):
    from support.live.scheduler_doubles import FakeOpener
    return FakeOpener()(job)

sys.meta_path.insert(0, AtYaml())
sys.exit(main(opener=opener))
"""


def ended_early(tmp_path, number):
    command = [sys.executable, "-c", EARLY, f"--kubeconfig={unreachable(tmp_path)}", "--secure-port=0"]
    return subprocess.run(
        [*command, str(int(number))], capture_output=True, text=True, timeout=60, env=os.environ | PATH, check=False
    )


def test_sigquit_during_the_imports(tmp_path):
    ended = ended_early(tmp_path, signal.SIGQUIT)
    assert ended.returncode == 2
    assert " in find_spec\n" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_imports_stops_it(tmp_path, number):
    ended = ended_early(tmp_path, number)
    assert ended.returncode == 0
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].endswith('"Requested to terminate, exiting"')


def test_a_reader_that_closes_the_pipe_of_help(tmp_path):
    with subprocess.Popen([*COMMAND, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(20) == 0


def pod(name):
    return {**manifests.pod(name), "spec": {"containers": [{"name": "c", "image": "nginx"}]}}


def scheduling_for(path, kubeconfig, *names, seconds=10):
    """Written to another file and renamed, as the kubelet and most editors do."""
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"schedulerName": name} for name in names],
        "podMaxBackoffSeconds": seconds,
    }
    path.with_suffix(".new").write_text(json.dumps(content))
    path.with_suffix(".new").rename(path)


KUBE_SCHEDULER = [*COMMAND, "--secure-port=0", "--logging-format=json"]
RUN = [sys.executable, "-m", "stowplan", "run", "--log-format=json"]


@pytest.mark.parametrize("command", [KUBE_SCHEDULER, RUN], ids=["kube-scheduler", "run"])
def test_a_configuration_that_changes_while_scheduling_and_traces_of_it(tmp_path, command):
    log, file = tmp_path / "scheduler.log", tmp_path / "config.json"
    with embedded_server(tmp_path, "--nodes=3") as server, collecting() as collector:
        client = Client(server.kubeconfig)
        pods = "/api/v1/namespaces/default/pods"
        scheduling_for(file, server.kubeconfig, "default-scheduler")
        options = [f"--config={file}", "--watch-config", f"--tracing-config-file={collector.configured(tmp_path)}"]
        with running([*command, *options], log) as process:

            def logged(message):
                return message in log.read_text()

            client(pods, pod("a"))
            client.until(pods, lambda found: is_placed(found.get("a")))
            theirs = pod("b")
            theirs["spec"]["schedulerName"] = "another"
            client(pods, theirs)
            scheduling_for(file, server.kubeconfig, "default-scheduler", seconds=-1)
            process.send_signal(signal.SIGHUP)
            until(partial(logged, "Configuration is refused, and the one before stays in force"), process, log)
            assert not is_placed(client(f"{pods}/b"))
            scheduling_for(file, server.kubeconfig, "default-scheduler", "another")
            until(partial(logged, "Configuration has changed and is in force"), process, log)
            client.until(pods, lambda found: is_placed(found.get("b")))
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
    attempts = {
        one.trace_id: {a.key: a.value.string_value for a in one.attributes}
        for one in collector.spans
        if not one.parent_span_id
    }
    traced = {(of["k8s.pod.name"], of["scheduler.profile"], of["scheduler.result"]) for of in attempts.values()}
    assert traced == {("a", "default-scheduler", "scheduled"), ("b", "another", "scheduled")}
    writes = [one for one in collector.spans if one.name == "POST Pod/binding"]
    assert {one.trace_id for one in writes} == set(attempts)
    assert all(one.start_time_unix_nano < one.end_time_unix_nano for one in writes)


def is_placed(found):
    return found is not None and "nodeName" in found["spec"]
