"""Warnings about loaded plugins that no profile enables, and arguments of plugins that do not exist."""

import logging

import pytest

from stowplan.kube.config import PluginDeclaration, load_config
from stowplan.scheduler.in_tree.discovery import declarations

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
PLUGINS = {**declarations(), "Racks": PluginDeclaration(name="Racks", points=frozenset({"filter"}))}
ENABLED = {"multiPoint": {"enabled": [{"name": "Racks"}]}}


@pytest.fixture
def warnings(caplog):
    def loaded(profile, asked_for=()):
        with caplog.at_level(logging.WARNING):
            load_config({**HEADER, "profiles": [profile]}, plugins=PLUGINS, asked_for=asked_for)
        return [record.getMessage() for record in caplog.records]

    return loaded


def test_a_plugin_that_no_profile_enables(warnings):
    assert warnings({}, asked_for=["Racks"]) == [
        "plugin Racks is loaded, but no profile enables it: "
        "add it to plugins.multiPoint.enabled of a profile in the configuration"
    ]


@pytest.mark.parametrize(
    ("profile", "asked_for"),
    [
        pytest.param({"plugins": ENABLED}, ["Racks"], id="enabled"),
        pytest.param({}, [], id="not asked for"),
    ],
)
def test_nothing_to_warn_of(warnings, profile, asked_for):
    assert warnings(profile, asked_for) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("NodeResourceFit", "did you mean NodeResourcesFit?"),
        ("Rack", "did you mean Racks?"),
        ("Elsewhere", "Elsewhere: "),
    ],
)
def test_arguments_of_a_plugin_that_does_not_exist(warnings, name, hint):
    (told,) = warnings({"pluginConfig": [{"name": name, "args": {}}]})
    assert told.startswith("profiles[0].pluginConfig[0]: there is no such plugin, its args have no effect; ")
    assert hint in told
