"""A cluster with thirty nodes, and replicas of the scheduler on it."""

from contextlib import ExitStack

import pytest

from support.chaos.replicas import Replicas
from support.processes.servers import embedded_server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with embedded_server(tmp_path_factory.mktemp("server"), "--nodes=30", "--controllers=") as server:
        yield server


@pytest.fixture
def replicas(server, tmp_path):
    with ExitStack() as stack:
        made = Replicas(server, tmp_path, stack)
        yield made
        made.cluster.delete_all_pods()
