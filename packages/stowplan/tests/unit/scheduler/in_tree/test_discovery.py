"""In-tree plugins are discovered by their folders; no other module lists them."""

import sys
from pathlib import Path

import pytest

import stowplan
from stowplan.kube.api.types import ResourceSlice
from stowplan.kube.config import ConfigError, PluginDeclaration
from stowplan.kube.config.features import with_chosen
from stowplan.scheduler import in_tree
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.watched_kind import WatchedKind
from stowplan.scheduler.engine.watched_kinds import watched_kinds
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.registry import PluginLoadError, Registry
from stowplan.scheduler.in_tree import discovery
from stowplan.scheduler.in_tree.discovery import DeclarationError, declarations, folders
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.testing import a_node, a_pod
from support.plugins.fake_plugins import fake

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}

DECLARATION = """
from typing import ClassVar

from stowplan.kube.api.types import ResourceSlice
from stowplan.kube.config.declaration import Args, EnabledByDefault, PluginDeclaration
from stowplan.kube.config.config_errors import invalid
from stowplan.kube.config.schema import INT32, Pointer, Struct, kind


class QuietNodesArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind("QuietNodesArgs", maxPods=Pointer(INT32))

    max_pods: int = 0

    def validate(self, path, features):
        if self.max_pods < 0:
            yield invalid(f"{path}.maxPods", self.max_pods, "must not be negative")


DECLARATION = PluginDeclaration(
    name="QuietNodes",
    points=frozenset({"filter"}),
    default=EnabledByDefault(order=45, gate="GenericWorkload"),
    args_type=QuietNodesArgs,
    needs=(ResourceSlice,),
)
"""
PLUGIN = """
from stowplan.scheduler.framework.interface import FilterPlugin
from stowplan.scheduler.framework.diagnosis import Rejections
from stowplan.scheduler.framework.status import Reason
from stowplan.scheduler.in_tree.quiet_nodes.declaration import DECLARATION

BUSY = Reason("Busy", "node(s) were busy")


class QuietNodes(FilterPlugin):
    name = "QuietNodes"
    declaration = DECLARATION

    def filter(self, state, pod, nodes):
        busy = nodes.pod_count() > self.args.max_pods
        return Rejections.where(busy, BUSY) if busy.any() else None
"""


@pytest.fixture
def dropped(tmp_path, monkeypatch):
    """Create a folder in the in-tree package; it is removed after the test."""
    monkeypatch.setattr(in_tree, "__path__", [*in_tree.__path__, str(tmp_path)])

    def drop(folder, **modules):
        (tmp_path / folder).mkdir()
        for name, text in {"__init__": "", **modules}.items():
            (tmp_path / folder / f"{name}.py").write_text(text)
        forget()

    def forget():
        declarations.cache_clear()
        folders.cache_clear()

    before = set(sys.modules)
    yield drop
    forget()
    for module in set(sys.modules) - before:
        if module.startswith(f"{in_tree.__name__}."):
            del sys.modules[module]
    for name in ("quiet_nodes", "other"):
        vars(in_tree).pop(name, None)


def quiet_nodes(drop):
    drop("quiet_nodes", declaration=DECLARATION, plugin=PLUGIN)
    return {"GenericWorkload": True}


def test_a_folder_is_all_that_a_plugin_needs(dropped):
    gates = quiet_nodes(dropped)
    config = stowplan.load_config(feature_gates=gates)
    names = [ref.name for ref in config.profiles[0].points["filter"]]
    assert names[names.index("QuietNodes") - 1 :][:3] == ["NodeName", "QuietNodes", "TaintToleration"]
    assert config.profiles[0].plugin_args("QuietNodes").max_pods == 0
    written = config.to_dict()["profiles"][0]["pluginConfig"]
    args = next(entry["args"] for entry in written if entry["name"] == "QuietNodes")
    assert args == {"apiVersion": HEADER["apiVersion"], "kind": "QuietNodesArgs", "maxPods": 0}

    registry = in_tree_registry()
    assert registry.get("QuietNodes").name == "QuietNodes"
    handle = Handle(cluster=ClusterState(), profile_name="x", features=with_chosen(gates))
    watched = watched_kinds([Framework(config.profiles[0], registry, handle)], report=pytest.fail)
    assert WatchedKind(ResourceSlice, frozenset({"DynamicResources", "QuietNodes"})) in watched


def test_it_runs_where_a_profile_enables_it(dropped):
    quiet_nodes(dropped)
    profile = {"plugins": {"filter": {"enabled": [{"name": "QuietNodes"}]}}}
    assert "QuietNodes" not in [ref.name for ref in stowplan.load_config().profiles[0].points["filter"]], "gate is off"
    cluster = stowplan.Cluster(
        [a_node("n1").obj(), a_node("n2").obj(), a_pod("there").on("n1").obj()], {**HEADER, "profiles": [profile]}
    )
    verdict = cluster.explain(a_pod("web-0").obj()).to_dict()
    assert verdict["feasible"] == ["n2"]
    assert verdict["rejected"]["n1"]["plugin"] == "QuietNodes"


def test_its_arguments_are_decoded_and_validated(dropped):
    quiet_nodes(dropped)

    def load(args):
        profile = {"pluginConfig": [{"name": "QuietNodes", "args": args}]}
        return stowplan.load_config({**HEADER, "profiles": [profile]})

    with pytest.raises(ConfigError, match=r"^profiles\[0\].pluginConfig\[0\].args.maxPods: Invalid value: -1: "):
        load({"maxPods": -1})
    with pytest.raises(ConfigError, match=r'strict decoding error: unknown field "minPods"'):
        load({"minPods": 1})
    with pytest.raises(ConfigError, match=r"cannot unmarshal string into Go struct field QuietNodesArgs.maxPods"):
        load({"maxPods": "1"})


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        pytest.param(("order=45", "order=50"), "both declare 50", id="a place"),
        pytest.param(('"QuietNodes"', '"NodeName"'), "both declare 'NodeName'", id="a name"),
    ],
)
def test_duplicates_are_refused(dropped, changed, text):
    dropped("other", declaration=DECLARATION.replace(*changed))
    with pytest.raises(DeclarationError, match=text):
        discovery.discovered(in_tree)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        pytest.param(
            {"name": "P", "points": {"score"}}, "P either declares or implements, .*: filter, score", id="points"
        ),
        pytest.param({"name": "Q", "points": {"filter"}}, "is named P, and declared as Q", id="name"),
    ],
)
def test_a_declaration_that_differs_from_the_class_is_refused(declared, text):
    declaration = PluginDeclaration(name=declared["name"], points=frozenset(declared["points"]))
    with pytest.raises(PluginLoadError, match=text):
        Registry().register(fake("P", filter=None), declaration)


def test_every_folder_but_the_shared_one_is_a_plugin():
    found = {name.rpartition(".")[2] for name in folders().values()}
    assert len(found) == 30
    packages = {file.parent.name for file in Path(in_tree.__file__).parent.glob("*/__init__.py")}
    assert packages - found == {"common"}


def test_no_module_elsewhere_lists_plugins():
    """In-tree names that the registry, the configuration and the watched kinds would have to list."""
    root = Path(stowplan.__file__).parent
    for room in ("config", "framework", "engine"):
        for file in (root / room).rglob("*.py"):
            if file.parent.name == "older":
                # The default profiles of older releases are fixed.
                continue
            text = file.read_text()
            named = {name for name in folders() if f'"{name}"' in text}
            # These are also names of feature gates.
            assert named <= {"GangScheduling", "NodeDeclaredFeatures"}, file
