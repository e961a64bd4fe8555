"""The mutants of a small package: which its tests kill, before and after a change of both."""

import json
import os
import subprocess
import sys

import pytest

from support.paths import ROOT

TOOL = ROOT / "benchmarks" / "mutants"

FITTING = '''
import functools

@functools.cache
def fits(asked, free):
    """The reference's rule."""
    return asked <= free

class Room:
    @property
    def spare(self):
        return 3

def emptied(items):
    while items:
        items.pop()
    return items

def unused():
    return 1
'''
# `emptied` and the class have other names and are edited elsewhere, and `unused` is cut.
FITTING_LATER = (
    FITTING.replace("return items", "return list(items)")
    .replace("emptied", "drained")
    .replace("Room", "Space")
    .replace("return 3", "assert self\n        return 3")
    .replace("def unused():\n    return 1", "emptied, Room = drained, Space")
)
TESTS = """
from tiny.{module} import Room, emptied, fits

def test_full_nodes_fit():
    assert fits(2, 2) is True

def test_room_is_left():
    assert Room().spare {condition}

def test_emptied():
    assert emptied([1]) == []
"""


@pytest.fixture
def mutants(tmp_path):
    def run(*args):
        tool = subprocess.run(
            [sys.executable, TOOL, *args],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert tool.returncode == 0, tool.stderr[-2000:]
        return tool.stdout

    return run


def _write(folder, module, source, tests):
    for name in ("tiny", "tests"):
        (folder / name).mkdir(exist_ok=True)
        for old in (folder / name).iterdir():
            old.unlink()
    (folder / "tiny" / "__init__.py").touch()
    (folder / "tiny" / f"{module}.py").write_text(source, encoding="utf-8")
    (folder / "tests" / "test_tiny.py").write_text(tests, encoding="utf-8")


def _outcomes(file):
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    return {(line["place"].partition(":")[2], line.get("now")): line["outcome"] for line in lines}


@pytest.mark.slow
def test_mutants_are_killed_and_found_again_elsewhere(tmp_path, mutants):
    _write(tmp_path, "fitting", FITTING, TESTS.format(module="fitting", condition="> 0"))
    (tmp_path / "sample.jsonl").write_text(mutants("draw", "tiny=20"), encoding="utf-8")
    run = ("--sample", "sample.jsonl", "--packages", "tiny", "--pytest=tests")

    mutants("run", "before.jsonl", *run)
    before = _outcomes(tmp_path / "before.jsonl")
    assert before == {
        ("fits", "return asked < free"): "killed",
        ("fits", "return None"): "killed",
        ("Room.spare", "return 4"): "survived",
        ("Room.spare", "return 2"): "survived",
        ("Room.spare", "return None"): "killed",
        ("emptied", "pass"): "time",
        ("emptied", "return None"): "killed",
        ("unused", "return 2"): "not run",
        ("unused", "return 0"): "not run",
        ("unused", "return None"): "not run",
    }

    # The rest of an interrupted run, which a smaller budget leaves without tests; a greater one tries them again.
    whole = (tmp_path / "before.jsonl").read_text(encoding="utf-8")
    (tmp_path / "before.jsonl").write_text("".join(whole.splitlines(keepends=True)[:5]), encoding="utf-8")
    mutants("run", "before.jsonl", "--budget=0", *run)
    assert {*list(_outcomes(tmp_path / "before.jsonl").values())[4:]} == {"survived", "not run"}
    mutants("run", "before.jsonl", *run)
    assert _outcomes(tmp_path / "before.jsonl") == before

    _write(tmp_path, "moved", FITTING_LATER, TESTS.format(module="moved", condition="!= 3 or True"))
    mutants("run", "after.jsonl", *run)
    after = _outcomes(tmp_path / "after.jsonl")
    assert after["emptied", "pass"] == "time"
    assert after["unused", None] == "cut"
    report = mutants("report", "before.jsonl", "after.jsonl")
    assert "| tiny | 6 | 4 | 1 | 0 | 3 | 1 | 0 |" in report
    assert report.count("was killed by") == 1
    assert (
        "tiny.moved:Space.spare was killed by tests/test_tiny.py::test_room_is_left\n- return 3\n+ return None"
        in report
    )
