"""API servers to test against: the embedded one as its own process, and a real one where KUBEBUILDER_ASSETS names it.

A test that takes `api_server` runs against each of them. What only a living cluster does (pods that start,
controllers) is asked of the embedded one: such tests take `cluster`.
"""

import pytest

from support.processes.servers import SERVER_KINDS, assets, embedded_server, real_server

KINDS = SERVER_KINDS


@pytest.fixture(scope="session")
def embedded(tmp_path_factory):
    """A bare API: no nodes, no controllers, as a kube-apiserver is."""
    with embedded_server(tmp_path_factory.mktemp("embedded"), "--controllers=") as server:
        yield server


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A cluster that lives, with six nodes."""
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
    """A namespace of the test's own."""
    return api_server.new_namespace(request.node.name)
