"""Fingerprints of sets of pods."""

import pytest

from stowplan_scheduler_plugins.pod_fingerprints import fingerprint, xxh64


@pytest.mark.parametrize(
    ("data", "seed", "hashed"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
    ],
)
def test_known_hashes(data, seed, hashed):
    assert xxh64(data, seed) == hashed


def test_the_order_of_pods_does_not_matter():
    pods = [("shop", "web-0"), ("shop", "web-1"), ("db", "web-0")]
    assert fingerprint(pods) == fingerprint(reversed(pods))
    assert fingerprint(pods) != fingerprint(pods[:2])


def test_no_pods_have_a_fingerprint():
    assert fingerprint([]) == "pfp0v001ef46db3751d8e999"
