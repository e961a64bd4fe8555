"""HorizontalPodAutoscalers on the embedded cluster and in a simulation: the same pods, and the same statuses."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.live import two_clocks
from support.live.two_clocks import RollOut, Scale, agree, template

USAGE = "stowplan.io/usage-cpu"


def amounts(least, most):
    return st.integers(least, most).map(lambda milli: f"{milli}m")


def points(amount):
    times = st.lists(st.integers(0, 1500), min_size=1, max_size=4, unique=True).map(sorted)
    return times.flatmap(
        lambda at: st.tuples(*(amount for _ in at)).map(lambda found: list(zip(at, found, strict=True)))
    )


days = st.builds(lambda low, more, peak: {"low": low, "high": low + more, "peak": peak}, *[st.integers(0, 1000)] * 3)
curves = st.one_of(
    amounts(0, 150),
    st.integers(0, 150).map(lambda share: f"{share}%"),
    st.builds(lambda total: {"total": total}, st.one_of(amounts(0, 900), points(amounts(0, 900)), days)),
    st.builds(lambda each: {"each": each}, points(st.sampled_from(["10%", "50%", "60%", "90%"]))),
)
targets = st.one_of(
    st.builds(lambda share: {"type": "Utilization", "averageUtilization": share}, st.integers(10, 120)),
    st.builds(lambda value: {"type": "AverageValue", "averageValue": value}, amounts(10, 120)),
)
metrics = st.one_of(
    st.builds(lambda target: {"type": "Resource", "resource": {"name": "cpu", "target": target}}, targets),
    st.builds(
        lambda target: {
            "type": "ContainerResource",
            "containerResource": {"name": "cpu", "container": "c", "target": target},
        },
        targets,
    ),
    # Nothing requests memory: that metric fails where it is a share of it.
    st.builds(lambda target: {"type": "Resource", "resource": {"name": "memory", "target": target}}, targets),
)
policies = st.builds(
    lambda kind, value, seconds: {"type": kind, "value": value, "periodSeconds": seconds},
    st.sampled_from(["Pods", "Percent"]),
    st.integers(1, 100),
    st.sampled_from([15, 40, 100]),
)
rules = st.fixed_dictionaries(
    {},
    optional={
        "stabilizationWindowSeconds": st.sampled_from([0, 20, 100]),
        "selectPolicy": st.sampled_from(["Max", "Min", "Disabled"]),
        "policies": st.lists(policies, min_size=1, max_size=2),
        "tolerance": st.sampled_from(["0", "0.05", "0.5"]),
    },
)
behaviors = st.none() | st.fixed_dictionaries({}, optional={"scaleUp": rules, "scaleDown": rules})


@st.composite
def autoscalers(draw, kind):
    least = draw(st.integers(1, 5))
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "web"},
        "minReplicas": least,
        "maxReplicas": least + draw(st.integers(0, 8)),
        "metrics": draw(st.lists(metrics, min_size=1, max_size=2)),
    }
    behavior = draw(behaviors)
    if behavior is not None:
        spec["behavior"] = behavior
    metadata = {"name": "web", "namespace": "default"}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


def with_statuses(simulated, embedded, at, when):
    two_clocks.compare(simulated, embedded, at, when)
    found = embedded.cluster.get("HorizontalPodAutoscaler", "web")["status"]
    assert _named(found) == _named(simulated.simulation.autoscalers.statuses()["web"]), when


def _named(status):
    """Pods have other names, and a server leaves out zeros."""
    conditions = [one | {"message": one["message"].partition(" of Pod ")[0]} for one in status.get("conditions") or ()]
    return {name: value for name, value in {**status, "conditions": conditions}.items() if value}


@examples(10)
@given(st.data())
def test_horizontal_pod_autoscalers(data):
    kind = data.draw(st.sampled_from(["Deployment", "Deployment", "ReplicaSet", "StatefulSet"]))
    sizes = st.integers(0, 9)
    changes = sizes.map(lambda replicas: Scale(replicas, kind))
    if kind == "Deployment":
        rollouts = st.sampled_from([100, 200, 300]).map(lambda cpu: RollOut({"template": template(cpu)}))
        changes = st.one_of(changes, rollouts)
    spec = {
        "replicas": data.draw(sizes),
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(100),
    }
    if kind == "StatefulSet":
        spec |= {"serviceName": "web", "podManagementPolicy": data.draw(st.sampled_from(["Parallel", "OrderedReady"]))}
    curve = data.draw(curves)
    annotations = {USAGE: curve if isinstance(curve, str) else json.dumps(curve)}
    manifest = {"kind": kind, "metadata": {"annotations": annotations}, "spec": spec}
    autoscaler = data.draw(autoscalers(kind))
    drawn = data.draw(st.lists(changes, max_size=6))
    agree({"web": manifest}, drawn, autoscalers=[autoscaler], compare=with_statuses)
