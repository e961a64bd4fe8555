"""How many replicas usage asks for. The cases of upstream's replica_calculator_test.go have its numbers."""

import pytest

from stowplan_cluster.reconcile.replica_counts import (
    Count,
    CountError,
    Measured,
    Requests,
    ScaledPod,
    Target,
    Tolerances,
    count_for,
)

NOW = 10_000.0
#: Long ago, or within the time in which a pod's use of cpu is that of its start.
COOL, HOT = NOW - 3600, NOW - 60


def pod(number, request=1000, *, ready=True, phase="Running", started=COOL, deleting=False):
    containers = {"a": {"cpu": request}, "b": {"cpu": request}}
    since = started + 1 if started == COOL else NOW - 10
    return ScaledPod(f"p{number}", phase, Requests(containers), deleting, ready, since, started)


def usage(*levels, window=60.0):
    return {
        f"p{number}": Measured(NOW, window, {"a": {"cpu": level}, "b": {"cpu": level}})
        for number, level in enumerate(levels)
    }


def pods(number, **lists):
    """`lists`: a value per pod."""
    return [pod(index, **{name: values[index] for name, values in lists.items()}) for index in range(number)]


def count(target, current, pods_, levels, *, down=0.1, up=0.1):
    return count_for(target, current, pods_, usage(*levels), Tolerances(down, up), NOW)


@pytest.mark.parametrize(
    ("percentage", "current", "pods_", "levels", "replicas", "utilization"),
    [
        pytest.param(30, 3, pods(3), (300, 500, 700), 5, 50, id="up"),
        pytest.param(30, 3, pods(3, ready=[False, True, True]), (300, 500, 700), 4, 60, id="up, one unready"),
        pytest.param(30, 3, pods(3, started=[HOT, COOL, COOL]), (300, 500, 700), 4, 60, id="up, one just started"),
        pytest.param(30, 3, pods(3, ready=[True, False, False]), (400, 500, 700), 3, 40, id="unready damp it"),
        pytest.param(
            30, 2, pods(4, phase=["Running", "Running", "Failed", "Failed"]), (500, 700), 4, 60, id="failed pods"
        ),
        pytest.param(50, 5, pods(5), (100, 300, 500, 250, 250), 3, 28, id="down"),
        pytest.param(
            50, 5, pods(5, ready=[True] * 3 + [False] * 2), (100, 300, 500, 250, 250), 2, 30, id="down, unready"
        ),
        pytest.param(50, 5, pods(5, phase=["Running"] + ["Pending"] * 4), (100,), 1, 10, id="down, pending"),
        pytest.param(
            50, 5, pods(7, deleting=[False] * 5 + [True] * 2), (100, 300, 500, 250, 250), 3, 28, id="down, deleted"
        ),
        pytest.param(100, 3, pods(3, request=[900, 1000, 1100]), (1010, 1030, 1020), 3, 102, id="within tolerance"),
        pytest.param(100, 4, pods(4), (4000, 9500, 3000, 7000, 3200, 2000), 24, 587, id="metrics of other pods"),
        pytest.param(100, 2, pods(2), (1000,), 2, 100, id="missing, on target"),
        pytest.param(100, 2, pods(2), (1900,), 2, 190, id="missing, above"),
        pytest.param(100, 2, pods(2), (600,), 2, 60, id="missing, below"),
        pytest.param(50, 3, pods(3, ready=[False, True, True]), (100, 450), 3, 45, id="missing and unready"),
        pytest.param(50, 3, pods(3, ready=[False, True, True]), (100, 2000), 4, 200, id="missing and unready, up"),
        pytest.param(50, 4, pods(4, ready=[False] + [True] * 3), (100, 100, 100), 3, 10, id="missing, down"),
        pytest.param(
            300,
            4,
            pods(4, ready=[False] + [True] * 3, request=[1000, 1000, 2000, 2000]),
            (200, 100, 100),
            2,
            6,
            id="missing, a target above 100 %",
        ),
        pytest.param(50, 2, pods(3), (100, 100), 2, 10, id="a surge of a rollout"),
    ],
)
def test_utilization(percentage, current, pods_, levels, replicas, utilization):
    found = count(Target("cpu", "", utilization=percentage), current, pods_, levels)
    assert (found.replicas, found.utilization) == (replicas, utilization)


