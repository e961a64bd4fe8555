"""API servers that the integration tests run against.

Tests that take `api_server` run against the embedded server in its own process, and against a real kube-apiserver if
KUBEBUILDER_ASSETS is set. Tests that need controllers and a kubelet take `cluster`, which is always embedded.
"""

import pytest

from support.processes.servers import SERVER_KINDS, assets, embedded_server, real_server

KINDS = SERVER_KINDS


@pytest.fixture(scope="session")
def embedded(tmp_path_factory):
    """An API server without nodes and controllers, like a bare kube-apiserver."""
    with embedded_server(tmp_path_factory.mktemp("embedded"), "--controllers=") as server:
        yield server


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """An embedded cluster with controllers, a kubelet and six nodes."""
    with embedded_server(tmp_path_factory.mktemp("cluster"), "--nodes=6") as server:
        yield server


@pytest.fixture(scope="session")
def real(tmp_path_factory):
    with real_server(tmp_path_factory.mktemp("real"), assets()) as server:
        yield server


@pytest.fixture(scope="session", params=KINDS)
def api_server(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def namespace(api_server, request):
    """A namespace for one test."""
    return api_server.new_namespace(request.node.name)
