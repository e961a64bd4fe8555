"""A user's plugin derived from an in-tree one accepts that plugin's arguments under its own name, by declaration."""

from dataclasses import dataclass

import pytest

from stowplan.ask.offline import Cluster
from stowplan.kube.api.types import Node, PersistentVolumeClaim, Service
from stowplan.kube.config import ConfigError, load_config
from stowplan.scheduler.framework.runtime.registry import declared_by
from stowplan.scheduler.in_tree.node_resources_fit.declaration import NodeResourcesFitArgs
from stowplan.scheduler.in_tree.node_resources_fit.plugin import NodeResourcesFit
from stowplan.scheduler.in_tree.pod_topology_spread.plugin import PodTopologySpread
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.scheduler.in_tree.volume_zone.plugin import VolumeZone
from stowplan.testing import a_node, a_pod

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class Fit(NodeResourcesFit):
    name = "Fit"


@dataclass
class OwnArgs:
    percent: int = 5


class OwnFit(NodeResourcesFit):
    name = "Fit"
    args_type = OwnArgs

    def __init__(self, args, handle):
        super().__init__(NodeResourcesFitArgs(), handle)
        self.args = args


def document(args):
    plugins = {"multiPoint": {"enabled": [{"name": "Fit"}], "disabled": [{"name": "NodeResourcesFit"}]}}
    return {**HEADER, "profiles": [{"plugins": plugins, "pluginConfig": [{"name": "Fit", "args": args}]}]}


def loaded(args, plugin=Fit):
    registry = in_tree_registry()
    registry.register(plugin)
    config = load_config(document(args), plugins=registry.declarations)
    return config, config.profiles[0].plugin_args("Fit"), registry


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param({"ignoredResources": ["example.com/a"]}, ("example.com/a",), id="given"),
        pytest.param(
            {"kind": "NodeResourcesFitArgs", "apiVersion": HEADER["apiVersion"], "ignoredResources": ["example.com/a"]},
            ("example.com/a",),
            id="with their kind",
        ),
        pytest.param({}, (), id="defaults"),
        pytest.param(None, (), id="none"),
    ],
)
def test_arguments_of_the_in_tree_plugin_are_taken(args, expected):
    config, found, registry = loaded(args)
    assert isinstance(found, NodeResourcesFitArgs)
    assert tuple(found.ignored_resources) == expected
    assert load_config(config.to_dict(), plugins=registry.declarations) == config


@pytest.mark.parametrize(
    ("args", "text"),
    [
        pytest.param({"ignored": []}, 'strict decoding error: unknown field "ignored"', id="unknown field"),
        pytest.param(
            {"kind": "NodeAffinityArgs"},
            "args for plugin Fit were not of type NodeResourcesFitArgs.kubescheduler.config.k8s.io, got NodeAff",
            id="another kind",
        ),
        pytest.param(
            {"ignoredResources": ["a b"]},
            'plugin "Fit": ignoredResources[0]: Invalid value: "a b"',
            id="invalid",
        ),
    ],
)
def test_wrong_arguments_are_refused_as_for_the_in_tree_plugin(args, text):
    with pytest.raises(ConfigError) as caught:
        loaded(args)
    assert text in str(caught.value)


def test_the_plugin_works_with_them():
    cluster = Cluster(
        [a_node("n").allocatable(cpu="1").obj()], document({"ignoredResources": ["example.com/a"]}), plugins=[Fit]
    )
    pod = a_pod("p").requests({"example.com/a": "1"}).obj()
    assert [decision.node_name for decision in cluster.schedule([pod])] == ["n"]


def test_its_own_args_type_takes_precedence():
    assert loaded({"percent": 7}, OwnFit)[1] == OwnArgs(7)
    assert declared_by(OwnFit).args_type is OwnArgs


def test_kinds_of_the_in_tree_plugin_are_inherited():
    class Zone(VolumeZone):
        name = "Zone"
        needs_kinds = (Service,)

    class Spread(PodTopologySpread):
        name = "Spread"
        reads_kinds = (Node,)

    class OwnSpread(Spread):
        args_type = OwnArgs

    declared = declared_by(Zone)
    assert PersistentVolumeClaim in declared.needs
    assert declared.needs[-1] is Service
    spread = declared_by(Spread)
    by_default = spread.kinds_read(spread.args_type())
    assert Service in by_default
    assert by_default[-1] is Node
    assert declared_by(OwnSpread).kinds_read(OwnArgs()) == by_default


def test_in_tree_classes_have_the_declaration_of_their_folder():
    registry = in_tree_registry()
    assert all(declared_by(plugin) is registry.declarations[plugin.name] for plugin in registry)
