"""Inert kinds are refused with the recorded messages of a kube-apiserver."""

import json

import pytest

from support.api.wrong_inert_manifests import RECORDED, manifests

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
            "ingress class",
            ("spec.controller", "example.com/d"),
            ['spec.controller: Invalid value: "example.com/d": field is immutable'],
        ),
        (
            "cron job",
            ("spec.schedule", "x"),
            ['spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]'],
        ),
        ("network policy", ("spec.ingress.0.ports.0.port", 81), []),
        ("autoscaler", ("spec.maxReplicas", 9), []),
        ("ingress", ("spec.rules.0.host", "c.d"), []),
        ("limit range", ("spec.limits.0.max.cpu", "3"), []),
    ],
)
def test_updates(server, kind, changes, says):
    assert server.update_refusals(MANIFESTS[kind], *changes) == says


@pytest.mark.parametrize("url", ["https://[::1", "https://a]b", "https://\u2100.b"])
def test_texts_that_are_no_url(server, url):
    (said,) = server.refusals(MANIFESTS["webhooks"], "webhooks.0.clientConfig", {"url": url})
    assert said.startswith("webhooks[0].clientConfig.url: Required value: url must be a valid URL: ")


def test_an_existing_invalid_block_may_stay(server):
    """An ambiguous one, which older servers accepted."""
    policy = MANIFESTS["network policy"]
    path = "spec.ingress.0.from.0.ipBlock.cidr"
    old = {**policy, "spec": {**policy["spec"], "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.1/8"}}]}]}}
    new = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert server.update(new, old) == []
    assert server.refusals(policy, path, "10.0.0.1/8") != []
