import pytest

from support.live.controller_cluster import LiveCluster


@pytest.fixture
def cluster():
    return LiveCluster()
