"""`stowplan explain` finds `stowplan run` on this machine by itself: stories, queue, and who is not asked."""

import json
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from stowplan.testing import a_node, a_pod
from support.processes import forked
from support.processes.servers import embedded_server

HOLD = """
from stowplan.plugins import Code, PermitPlugin, Status

class Hold(PermitPlugin):
    name = "Hold"

    def permit(self, state, pod, node_name):
        return (Status(Code.Wait, ("held",)), 3600) if "hold" in pod.labels else (None, 0)
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: default-scheduler, plugins: {permit: {enabled: [{name: Hold}]}}}]
"""


def objects():
    yield a_node("n1").allocatable(cpu="4", memory="4Gi", pods="10").obj()
    for pod in (a_pod("held").labels(hold="yes"), a_pod("big").requests(cpu="64"), a_pod("mine").scheduler("mine")):
        made = pod.obj()
        made["spec"]["containers"] = made["spec"].get("containers") or [{"name": "main"}]
        made["spec"]["containers"][0]["image"] = "registry.example.com/app:1"
        made.pop("status", None)
        yield made


@contextmanager
def scheduler(server, folder, *arguments, kill=False):
    """`stowplan run` until it schedules; what it says first."""
    command = [sys.executable, "-m", "stowplan", "run", f"--kubeconfig={server.kubeconfig}", *arguments]
    with forked.ForkedProcess(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            yield [process.stdout.readline(), process.stdout.readline()]
        finally:
            process.send_signal(signal.SIGKILL if kill else signal.SIGINT)
            process.communicate(timeout=20)


@pytest.fixture(scope="module")
def runtime():
    with tempfile.TemporaryDirectory(prefix="xdg-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


@pytest.fixture(scope="module")
def server(tmp_path_factory, runtime):
    folder = tmp_path_factory.mktemp("found")
    (folder / "objects.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects())}))
    (folder / "hold.py").write_text(HOLD)
    (folder / "config.yaml").write_text(CONFIG)
    arguments = ("--config", "config.yaml", "--plugin", "hold:Hold")
    with (
        embedded_server(folder, "-f", str(folder / "objects.json"), "--controllers", "") as started,
        scheduler(started, folder, *arguments) as said,
    ):
        assert said[1] == "ask it: stowplan explain pod NAME (its queue: stowplan explain --from-scheduler auto)\n"
        yield started


@pytest.fixture
def ask(run, server):
    return lambda *args: run("explain", "--kubeconfig", str(server.kubeconfig), *args)


def test_a_pod_on_permit(ask):
    ran = ask("pod", "held")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(
        "default/held waits on Permit for n1 and would go there again: 1 of 1 node would take it\n"
    )
    assert "What this scheduler knows of it\n  waits on Permit for n1\n" in ran.out
    assert "waits on Permit: Hold (for n1)" in ran.out


def test_the_story_of_a_pod_that_fits_nowhere(ask):
    ran = ask("pod", "big", "-o", "json")
    told = json.loads(ran.out)["scheduler"]
    assert (told["place"], told["attempts"], told["rejectedBy"]) == ("unschedulable", 1, ["NodeResourcesFit"])
    assert [step["what"] for step in told["story"]["steps"]][:2] == ["active", "in flight"]


def test_all_pending_pods(ask):
    ran = ask("pending")
    assert ran.out.startswith("2 pods: 1 waits on Permit, 1 fits nowhere\n")
    # The queue was asked for, not each pod's story.
    assert "no story" not in ran.out


def test_its_queue_and_decisions_without_a_url(ask):
    ran = ask("--from-scheduler", "auto")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("activeQ:0; backoffQ:0; unschedulableEntities:1\n")
    assert "  default/held   n1    Hold\n" in ran.out
    assert "\nLast decisions\n" in ran.out


def test_a_scheduler_that_does_not_know_the_pod_says_whom_it_schedules_for(ask):
    ran = ask("--from-scheduler", "auto", "pod", "mine")
    assert ran.code == 2
    assert "this scheduler schedules for default-scheduler, has 2 pods without a node" in ran.err


def test_two_of_one_cluster_each_knows_its_own_pods(ask, server, tmp_path, runtime):
    with scheduler(server, tmp_path, "--scheduler-name", "mine"):
        held, mine = ask("pod", "held"), ask("--from-scheduler", "auto", "pod", "mine")
        both, names = ask("--from-scheduler", "auto"), sorted((runtime / "stowplan").iterdir())
        [other] = [name for name in names if f"{name} (schedules for mine)" in both.err]
        chosen = ask("--from-scheduler", f"unix:{other}")
    assert "waits on Permit for n1" in held.out
    assert mine.out.startswith("default/mine is bound to n1")
    assert both.code == 2
    assert both.err.startswith(
        "error: --from-scheduler auto: 2 schedulers were found, name one: --from-scheduler unix:"
    )
    assert "default/mine  attempt 1" in chosen.out
    assert "default/held" not in chosen.out


def test_what_a_killed_scheduler_leaves_is_passed_over(ask, server, tmp_path, runtime):
    with scheduler(server, tmp_path, "--scheduler-name", "mine", kill=True):
        pass
    assert len(list((runtime / "stowplan").iterdir())) == 2
    assert ask("--from-scheduler", "auto").code == 0
    [left] = [name for name in (runtime / "stowplan").iterdir() if ask("--from-scheduler", f"unix:{name}").code]
    told = ask("--from-scheduler", f"unix:{left}").err
    assert told == (
        f"error: cannot reach the scheduler at unix:{left}: connection refused; has that scheduler ended? "
        "--from-scheduler auto asks one that runs\n"
    )


def test_schedulers_of_another_cluster_are_not_asked(run, tmp_path, server, monkeypatch):
    with embedded_server(tmp_path, "--nodes=1") as another:
        ran = run("explain", "--kubeconfig", str(another.kubeconfig), "--from-scheduler", "auto")
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        nowhere = run("explain", "--kubeconfig", str(another.kubeconfig), "--from-scheduler", "auto")
    assert (ran.code, nowhere.code) == (2, 2)
    assert "runs on this machine under this user, and that server is not stowplan up" in ran.err
    assert "no scheduler on this machine can be found: XDG_RUNTIME_DIR is not set; set XDG_RUNTIME_DIR" in nowhere.err


def test_a_socket_needs_no_kubeconfig(run, server, runtime, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    answers = [run("explain", "--from-scheduler", f"unix:{path}") for path in (runtime / "stowplan").iterdir()]
    assert "unschedulableEntities:1" in "".join(ran.out for ran in answers)


def test_without_a_private_folder_it_schedules_and_says_why_it_is_not_found(server, tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(shared))
    with ExitStack() as stack:
        command = [sys.executable, "-m", "stowplan", "run", f"--kubeconfig={server.kubeconfig}", "--scheduler-name=x"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = stack.enter_context(forked.ForkedProcess(command, **pipes))
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert line.startswith("scheduling for x")
    assert err == (
        f"warning: stowplan explain does not find this scheduler by itself: {shared} is not private (mode 0755, "
        "expected 0700)\n"
    )
