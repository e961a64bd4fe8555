"""HorizontalPodAutoscalers on the embedded cluster: the look every fifteen seconds, status, conditions and events."""

import pytest

from stowplan.kube.api.meta import timestamp
from support.live.controller_cluster import LiveCluster, workload

USAGE = "stowplan.io/usage-cpu"


def autoscaler(name="web", target="web", kind="Deployment", api_version="apps/v1", metrics=None, **spec):
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": api_version, "kind": kind, "name": target},
            "maxReplicas": 10,
            "metrics": [resource()] if metrics is None else metrics,
            **spec,
        },
    }


def resource(name="cpu", utilization=50):
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def scaled(kind="Deployment", name="web", usage='{"total": "1"}', requests="200m", **spec):
    manifest = workload(kind, name, **{"replicas": 2, **spec})
    manifest["metadata"]["annotations"] = {USAGE: usage}
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": requests}} if requests else {}
    return manifest


@pytest.fixture
def cluster():
    found = LiveCluster()
    found.add_node("node-1")
    return found


def run(cluster, seconds):
    """Pods start at once."""
    for _ in range(seconds):
        cluster.live()
        cluster.advance(1)
    cluster.live()


def replicas(cluster, kind="Deployment", name="web"):
    return cluster.get(kind, name)["spec"]["replicas"]


def scalings(cluster):
    return [message for _, reason, message in cluster.events("web") if reason == "SuccessfulRescale"]


def conditions(cluster, name="web"):
    status = cluster.get("HorizontalPodAutoscaler", name)["status"]
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in status.get("conditions") or ()}


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"])
def test_a_target_follows_its_load(cluster, kind):
    extra = {"podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    cluster.create(scaled(kind, **extra))
    api_version = "v1" if kind == "ReplicationController" else "apps/v1"
    run(cluster, 20)
    cluster.create(autoscaler(kind=kind, api_version=api_version))
    run(cluster, 14)
    assert replicas(cluster, kind) == 2
    run(cluster, 1)
    assert replicas(cluster, kind) == 4
    # New pods are measured once they were ready for a window.
    run(cluster, 60)
    assert replicas(cluster, kind) == 10
    above = "cpu resource utilization (percentage of request) above target"
    assert scalings(cluster) == [f"New size: {size}; reason: {above}" for size in (4, 8, 10)]


def test_its_status(cluster):
    cluster.create(scaled(usage="100m"))
    cluster.create(autoscaler(minReplicas=2, metrics=[resource(utilization=50), resource("memory")]))
    run(cluster, 20)
    status = cluster.get("HorizontalPodAutoscaler", "web")["status"]
    current = {"averageUtilization": 50, "averageValue": "100m"}
    assert status["currentMetrics"] == [
        {"type": "Resource", "resource": {"name": "cpu", "current": current}},
        {"type": ""},
    ]
    assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 2)
    assert "lastScaleTime" not in status
    assert conditions(cluster) == {
        "AbleToScale": ("True", "ReadyForNewScale", "recommended size matches current size"),
        "ScalingActive": (
            "True",
            "ValidMetricFound",
            "the HPA was able to successfully calculate a replica count from cpu resource utilization "
            "(percentage of request)",
        ),
        "ScalingLimited": (
            "False",
            "DesiredWithinRange",
            "the desired count is within the acceptable range",
        ),
    }
    missing = "failed to get memory utilization: missing request for memory in container main of Pod "
    events = cluster.events("web")
    assert [(event[1], event[2].startswith(missing)) for event in events if event[0] == "Warning"] == [
        ("FailedGetResourceMetric", True)
    ]


def test_outside_of_its_limits(cluster):
    cluster.create(scaled(replicas=12))
    cluster.create(autoscaler(minReplicas=3))
    run(cluster, 15)
    assert replicas(cluster) == 10
    cluster.scale("Deployment", "web", 1)
    run(cluster, 15)
    assert replicas(cluster) == 3
    assert scalings(cluster) == [
        "New size: 10; reason: Current number of replicas above Spec.MaxReplicas",
        "New size: 3; reason: Current number of replicas below Spec.MinReplicas",
    ]


def test_no_replicas_turn_it_off(cluster):
    cluster.create(scaled(replicas=0))
    cluster.create(autoscaler())
    run(cluster, 30)
    assert replicas(cluster) == 0
    message = "scaling is disabled since the replica count of the target is zero"
    assert conditions(cluster)["ScalingActive"] == ("False", "ScalingDisabled", message)


@pytest.mark.parametrize(
    ("target", "error"),
    [
        pytest.param({"target": "no"}, 'deployments.apps "no" not found', id="no such object"),
        pytest.param({"kind": "No"}, 'no matches for kind "No" in group "apps"', id="no such kind"),
        pytest.param({"kind": "DaemonSet"}, "the server could not find the requested resource", id="not scaled"),
    ],
)
def test_a_target_that_is_missing(cluster, target, error):
    cluster.create(autoscaler(**target))
    run(cluster, 45)
    assert cluster.events("web") == [("Warning", "FailedGetScale", error)]
    message = f"the HPA controller was unable to get the target's current scale: {error}"
    assert conditions(cluster) == {"AbleToScale": ("False", "FailedGetScale", message)}


