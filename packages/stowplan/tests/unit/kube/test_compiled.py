"""Which form runs: the choice, and what depends on it."""

import sys
from types import SimpleNamespace

import pytest

from stowplan.kube import compiled
from stowplan.kube.klog import get_logger


class Finder:
    """Stands for the finder of compiled modules."""

    def find_spec(self, name, path=None, target=None):
        return None


@pytest.fixture
def compiled_of(monkeypatch):
    """Has the compiled form of a version installed; None: none."""

    def installed(version):
        found = None if version is None else SimpleNamespace(usable=version.__eq__, Finder=Finder)
        monkeypatch.setitem(sys.modules, "stowplan_c", found)

    monkeypatch.setattr(compiled, "form", "pure")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.delenv("STOWPLAN_PURE", raising=False)
    return installed


@pytest.mark.parametrize(
    ("installed", "pure", "form"),
    [
        pytest.param("1.0", None, "compiled", id="of the same version"),
        pytest.param("1.0", "0", "compiled", id="pure is off"),
        pytest.param("1.0", "1", "pure", id="pure is asked for"),
        pytest.param("0.9", None, "pure", id="of another version"),
        pytest.param(None, None, "pure", id="not installed"),
    ],
)
def test_which_form_runs(compiled_of, monkeypatch, installed, pure, form):
    compiled_of(installed)
    if pure is not None:
        monkeypatch.setenv("STOWPLAN_PURE", pure)
    compiled.choose("1.0")
    assert compiled.form == form
    assert isinstance(sys.meta_path[0], Finder) == (form == "compiled")
    assert compiled.with_form("1.0") == {"compiled": "1.0, compiled", "pure": "1.0"}[form]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        pytest.param([], "1.0, compiled", id="the same"),
        pytest.param(["a", "b"], "1.0, compiled from other sources of 2 modules, which are ignored", id="others"),
    ],
)
def test_a_build_of_other_sources_is_told(compiled_of, monkeypatch, changed, told):
    compiled_of("1.0")
    compiled.choose("1.0")
    monkeypatch.setattr(sys.modules["stowplan_c"], "changed", lambda folder: changed, raising=False)
    assert compiled.with_sources("1.0") == told
    assert compiled.with_form("1.0") == "1.0, compiled"


def test_lines_of_compiled_code_have_its_module(monkeypatch, caplog):
    monkeypatch.setattr(compiled, "form", "compiled")
    get_logger("stowplan.scheduler.queue.places").warning("Full")
    [record] = caplog.records
    assert (record.name, record.filename, record.lineno) == ("stowplan.scheduler.queue.places", "places.py", 0)
