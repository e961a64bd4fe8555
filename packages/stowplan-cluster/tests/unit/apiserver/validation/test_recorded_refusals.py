"""Manifests of all kinds are refused with the recorded messages of a kube-apiserver."""

import json

import pytest

from support.api.manifest_changes import GOOD
from support.api.wrong_manifests import RECORDED, manifests

RECORDED_MESSAGES = json.loads(RECORDED.read_text())
MANIFESTS = dict(manifests())


def test_each_manifest_is_recorded():
    assert list(MANIFESTS) == list(RECORDED_MESSAGES)


@pytest.mark.parametrize("title", MANIFESTS)
def test_refusals(server, title):
    assert sorted(server.refusals(MANIFESTS[title])) == RECORDED_MESSAGES[title]


TAINT = {"key": "gpu", "value": "x", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("kind", "changes", "says"),
    [
        (
            "node",
            ("spec.taints", [TAINT, TAINT | {"value": "y"}]),
            'metadata.taints[1]: Duplicate value: {"key":"gpu","value":"y","effect":"NoSchedule"}: '
            "taints must be unique by key and effect pair",
        ),
        (
            "budget",
            ("spec.maxUnavailable", 1),
            'spec: Invalid value: {"minAvailable":1,"selector":{"matchLabels":{"a":"b"}},"maxUnavailable":1}: '
            "minAvailable and maxUnavailable cannot be both set",
        ),
        (
            "pod",
            ("spec.resourceClaims", [{"name": "a"}]),
            'spec.resourceClaims[0]: Invalid value: {"name":"a"}: '
            "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
        ),
        (
            "pod",
            ("spec.preemptionPolicy", "X"),
            'spec.preemptionPolicy: Unsupported value: "X": supported values: "PreemptLowerPriority", "Never"',
        ),
        (
            "group",
            ("spec.priority", 1_000_000_001),
            "spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000",
        ),
    ],
)
def test_refusals_that_are_not_those_of_a_server(server, kind, changes, says):
    """A kube-apiserver prints values as Go's structs, and its admission refuses the last two."""
    assert server.refusals(MANIFESTS[kind], *changes) == [says]


@pytest.mark.parametrize("title", GOOD)
def test_valid_objects_can_be_updated(server, title):
    assert server.update_refusals(MANIFESTS[title], "metadata.annotations", {"a": "b"}) == []


@pytest.mark.parametrize(
    ("kind", "changes", "says"),
    [
        (
            "quota",
            ("spec.scopes", ["Terminating"]),
            ['spec.scopes: Invalid value: ["Terminating"]: field is immutable'],
        ),
        (
            "cron job",
            ("spec.schedule", "x"),
            ['spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]'],
        ),
        ("autoscaler", ("spec.maxReplicas", 9), []),
    ],
)
def test_updates(server, kind, changes, says):
    assert server.update_refusals(MANIFESTS[kind], *changes) == says