def test_an_average_value():
    assert count(Target("cpu", "", average=1000), 3, pods(3), (300, 500, 700)) == Count(3, 1000)
    assert count(Target("cpu", "", average=500), 3, pods(3), (300, 500, 700)) == Count(6, 1000)
    # A pod that is not measured counts as on target where the others are below it.
    assert count(Target("cpu", "", average=1000), 4, pods(4), (100, 100, 100)).replicas == 2


def test_one_container():
    assert count(Target("cpu", "a", utilization=50), 2, pods(2), (500, 1500)) == Count(4, 1000, 100)


def test_readiness_matters_to_cpu_alone():
    one = pod(0, ready=False)
    memory = one._replace(requests=Requests({"a": {"memory": 1000}}))
    measured = {"p0": Measured(NOW, 60.0, {"a": {"memory": 2000}})}
    target = Target("memory", "", utilization=100)
    assert count_for(target, 1, [memory], measured, Tolerances(0.1, 0.1), NOW) == Count(2, 2000, 200)


def test_a_pod_is_measured_once_it_was_ready_for_a_window():
    target, tolerances = Target("cpu", "", utilization=50), Tolerances(0.1, 0.1)
    one = pod(0, started=HOT)
    at_once = {"p0": Measured(NOW, 10.0, {"a": {"cpu": 1000}, "b": {"cpu": 1000}})}
    assert count_for(target, 1, [one], at_once, tolerances, NOW).replicas == 2
    with pytest.raises(CountError, match="did not receive metrics for targeted pods"):
        count_for(target, 1, [one], usage(1000, window=11.0), tolerances, NOW)


def test_tolerances_differ_by_direction():
    target = Target("cpu", "", utilization=100)
    assert count(target, 3, pods(3), (1200, 1200, 1200), up=0.2).replicas == 3
    assert count(target, 3, pods(3), (1210, 1210, 1210), up=0.2).replicas == 4
    assert count(target, 10, pods(10), (890,) * 10, up=0.2).replicas == 9


@pytest.mark.parametrize(
    ("target", "pods_", "levels", "message"),
    [
        pytest.param(
            Target("cpu", "", utilization=50),
            pods(1),
            (),
            "unable to get metrics for resource cpu: no metrics returned from resource metrics API",
            id="nothing measured",
        ),
        pytest.param(
            Target("cpu", "", utilization=50),
            [],
            (100,),
            "no pods returned by selector while calculating replica count",
            id="no pods",
        ),
        pytest.param(
            Target("cpu", "", utilization=50),
            [pod(0)._replace(requests=Requests({"a": {"cpu": 1}, "b": {}}))],
            (100,),
            "missing request for cpu in container b of Pod p0",
            id="no request",
        ),
        pytest.param(
            Target("cpu", "c", utilization=50),
            pods(1),
            (100,),
            "did not receive metrics for targeted pods (pods might be unready)",
            id="no such container",
        ),
        pytest.param(
            Target("cpu", "", utilization=50),
            [pod(0)._replace(requests=Requests({"a": {"cpu": 1}, "b": {}}, {"memory": 5}))],
            (100,),
            "missing pod-level request for cpu in Pod p0",
            id="no request of the pod",
        ),
        pytest.param(
            Target("cpu", ""),
            pods(1),
            (100,),
            "invalid resource metric source: neither an average utilization target nor an average value (usage) "
            "target was set",
            id="no target",
        ),
    ],
)
def test_errors(target, pods_, levels, message):
    with pytest.raises(CountError) as caught:
        count(target, 1, pods_, levels)
    assert str(caught.value) == message
