"""Changes of claims in the binary encoding; the embedded API server's decoder, and an API server, are the oracles."""

import pytest

from stowplan.net.client.binary_claims import UnknownEncodingError, can_change, changed
from stowplan_cluster.apiserver.schema.parse import built_in
from stowplan_cluster.apiserver.schema.protobuf import decode
from support.api.binary_claim import SERVED

PARAMETERS = b'{"sharing": "<time>"}'
OTHER = {"resource": "podgroups", "apiGroup": "scheduling.k8s.io", "name": "g" * 200, "uid": "v"}


def read(document):
    return decode(document, built_in())


def without(claim, *path):
    *above, last = path
    for name in above:
        claim = claim[name]
    return claim.pop(last, None)


@pytest.mark.parametrize(
    ("patch", "path", "expected"),
    [
        pytest.param({"metadata": {"finalizers": ["a", "b" * 300]}}, ("metadata", "finalizers"), ["a", "b" * 300]),
        pytest.param({"metadata": {"finalizers": []}}, ("metadata", "finalizers"), None),
        pytest.param({"metadata": {"resourceVersion": "9"}}, ("metadata", "resourceVersion"), "9"),
        pytest.param({"metadata": {"uid": "other"}}, ("metadata", "uid"), "other"),
        pytest.param({"status": {"reservedFor": [OTHER]}}, ("status", "reservedFor"), [OTHER]),
        pytest.param({"status": {"reservedFor": None}}, ("status", "reservedFor"), None),
        pytest.param({}, ("metadata", "name"), "c"),
    ],
    ids=["longer", "none left", "version", "uid", "another consumer", "no consumer", "nothing"],
)
def test_a_change(patch, path, expected):
    """Nothing else changes, and the parameters are the author's bytes."""
    assert can_change(patch, "merge")
    document = changed(SERVED, patch)
    assert document.count(PARAMETERS) == SERVED.count(PARAMETERS) == 1
    before, after = read(SERVED), read(document)
    without(before, *path)
    assert without(after, *path) == expected
    assert after == before


def test_added_reservations_keep_the_others():
    before = read(SERVED)["status"]["reservedFor"]
    document = changed(SERVED, {"status": {"reservedFor": [OTHER]}}, adds=True)
    assert read(document)["status"]["reservedFor"] == [*before, OTHER]
    assert changed(document, {"status": {"reservedFor": [OTHER]}}, adds=True) == document


@pytest.mark.parametrize(
    "patch",
    [
        {"status": {"allocation": {}}},
        {"status": {"reservedFor": [], "devices": None}},
        {"status": {"reservedFor": [{"$patch": "delete", "uid": "v"}]}},
        {"metadata": {"labels": {}}},
        {"spec": {}},
    ],
    ids=repr,
)
def test_other_changes_are_not_supported(patch):
    assert not can_change(patch, "merge")
    assert not can_change(patch, "strategic")


def test_a_document_that_is_cut_off():
    # What follows the claim may be missing: two empty fields.
    for end in range(len(SERVED) - len(b"\x1a\x00\x22\x00")):
        with pytest.raises(UnknownEncodingError):
            changed(SERVED[:end], {"metadata": {"finalizers": ["x"]}})


def test_a_group():
    with pytest.raises(UnknownEncodingError, match="wire type 3"):
        changed(b"k8s\x00\x0b\x0c", {})
