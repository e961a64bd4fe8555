"""HorizontalPodAutoscalers of scenarios: what they do, and those that cannot be."""

import pytest

from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulate import simulate_scenario
from support.scenarios.manifests import container, group, scenario

RESOURCE = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


def web(kind="Deployment", **fields):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container("100m")]}}
    selector = {"matchLabels": {"app": "web"}}
    return {"name": "web", "manifest": {"kind": kind, "spec": {"selector": selector, "template": template}}, **fields}


def scaler(name="web", kind="Deployment", **spec):
    target = {"apiVersion": "apps/v1", "kind": kind, "name": name}
    return {"spec": {"scaleTargetRef": target, "maxReplicas": 8, "metrics": [RESOURCE], **spec}}


def simulated(*workloads, autoscalers=(), **more):
    made = scenario(*workloads, groups=[group(count=1, cpu=100, labels={})], autoscalers=list(autoscalers), **more)
    return simulate_scenario(made)


def test_replicas_follow_the_load():
    total = {"total": [["0s", "50m"], ["10m", "400m"]]}
    found = simulated(web(usage={"cpu": total}), autoscalers=[scaler()], duration="20m", output={"every": "1m"})
    replicas = [row.replicas["web"] for row in found.series]
    assert (replicas[0], replicas[-1]) == (1, 8)
    assert replicas == sorted(replicas)
    assert "Replicas" in [section.title for section in found.record.sections]
    assert found.summary.notes == ()


def test_half_of_the_request_is_used_by_default():
    found = simulated(web(), autoscalers=[scaler()], duration="20m")
    assert found.series[-1].replicas == {"web": 1}


def test_what_does_not_work_at_the_end_is_noted():
    metric = {
        "type": "Pods",
        "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": 1}},
    }
    (note,) = simulated(web(), autoscalers=[scaler(metrics=[metric])], duration="5m").summary.notes
    assert note.startswith("autoscaler of web: FailedGetPodsMetric: the HPA was unable to compute the replica count")


@pytest.mark.parametrize(
    ("workloads", "autoscalers", "more", "message"),
    [
        pytest.param(
            [web()],
            [scaler("wbe")],
            {},
            r"autoscalers\[0\].spec.scaleTargetRef.name: there is no workload 'wbe'; there are web",
            id="no such workload",
        ),
        pytest.param(
            [web()],
            [scaler(kind="StatefulSet")],
            {},
            r"autoscalers\[0\].spec.scaleTargetRef.kind: workload 'web' is a Deployment, not a StatefulSet",
            id="another kind",
        ),
        pytest.param([web()], [scaler(), scaler()], {}, r"autoscalers\[1\]: workload 'web' has another", id="two"),
        pytest.param(
            [web()], [scaler(minReplicas=9)], {}, r"autoscalers\[0\]: spec.maxReplicas: Invalid value", id="limits"
        ),
        pytest.param(
            [web()], [scaler(maxReplica=9)], {}, r'autoscalers\[0\]: unknown field "spec.maxReplica"', id="a typo"
        ),
        pytest.param(
            [web()], [{"kind": "Deployment"}], {}, r"autoscalers\[0\]: want a Horizontal", id="another object"
        ),
        pytest.param([web()], [scaler()], {"duration": None}, "give the scenario a duration", id="no end"),
        pytest.param([web(each=2)], [scaler()], {}, "'web' arrives several times", id="several"),
        pytest.param(
            [web()], [scaler()], {"models": {"controllers": False}}, "controllers is false", id="no controllers"
        ),
        pytest.param(
            [web(usage={"cpu": {"total": "50%"}})],
            [scaler()],
            {},
            r"workloads\[0\].usage.cpu: total: want an amount such as 12",
            id="a share of all",
        ),
        pytest.param(
            [web(usage={"cpu": {"each": [["1h", 1], ["5m", 2]]}})],
            [],
            {},
            r"workloads\[0\].usage.cpu: each\[1\]: want times in order",
            id="back in time",
        ),
        pytest.param([web(usage={"gpu": 1})], [], {}, r"workloads\[0\].usage.gpu: there is no such field", id="a gpu"),
    ],
)
def test_scenarios_that_cannot_be(workloads, autoscalers, more, message):
    given = {"duration": "5m", **more}
    with pytest.raises(ScenarioError, match=message):
        simulated(*workloads, autoscalers=autoscalers, **{name: value for name, value in given.items() if value})
