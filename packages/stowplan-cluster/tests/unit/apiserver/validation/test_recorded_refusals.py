"""Cron jobs, autoscalers and quotas are refused with the recorded messages of a kube-apiserver."""

import json

import pytest

from support.api.wrong_manifests import RECORDED, manifests

RECORDED_MESSAGES = json.loads(RECORDED.read_text())
MANIFESTS = dict(manifests())


def test_each_manifest_is_recorded():
    assert list(MANIFESTS) == list(RECORDED_MESSAGES)


@pytest.mark.parametrize("title", MANIFESTS)
def test_refusals(server, title):
    assert sorted(server.refusals(MANIFESTS[title])) == RECORDED_MESSAGES[title]


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
