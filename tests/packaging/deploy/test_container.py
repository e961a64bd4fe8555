"""The image: the files that it copies exist, and its installed commands run as an unprivileged user on a read-only
disk.

No container engine is needed: the stages are run below a folder.
"""

import fnmatch
import json
import os
import shutil
import signal
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.processes.containers import entry_point, environment, stages, unprivileged
from support.processes.deployments import DEPLOY, ROOT
from support.processes.locks import pins
from support.processes.servers import embedded_server, free_port, running, until

CONTAINERFILE = DEPLOY / "container" / "Containerfile"
STAGES = stages(CONTAINERFILE)
BUILD, STATIC_POD, FINAL = STAGES[0], STAGES[1], STAGES[-1]
NAMED = {stage.name: stage for stage in STAGES}
WITH_PLUGINS = NAMED["build-scheduler-plugins"]
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def test_copied_files_exist_and_are_not_ignored():
    ignore = (CONTAINERFILE.parent / "Containerfile.dockerignore").read_text().splitlines()
    seen = [line[1:] for line in ignore if line.startswith("!")]
    sources = [source for text in WITH_PLUGINS.said("COPY") for source in text.split()[:-1]]
    assert "*" in ignore
    assert sorted(sources) == sorted(seen)
    assert all((ROOT / source).exists() for source in sources)
    assert "packages/stowplan/src" in sources
    assert any(fnmatch.fnmatch("packages/stowplan/src/__pycache__", line) for line in ignore)


def test_the_image_has_only_built_files_and_no_pip():
    assert FINAL.said("COPY") == ["--from=build /opt/stowplan /opt/stowplan"]
    removing, *links = FINAL.said("RUN")
    assert removing == "pip uninstall --yes --root-user-action=ignore pip"
    assert all(link.startswith("ln -s ") for link in links)


@pytest.mark.parametrize("path", ["/usr/local/bin/kube-scheduler", "/bin/kube-scheduler", "/go-runner"])
def test_the_paths_of_manifests_are_links(path):
    (command,) = (text for text in FINAL.said("RUN") if text.endswith(f" {path}"))
    assert command.split() == ["ln", "-s", f"/opt/stowplan/bin/{Path(path).name}", path]


def test_its_user_is_unprivileged_and_the_static_pods_is_unset():
    assert FINAL.base == STATIC_POD.name == "static-pod"
    assert FINAL.said("USER") == ["65532:65532"]
    assert STATIC_POD.said("USER") == []
    assert [step for step in FINAL.steps if step[0] != "USER"] == STATIC_POD.steps


def test_base_images_are_python_without_a_registry():
    bases = {stage.base for stage in STAGES}
    assert bases - NAMED.keys() == {"python:${PYTHON}-slim"}


@pytest.mark.parametrize("name", ["kube-scheduler", "controller"])
def test_the_images_with_plugins_are_laid_out_as_those_of_scheduler_plugins(name):
    stage = NAMED[name]
    assert entry_point(stage) == [f"/bin/{name}"]
    assert stage.said("USER") == ["65532:65532"]
    assert any(text.endswith(f" /bin/{name}") for text in stage.said("RUN"))
    assert stage.said("COPY")[-1] == "--from=build-scheduler-plugins /opt/stowplan /opt/stowplan"


def test_the_command_of_manifests_is_found_on_the_path():
    assert entry_point(FINAL) == ["kube-scheduler"]
    assert environment(FINAL)["PATH"].split(":")[0] == "/opt/stowplan/bin"
    assert environment(FINAL)["PYTHONDONTWRITEBYTECODE"] == "1"


# -- built


def files(folder):
    return {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}


def test_only_dependencies_are_installed(image):
    folders = {path.name.split("-")[0].lower() for path in image.rglob("*.dist-info")}
    assert {"stowplan", "numpy", "aiohttp"} <= folders
    assert folders.isdisjoint({"pip", "setuptools", "hatchling", "pytest", "mypy", "kubernetes", "hypothesis"})


def test_installed_packages_are_locked_and_needed(image):
    found = {
        dist.name.lower().replace("_", "-"): dist for dist in distributions(path=map(str, image.rglob("site-packages")))
    }
    versions = {name: dist.version for name, dist in found.items()}
    del versions["stowplan"]
    # The image's Python may be another than ours.
    version = next(image.rglob("site-packages")).parent.name.removeprefix("python")
    python = {"python_version": version, "python_full_version": f"{version}.0", "extra": ""}
    pinned = [(pin.requirement.marker, pin) for pin in pins(CONTAINERFILE.parent / "requirements.txt")]
    assert versions == {
        pin.name: str(pin.version) for marker, pin in pinned if marker is None or marker.evaluate(python)
    }
    needed, ahead = set(), ["stowplan"]
    while ahead:
        for asked in map(Requirement, found[ahead.pop()].requires or ()):
            name = canonicalize_name(asked.name)
            if (asked.marker is None or asked.marker.evaluate(python)) and name not in needed:
                needed.add(name)
                ahead.append(name)
    assert needed == versions.keys()


def test_nothing_is_downloaded_without_a_hash():
    installs = [text for text in WITH_PLUGINS.said("RUN") if " install " in text or " download " in text]
    assert len(installs) == 4
    assert all("--require-hashes" in text or "--no-index" in text for text in installs)
    assert all("--no-build-isolation" in text for text in WITH_PLUGINS.said("RUN") if " wheel " in text)


