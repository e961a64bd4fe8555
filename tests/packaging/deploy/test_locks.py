"""The locks agree with each pyproject.toml: `make lock` was run after the last change of dependencies.

The image's build, which runs `pip check`, shows that its own are complete (test_container.py).
"""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.processes.deployments import DEPLOY, ROOT
from support.processes.locks import pins

IMAGE, DEVELOPMENT = DEPLOY / "container/requirements.txt", ROOT / "requirements-dev.txt"
PROJECT, LAB, WORKSPACE = (
    tomllib.loads((ROOT / path / "pyproject.toml").read_text())
    for path in ("packages/stowplan", "packages/stowplan-lab", "")
)
EXTRAS = LAB["project"]["optional-dependencies"]
ASKED = {
    IMAGE: PROJECT["project"]["dependencies"],
    DEPLOY / "container/build-requirements.txt": PROJECT["build-system"]["requires"],
    DEVELOPMENT: [
        *PROJECT["project"]["dependencies"],
        *(one for name in ("mcp", "traces") for one in PROJECT["project"]["optional-dependencies"][name]),
        *(one for name in EXTRAS if name != "all" for one in EXTRAS[name]),
        *(one for group in WORKSPACE["dependency-groups"].values() for one in group),
    ],
}
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
each_lock = pytest.mark.parametrize("lock", ASKED, ids=lambda lock: lock.name)


def pins_of(lock, python):
    """Those that apply on Linux with this Python."""
    settings = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    markers = [(pin, pin.requirement.marker) for pin in pins(lock)]
    return [pin for pin, marker in markers if marker is None or marker.evaluate(settings)]


@pytest.mark.parametrize("python", PYTHONS)
@each_lock
def test_every_dependency_is_pinned_once_within_its_bounds(lock, python):
    found = pins_of(lock, python)
    versions = {pin.name: pin.version for pin in found}
    assert len(versions) == len(found)
    for text in ASKED[lock]:
        asked = Requirement(text)
        assert asked.specifier.contains(versions[canonicalize_name(asked.name)]), f"{text}: run `make lock`"


@each_lock
def test_every_pin_has_hashes(lock):
    for pin in pins(lock):
        assert pin.hashes, pin.name
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", each) for each in pin.hashes), pin.name


@pytest.mark.parametrize(
    "line",
    [
        "numpy>=2 --hash=sha256:00",
        "numpy",
        "--index-url https://packages.example.com/simple",
        "numpy @ https://packages.example.com/numpy.whl --hash=sha256:00",
        "-r other.txt",
        "./numpy.whl",
    ],
)
def test_incomplete_locks_are_refused(tmp_path, line):
    lock = tmp_path / "requirements.txt"
    lock.write_text(f"click==8.2.0 \\\n    --hash=sha256:00\n{line}\n")
    with pytest.raises(ValueError, match="not a pinned version"):
        pins(lock)
