"""The controllers leave behind what kube-controller-manager does: scripts that were recorded of it."""

import json

import pytest

from support.live.controller_cluster import LiveCluster
from support.live.controller_scripts import SCRIPTS, moments
from support.live.real_controllers import RECORDED

REFERENCE = json.loads(RECORDED.read_text())


def test_each_script_is_recorded():
    assert list(REFERENCE) == list(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_as_recorded(name):
    found = moments(SCRIPTS[name], LiveCluster())
    assert list(found) == list(REFERENCE[name])
    for moment, objects in REFERENCE[name].items():
        assert found[moment] == objects, moment
