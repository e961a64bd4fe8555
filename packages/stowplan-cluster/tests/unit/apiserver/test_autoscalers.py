"""HorizontalPodAutoscalers as stored: both versions, and their table."""

from copy import deepcopy

import pytest

from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.apiserver.registry import Options
from stowplan_cluster.apiserver.tables import table_of

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
METRICS = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
]
BEHAVIOR = {"scaleDown": {"stabilizationWindowSeconds": 60}}
MEASURED = [
    {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 55, "averageValue": "110m"}}},
    {"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "512Mi"}}},
]


@pytest.fixture
def server():
    return ApiServer()


def resource_of(server, version):
    return server.catalogue.find("autoscaling", version, "horizontalpodautoscalers")


@pytest.fixture
def stored(server):
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 7, "metrics": deepcopy(METRICS), "behavior": deepcopy(BEHAVIOR)}
    obj = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": spec,
    }
    options = Options(field_validation="Strict")
    return server.registry.create(resource_of(server, "v2"), "default", obj, options=options)


def measure(server, stored, metrics):
    obj = stored.to_dict()
    obj["status"] = {"currentReplicas": 3, "desiredReplicas": 3, "currentMetrics": metrics, "conditions": []}
    return server.registry.update(resource_of(server, "v2"), "default", "web", obj, subresource="status")


def targets(server, stored, version):
    resource = resource_of(server, version)
    table = table_of(resource, [server.registry.to_dict(resource, stored)], now=0)
    names = [column["name"] for column in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))["Targets"]


def test_they_round_trip_through_the_old_version(server, stored):
    v1, v2 = resource_of(server, "v1"), resource_of(server, "v2")
    old = server.registry.to_dict(v1, stored)
    assert old["spec"]["targetCPUUtilizationPercentage"] == 80
    assert not {"metrics", "behavior"} & old["spec"].keys()
    old["spec"]["maxReplicas"] = 9
    server.registry.update(v1, "default", "web", old)
    new = server.registry.get(v2, "default", "web").to_dict()
    # Omitted fields have their defaults by now.
    before = stored.to_dict()["spec"]
    assert before["metrics"] == METRICS
    assert before["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 60
    assert new["spec"] == before | {"maxReplicas": 9}
    assert "annotations" not in new["metadata"]


def test_what_is_measured(server, stored):
    assert targets(server, stored, "v2") == "cpu: <unknown>/80%, memory: <unknown>/1Gi"
    measured = measure(server, stored, MEASURED)
    assert targets(server, measured, "v2") == "cpu: 55%/80%, memory: 512Mi/1Gi"
    assert targets(server, measured, "v1").startswith("cpu: 55%/80%")
    old = server.registry.to_dict(resource_of(server, "v1"), measured)
    assert old["status"] == {"currentReplicas": 3, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 55}


def test_a_metric_that_could_not_be_computed_has_no_type(server, stored):
    measured = measure(server, stored, [{"type": ""}, MEASURED[1]])
    assert targets(server, measured, "v2") == "cpu: <unknown>/80%, memory: 512Mi/1Gi"
