import pytest

from live_cluster import LiveCluster


@pytest.fixture
def cluster():
    return LiveCluster()
