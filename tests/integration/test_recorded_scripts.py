"""The scripts of controllers still give on a kube-controller-manager what was recorded of one.

Requires a kube-controller-manager in KUBEBUILDER_ASSETS.
"""

import json

import pytest

from support.live.controller_scripts import SCRIPTS, moments
from support.live.real_controllers import RECORDED, RealCluster, control_plane
from support.processes.servers import assets

MANAGER = assets() and assets() / "kube-controller-manager"
pytestmark = pytest.mark.skipif(
    MANAGER is None or not MANAGER.exists(), reason="KUBEBUILDER_ASSETS has no kube-controller-manager"
)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with control_plane(tmp_path_factory.mktemp("controllers"), assets()) as client:
        yield client


@pytest.mark.parametrize("name", SCRIPTS)
def test_still_as_recorded(client, name):
    cluster = RealCluster(client, name.replace(" ", "-"))
    found = moments(SCRIPTS[name], cluster)
    cluster.clear()
    assert found == json.loads(RECORDED.read_text())[name]
