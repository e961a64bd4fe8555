"""The servers that manifests are applied to: the embedded API, and a real one if KUBEBUILDER_ASSETS names it.

And the image, built without a container engine: the stages of its file are run below a folder.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.processes.containers import build, environment, python_for_others, stages
from support.processes.deployments import DEPLOY, ROOT
from support.processes.locks import pins
from support.processes.servers import SERVER_KINDS, assets, embedded_server, real_server

CONTAINERFILE = DEPLOY / "container" / "Containerfile"
LOCKS = [DEPLOY / "container" / name for name in ("requirements.txt", "build-requirements.txt")]
KINDS = SERVER_KINDS


@pytest.fixture(scope="session")
def embedded(tmp_path_factory):
    with embedded_server(tmp_path_factory.mktemp("embedded"), "--controllers=") as server:
        yield server


@pytest.fixture(scope="session")
def real(tmp_path_factory):
    if assets() is None:
        pytest.skip("KUBEBUILDER_ASSETS is not a folder with etcd and kube-apiserver")
    with real_server(tmp_path_factory.mktemp("real"), assets()) as server:
        yield server


@pytest.fixture(scope="session", params=KINDS)
def api_server(request):
    return request.getfixturevalue(request.param)


def _can_be_had(pinned, folder):
    """Whether an index has these versions. Wrong hashes are not checked here; they would fail the build."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", f"--dest={folder}"]
    had = subprocess.run([*command, *pinned], capture_output=True).returncode == 0
    shutil.rmtree(folder, ignore_errors=True)
    return had


@pytest.fixture(scope="session")
def image():
    """The folder of the image's root."""
    python = python_for_others()
    if python is None:
        pytest.skip("no Python that an unprivileged user can start")
    # Not below pytest's folder, which only root can read.
    folder = Path(tempfile.mkdtemp())
    pinned = [str(pin.requirement) for lock in LOCKS for pin in pins(lock)]
    try:
        if not _can_be_had(pinned, folder / "probe"):
            pytest.skip("no package index that has the versions of deploy/container/*requirements.txt")
        build(stages(CONTAINERFILE)[0], ROOT, folder, python=python)
        shutil.rmtree(folder / "build")
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def settings(image):
    """The image's environment and nothing of ours: no HOME."""
    found = environment(stages(CONTAINERFILE)[-1])
    return {**found, "PATH": found["PATH"].replace("/opt/", f"{image}/opt/")}
