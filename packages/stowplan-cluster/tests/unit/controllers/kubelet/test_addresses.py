import pytest

from stowplan_cluster.controllers.kubelet.addresses import AddressPool, is_network


def test_addresses_are_unique_and_wrap_around():
    taken = {"10.0.0.2"}
    pool = AddressPool("10.0.0.0/29", taken)
    first = [pool.take() for _ in range(5)]
    assert first == [f"10.0.0.{number}" for number in (1, 3, 4, 5, 6)]
    assert pool.take() is None
    taken.discard("10.0.0.4")
    assert (pool.take(), pool.take()) == ("10.0.0.4", None)


def test_pools_share_used_addresses():
    taken = set()
    wide, narrow = AddressPool("10.0.0.0/24", taken), AddressPool("10.0.0.0/30", taken)
    assert (wide.take(), narrow.take(), wide.take()) == ("10.0.0.1", "10.0.0.2", "10.0.0.3")


def test_version_6():
    assert AddressPool("fd00::/64", set()).take() == "fd00::1"


@pytest.mark.parametrize("network", ["10.0.0.1/32", "10.0.0.0/31"])
def test_a_network_without_room(network):
    assert AddressPool(network, set()).take() is None


@pytest.mark.parametrize(("text", "expected"), [("10.0.0.0/8", True), ("fd00::/8", True), ("", False), ("x/8", False)])
def test_networks(text, expected):
    assert is_network(text) == expected
