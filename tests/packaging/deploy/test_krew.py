"""The plugin for krew: built, installed as krew does, and run by kubectl, with an environment that is there already.

`make krew` has the first run install the real one.
"""

import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import yaml

from support.paths import ROOT

SPEC = spec_from_file_location("build_krew", ROOT / "deploy" / "krew" / "build.py")
krew = module_from_spec(SPEC)
SPEC.loader.exec_module(krew)
RELEASES = "https://example.com/OWNER/stowplan/releases/download/v1.2.3"


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "stowplan-1.2.3-py3-none-any.whl"
    path.write_bytes(b"a wheel")
    return path


@pytest.fixture
def manifest(wheel, tmp_path):
    return krew.built(wheel, tmp_path / "out", RELEASES)


@pytest.fixture
def store(manifest, tmp_path):
    """Where the files are; `bin` beside it is on the PATH."""
    krew.installed(manifest, tmp_path / "krew")
    return tmp_path / "krew" / "store" / "stowplan" / "v1.2.3"


def run(*command, path, **env):
    given = {**os.environ, "PATH": path, **env}
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=60)


def path_of(store):
    return f"{store.parents[2] / 'bin'}{os.pathsep}{os.environ['PATH']}"


def completing(store):
    """The link that the manifest's caveats have made."""
    folder = store.parents[2]
    command = krew.CAVEATS.splitlines()[-1]
    subprocess.run(["/bin/sh", "-euc", command], env={**os.environ, "KREW_ROOT": str(folder)}, check=True)
    return folder / "bin" / "kubectl_complete-stowplan"


def test_the_same_wheel_makes_the_same_archive(wheel, manifest):
    [name] = {one["uri"].rpartition("/")[2] for one in yaml.safe_load(manifest.read_text())["spec"]["platforms"]}
    assert manifest.with_name(name).read_bytes() == krew.archive(wheel)


@pytest.mark.parametrize(
    ("rule", "at", "value"),
    [
        ("kind", ("kind",), "Plugins"),
        ("name", ("metadata", "name"), "other"),
        ("version", ("spec", "version"), "1.2.3"),
        ("shortDescription", ("spec", "shortDescription"), "two\nlines"),
        ("platforms", ("spec", "platforms"), []),
        ("sha256 1", ("spec", "platforms", 1, "sha256"), "ABC"),
        ("selector 0", ("spec", "platforms", 0, "selector", "matchLabels"), {"os": "linux", "cpu": "amd64"}),
    ],
)
def test_what_krew_refuses(manifest, rule, at, value):
    document = yaml.safe_load(manifest.read_text())
    *path, last = at
    place = document
    for one in path:
        place = place[one]
    place[last] = value
    manifest.write_text(yaml.safe_dump(document))
    with pytest.raises(SystemExit, match=f": {rule} is not as krew wants"):
        krew.checked(manifest)


def test_another_archive_is_not_installed(manifest, tmp_path):
    manifest.with_name("kubectl-stowplan-v1.2.3.tar.gz").write_bytes(b"other")
    with pytest.raises(SystemExit, match="not the archive"):
        krew.installed(manifest, tmp_path / "krew")


def test_kubectl_runs_it(store):
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    (store / "environment").mkdir()
    (store / "environment" / "bin").symlink_to(Path(sys.executable).parent)
    (store / "environment" / "complete").touch()
    said = run("kubectl", "stowplan", "version", path=path_of(store))
    assert said.stdout.startswith("kubectl stowplan "), said.stderr
    completing(store)
    assert "explain" in run("kubectl", "__complete", "stowplan", "expl", path=path_of(store)).stdout


def test_completion_installs_nothing(store):
    done = run(completing(store), "expl", path=os.environ["PATH"])
    assert (done.returncode, done.stdout, (store / "environment").exists()) == (0, "", False)


def test_without_a_python(store):
    failed = run("kubectl-stowplan", "version", path=path_of(store), STOWPLAN_PYTHON="no-python")
    assert failed.returncode == 2
    assert failed.stderr == ("kubectl stowplan: needs Python 3.11 or newer, with venv; STOWPLAN_PYTHON names one\n")


def test_what_cannot_be_installed_is_tried_again(store):
    """No network, or another index: the next run begins anew, and two do not begin together."""
    broken = store / "python"
    broken.write_text('#!/bin/sh\n[ "$1" = -c ] || exit 1\n')
    broken.chmod(0o755)
    failed = run("kubectl-stowplan", path=path_of(store), STOWPLAN_PYTHON=str(broken))
    assert (failed.returncode, failed.stderr.splitlines()[1:]) == (
        2,
        ["kubectl stowplan: no environment could be made"],
    )
    (store / "lock").mkdir()
    failed = run("kubectl-stowplan", path=path_of(store), STOWPLAN_PYTHON=str(broken))
    assert "another run is making" in failed.stderr
