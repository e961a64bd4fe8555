"""Manifests of all kinds are refused, or stored with defaults and printed, as recorded of a kube-apiserver."""

import copy
import json

import pytest

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.kubernetes_versions import V1_36
from stowplan_cluster.apiserver.registry import Options
from stowplan_cluster.apiserver.tables import table_of
from support.api.embedded import Api
from support.api.manifest_changes import GOOD
from support.api.wrong_manifests import OWNED, PRINTED, RECORDED, STORED, comparable, manifests, owned_by, printed_as
from support.tables import every_case

REFUSALS, OBJECTS, TABLES, OWNERS = (json.loads(file.read_text()) for file in (RECORDED, STORED, PRINTED, OWNED))
#: Null lists and structs, which Go writes and owns, where ours have nothing; and times that are no defaults of ours.
OWN_LESS = ("workload", "CSI node", "volume claim: spec.dataSourceRef", "taint rule")
MANIFESTS = dict(manifests())


@pytest.fixture(scope="module")
def api():
    return Api(version=V1_36)


def test_each_manifest_is_recorded():
    assert list(MANIFESTS) == list(REFUSALS)


def test_manifests_are_refused_or_stored_as_recorded(api):
    with every_case() as case:
        for title, manifest in MANIFESTS.items():
            with case(title):
                refused_or_stored_as_recorded(api, title, copy.deepcopy(manifest))


def refused_or_stored_as_recorded(api, title, manifest):
    resource = api.server.catalogue.of_kind(manifest["apiVersion"], manifest["kind"])
    namespace = "default" if resource.namespaced else ""
    refusals = []
    try:
        stored = api.registry.create(resource, namespace, manifest, options=Options(dry_run=True))
    except ApiError as error:
        causes = error.status.details and error.status.details.causes
        refusals = sorted({f"{cause.field}: {cause.message}" for cause in causes or ()}) or [error.status.message]
    assert refusals == REFUSALS[title]
    if title in OBJECTS:
        made = api.registry.to_dict(resource, stored)
        assert comparable(made) == OBJECTS[title]
        assert title.startswith(OWN_LESS) or owned_by(made) == OWNERS[title]
        assert printed_as(table_of(resource, [made], now=api.clock())) == TABLES[title]


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
    ],
)
def test_refusals_that_are_not_those_of_a_server(server, kind, changes, says):
    """A kube-apiserver prints these values as Go's structs."""
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
