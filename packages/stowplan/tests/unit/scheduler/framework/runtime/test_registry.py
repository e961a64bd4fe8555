"""Plugin names and their classes: refusals and messages."""

import re
import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from stowplan.drivers.hang_guard.guarded_plugins import registry_with_installed
from stowplan.kube.config.declaration import loaded
from stowplan.plugins import FilterPlugin
from stowplan.scheduler.framework.runtime import registry as registry_module
from stowplan.scheduler.framework.runtime.registry import PluginLoadError, Registry, load_plugin
from stowplan.scheduler.in_tree.registry import in_tree_registry
from support.plugins.fake_plugins import fake

P, Q = fake("P", filter=None), fake("Q", pre_filter=None, score=1)


def points_of(registry):
    return {name: declaration.points for name, declaration in registry.declarations.items()}


def test_registering():
    registry = Registry((P,))
    registry.register(Q)
    assert list(registry) == [P, Q]
    assert registry.get("P") is P
    assert registry.get("R") is None
    assert points_of(registry) == {"P": {"filter"}, "Q": {"preFilter", "score"}}


@pytest.mark.parametrize(
    ("act", "text"),
    [
        pytest.param(lambda r: r.register(P), "a plugin named P already exists", id="twice"),
        pytest.param(lambda r: r.merge(Registry((Q, P))), "a plugin named P already exists", id="merge"),
        pytest.param(lambda r: r.unregister("Q"), "no plugin named Q exists", id="unregister"),
    ],
)
def test_names_are_unique(act, text):
    with pytest.raises(PluginLoadError, match=f"^{text}$"):
        act(Registry((P,)))


def test_unregistered_names_are_free():
    registry = Registry((P,))
    registry.unregister("P")
    registry.register(fake("P", score=1))
    assert points_of(registry) == {"P": {"score"}}


def test_in_tree_plugins_have_the_references_names():
    """Besides those that behave like plugins of older releases, whose names say so."""
    names = {plugin.name for plugin in in_tree_registry() if not plugin.name.startswith("Legacy")}
    assert names == {
        *("DefaultBinder", "DefaultPreemption", "DeferredPodScheduling", "DynamicResources", "GangScheduling"),
        *("ImageLocality", "InterPodAffinity", "NodeAffinity", "NodeDeclaredFeatures"),
        *("NodeName", "NodePorts", "NodeResourcesBalancedAllocation", "NodeResourcesFit"),
        *("NodeUnschedulable", "NodeVolumeLimits", "PodGroupPodsCount", "PodTopologySpread"),
        *("PrioritySort", "SchedulingGates", "TaintToleration", "TopologyPlacementGenerator"),
        *("VolumeBinding", "VolumeRestrictions", "VolumeZone"),
    }


# -- module:Class ------------------------------------------------------------------------------------------------------


class Nameless(FilterPlugin):
    def filter(self, state, pod, nodes):
        return None


class Unfinished(FilterPlugin):
    name = "Unfinished"


@pytest.fixture
def module(monkeypatch):
    made = ModuleType("some_plugins")
    made.Good, made.Nameless, made.Unfinished = P, Nameless, Unfinished
    made.Numbered = type("Numbered", (P,), {"name": 5})
    made.function, made.text = (lambda: None), "text"
    made.Other = type("Other", (), {"name": "Other"})
    monkeypatch.setitem(sys.modules, "some_plugins", made)
    return made