def test_everything_is_compiled(image):
    sources = list((image / "opt").rglob("stowplan/**/*.py"))
    assert sources
    assert all(list((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc")) for path in sources)


def ran(image, settings, *command):
    return subprocess.run(
        unprivileged(list(command)), env=settings, cwd="/", capture_output=True, text=True, timeout=60, check=False
    )


def test_the_other_distributions_are_left_out(image):
    assert list(image.rglob("stowplan/__init__.py"))
    assert not [*image.rglob("stowplan_cluster*"), *image.rglob("stowplan_lab*")]


def test_only_available_commands_are_offered(image, settings):
    told = ran(image, settings, "stowplan", "--help")
    assert (told.returncode, told.stderr) == (0, "")
    listed = told.stdout.split("Commands:\n")[1]
    # A continued line is indented further.
    names = [line.split()[0] for line in listed.splitlines() if line[2:3] != " "]
    asking = "dump explain fit drain survive what-if rebalance check ui record replay shadow mcp"
    assert names == sorted(f"{asking} completion config run".split())
    assert "stowplan up" not in told.stdout


def test_a_command_whose_extra_is_missing_says_so(image, settings):
    told = ran(image, settings, "stowplan", "mcp", "-f", "cluster.json")
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr == "error: stowplan mcp needs the package mcp: pip install 'stowplan[mcp]'\n"


@pytest.mark.parametrize(("name", "distribution"), [("up", "stowplan-cluster"), ("simulate", "stowplan-lab")])
def test_a_command_of_another_distribution_says_what_to_install(image, settings, name, distribution):
    told = ran(image, settings, "stowplan", name)
    assert (told.returncode, told.stdout) == (2, "")
    assert f"`stowplan {name}` is in {distribution}, which is not installed: pip install ./packages/" in told.stderr


def test_it_explains_from_files(image, settings):
    manifests = image / "cluster.json"
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, POD]}))
    manifests.chmod(0o444)
    told = ran(image, settings, "stowplan", "explain", "-f", str(manifests), "pending")
    manifests.unlink()
    assert (told.returncode, told.stderr) == (0, "")
    assert "default/p" in told.stdout


def test_version_works_without_a_home(image, settings):
    told = ran(image, settings, "kube-scheduler", "--version")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("Kubernetes v1.37.")


def test_it_runs_by_a_link_and_by_go_runner(image, settings, tmp_path):
    links = {}
    for command in FINAL.said("RUN")[1:]:
        _, _, target, path = command.split()
        links[path] = tmp_path / path[1:].replace("/", "-")
        links[path].symlink_to(f"{image}{target}")
    tmp_path.chmod(0o755)
    for told in (
        subprocess.run([links["/usr/local/bin/kube-scheduler"], "--version"], env=settings, capture_output=True),
        subprocess.run([links["/go-runner"], "kube-scheduler", "--version"], env=settings, capture_output=True),
    ):
        assert (told.returncode, told.stderr) == (0, b"")
        assert told.stdout.startswith(b"Kubernetes v1.37.")


def test_it_schedules_without_writing_files(image, settings, tmp_path):
    before = files(image)
    with embedded_server(tmp_path, "--nodes=1") as server:
        kubeconfig = image / "kubeconfig"
        shutil.copy(server.kubeconfig, kubeconfig)
        kubeconfig.chmod(0o444)
        flags = ["--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--kubeconfig={kubeconfig}"]
        kubeconfigs = [f"--{kind}-kubeconfig={kubeconfig}" for kind in ("authentication", "authorization")]
        log = tmp_path / "scheduler.log"
        command = unprivileged([*entry_point(FINAL), *flags, *kubeconfigs, "--leader-elect=true"])
        with running(command, log, env=settings, cwd="/") as process:
            server.kubectl("create", "-f", "-", stdin=[POD])
            bound = ("get", "pod", "p", "-o", "jsonpath={.spec.nodeName}")
            until(lambda: server.kubectl(*bound).stdout != "", process, log)
            owner = Path(f"/proc/{process.pid}").stat().st_uid
            assert owner == (65532 if os.geteuid() == 0 else os.geteuid())
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, log.read_text()
        kubeconfig.unlink()
    assert "Traceback" not in log.read_text()
    assert files(image) == before


# -- built, with plugins


def test_the_controller_and_the_plugins_are_there(image, settings, tmp_path):
    """The steps that the image with plugins adds to the other."""
    steps = [step for step in WITH_PLUGINS.steps if step not in BUILD.steps]
    pip, wheels = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"], tmp_path / "wheels"
    assert [text.split()[-1] for word, text in steps if word == "RUN"][:2] == [
        "./stowplan-scheduler-plugins",
        "/build/plugins/*.whl",
    ]
    subprocess.run(
        [*pip, "wheel", "--no-deps", f"--wheel-dir={wheels}", ROOT / "packages" / "stowplan-scheduler-plugins"],
        check=True,
    )
    site = tmp_path / "site"
    subprocess.run([*pip, "install", "--no-index", "--no-deps", f"--target={site}", *wheels.iterdir()], check=True)
    with_plugins = settings | {"PYTHONPATH": str(site)}
    command = [image / "opt/stowplan/bin/python", "-m", "stowplan_scheduler_plugins.controller", "--help"]
    told = subprocess.run(command, env=with_plugins, capture_output=True, text=True, check=True)
    assert "--enableLeaderElection" in told.stdout