@pytest.mark.parametrize(
    ("metric", "reason", "cause", "about"),
    [
        pytest.param(
            {
                "type": "Pods",
                "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": 1}},
            },
            "FailedGetPodsMetric",
            "unable to get metric rps: unable to fetch metrics from custom metrics API: no custom metrics API "
            "(custom.metrics.k8s.io) registered",
            "failed to get pods metric value",
            id="pods",
        ),
        pytest.param(
            {
                "type": "External",
                "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": 1}},
            },
            "FailedGetExternalMetric",
            "unable to get external metric default/queue/nil: unable to fetch metrics from external metrics API: the "
            "server could not find the requested resource (get queue.external.metrics.k8s.io)",
            "failed to get queue external metric value: failed to get queue external metric",
            id="external",
        ),
        pytest.param(
            {
                "type": "Object",
                "object": {
                    "describedObject": {"kind": "Ingress", "name": "main", "apiVersion": "networking.k8s.io/v1"},
                    "metric": {"name": "rps"},
                    "target": {"type": "Value", "value": 1},
                },
            },
            "FailedGetObjectMetric",
            "unable to get metric rps: Ingress on default main/unable to fetch metrics from custom metrics API: no "
            "custom metrics API (custom.metrics.k8s.io) registered",
            "failed to get object metric value",
            id="object",
        ),
    ],
)
def test_metrics_that_nobody_serves(cluster, metric, reason, cause, about):
    cluster.create(scaled())
    cluster.create(autoscaler(metrics=[metric]))
    run(cluster, 20)
    events = [event for event in cluster.events("web") if event[0] == "Warning"]
    assert events == [
        ("Warning", reason, cause),
        (
            "Warning",
            "FailedComputeMetricsReplicas",
            f"invalid metrics (1 invalid out of 1), first error is: {about}: {cause}",
        ),
    ]
    message = f"the HPA was unable to compute the replica count: {cause}"
    assert conditions(cluster)["ScalingActive"] == ("False", reason, message)


def test_two_for_the_same_pods(cluster):
    cluster.create(scaled())
    cluster.create(autoscaler())
    cluster.create(autoscaler("other"))
    run(cluster, 30)
    message = "pods by selector app=web are controlled by multiple HPAs: [default/other default/web]"
    assert conditions(cluster)["ScalingActive"] == ("False", "AmbiguousSelector", message)
    cluster.delete("HorizontalPodAutoscaler", "other")
    run(cluster, 45)
    assert conditions(cluster)["ScalingActive"][1] == "ValidMetricFound"


def test_one_container(cluster):
    cluster.create(scaled(usage="100m"))
    source = {"name": "cpu", "container": "main", "target": {"type": "Utilization", "averageUtilization": 25}}
    cluster.create(autoscaler(metrics=[{"type": "ContainerResource", "containerResource": source}]))
    run(cluster, 16)
    assert replicas(cluster) == 4
    status = cluster.get("HorizontalPodAutoscaler", "web")["status"]["currentMetrics"][0]
    current = {"averageUtilization": 50, "averageValue": "100m"}
    assert status["containerResource"] == {"name": "cpu", "container": "main", "current": current}
    reason = "cpu container resource utilization (percentage of request) above target"
    assert scalings(cluster) == [f"New size: 4; reason: {reason}"]


def test_an_average_value(cluster):
    cluster.create(scaled(usage="100m"))
    target = {"type": "AverageValue", "averageValue": "60m"}
    cluster.create(autoscaler(metrics=[{"type": "Resource", "resource": {"name": "cpu", "target": target}}]))
    run(cluster, 16)
    assert replicas(cluster) == 4
    assert scalings(cluster) == ["New size: 4; reason: cpu resource above target"]


def test_the_time_of_a_change(cluster):
    cluster.create(scaled())
    cluster.create(autoscaler())
    start = cluster.now
    run(cluster, 20)
    assert cluster.get("HorizontalPodAutoscaler", "web")["status"]["lastScaleTime"] == timestamp(start + 15)


def test_changes_of_it_wait_for_the_next_look(cluster):
    cluster.create(scaled(usage="100m"))
    cluster.create(autoscaler())
    run(cluster, 20)
    cluster.change("HorizontalPodAutoscaler", "web", lambda obj: obj["spec"].update(minReplicas=6))
    run(cluster, 9)
    assert replicas(cluster) == 2
    run(cluster, 1)
    assert replicas(cluster) == 6


def test_a_scale_that_is_refused(cluster, monkeypatch):
    from stowplan.kube.api.api_errors import Forbidden
    from stowplan_cluster.controllers.workloads import horizontal_pod_autoscaler

    def refused(*args, **rest):
        raise Forbidden("no")

    monkeypatch.setattr(horizontal_pod_autoscaler, "set_scale", refused)
    cluster.create(scaled())
    cluster.create(autoscaler())
    run(cluster, 20)
    reason = "cpu resource utilization (percentage of request) above target"
    assert cluster.events("web")[-1] == ("Warning", "FailedRescale", f"New size: 4; reason: {reason}; error: no")
    status = cluster.get("HorizontalPodAutoscaler", "web")["status"]
    assert (status["desiredReplicas"], "lastScaleTime" in status) == (0, False)
    assert conditions(cluster)["AbleToScale"][1] == "FailedUpdateScale"