@pytest.mark.usefixtures("module")
def test_a_class_is_found():
    assert load_plugin("some_plugins:Good") is P


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("some_plugins", r'plugin "some_plugins": want module:Class'),
        (":Good", r'plugin ":Good": want module:Class'),
        ("some_plugins:", r'plugin "some_plugins:": want module:Class'),
        ("some_plugins:Missing", r'plugin "some_plugins:Missing": module some_plugins has no Missing'),
        (
            "not_there:X",
            r'plugin "not_there:X": cannot import not_there: ModuleNotFoundError: No module named \'not_there\'',
        ),
        ("some_plugins:Other", r'plugin "some_plugins:Other": .* does not derive from stowplan.plugins.Plugin'),
        ("some_plugins:function", r'plugin "some_plugins:function": .* does not derive from stowplan.plugins.Plugin'),
        ("some_plugins:text", r'plugin "some_plugins:text": .* does not derive from stowplan.plugins.Plugin'),
        ("some_plugins:Nameless", r'plugin "some_plugins:Nameless": class Nameless has no name'),
        ("some_plugins:Unfinished", r'plugin "some_plugins:Unfinished": class Unfinished does not define filter'),
        ("some_plugins:Numbered", r'plugin "some_plugins:Numbered": the name of class Numbered is 5, not a string'),
    ],
)
def test_invalid_plugins(path, text):
    with pytest.raises(PluginLoadError, match=f"^{text}$"):
        load_plugin(path)


@pytest.mark.parametrize(
    ("attribute", "value", "what"),
    [
        ("needs_kinds", ("Pod",), "kinds, got ('Pod',)"),
        ("reads_kinds", 5, "kinds, got 5"),
        ("reads_annotations", "team", "strings, got 'team'"),
    ],
)
def test_attributes_of_the_wrong_type(attribute, value, what):
    wrong = type("Wrong", (P,), {"name": "Wrong", attribute: value})
    with pytest.raises(PluginLoadError, match=f"^{re.escape(f'{attribute} of plugin Wrong: want a tuple of {what}')}$"):
        Registry([wrong])


def test_a_module_that_fails_to_import(monkeypatch, tmp_path):
    (tmp_path / "bad_plugins.py").write_text("raise RuntimeError('not today')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        PluginLoadError, match=r"cannot import bad_plugins: RuntimeError: not today \(bad_plugins\.py:1 in <module>\)"
    ):
        load_plugin("bad_plugins:X")


# -- entry points ------------------------------------------------------------------------------------------------------


def offer(monkeypatch, **points):
    """Entry points by name, into the module above (or a missing one)."""

    def entry_points(*, group):
        assert group == "stowplan.plugins"
        return tuple(EntryPoint(name, value, group) for name, value in points.items())

    monkeypatch.setattr(registry_module, "entry_points", entry_points)


def registry_of(monkeypatch, **points):
    offer(monkeypatch, **points)
    return registry_with_installed([], None)


@pytest.mark.usefixtures("module")
def test_installed_plugins_are_imported_when_asked_for(monkeypatch):
    registry = registry_of(monkeypatch, P="some_plugins:Good", Broken="not_there:X")
    assert {"P", "Broken"} <= set(registry.declarations)
    assert "P" not in {one.name for one in loaded(registry.declarations)}
    assert registry.declarations["P"].points == {"filter"}
    assert registry.get("P") is P


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("some_plugins:Other", "does not derive from stowplan.plugins.Plugin$"),
        ("some_plugins:Unfinished", "class Unfinished does not define filter$"),
        ("some_plugins:Good", "it is named P, and so must be its entry point$"),
        ("not_there:X", "cannot load it: ModuleNotFoundError: No module named 'not_there'$"),
    ],
)
def test_invalid_entry_points_are_named_whenever_they_are_asked_for(monkeypatch, value, text):
    registry = registry_of(monkeypatch, P="some_plugins:Good", bad=value)
    for _ in range(2):
        with pytest.raises(PluginLoadError, match=f'^plugin "entry point bad = {value}": .*{text}'):
            registry.get("bad")


@pytest.mark.usefixtures("module")
def test_an_installed_plugin_may_be_named_as_well_and_another_of_its_name_may_not(monkeypatch):
    offer(monkeypatch, P="some_plugins:Good")
    assert registry_with_installed([P], None).get("P") is P
    with pytest.raises(PluginLoadError, match=r"^a plugin named P already exists$"):
        registry_with_installed([type("Another", (P,), {"name": "P"})], None)


def test_nothing_installed(monkeypatch):
    assert set(registry_of(monkeypatch).declarations) == set(in_tree_registry().declarations)
