"""Pods in tables; cases follow upstream's TestPrintPod and related tests."""

import pytest

from stowplan_cluster.apiserver.resources import BUILT_IN
from stowplan_cluster.apiserver.tables import table_of

NOW = 1_000_000.0
CREATED = "1970-01-12T13:44:40Z"  # 2 minutes before NOW
PODS = next(resource for resource in BUILT_IN if resource.storage == "pods")

RUNNING = {"running": {}}
READY = {"ready": True, "state": RUNNING, "restartCount": 0}


def done(code=0, **rest):
    return {"state": {"terminated": {"exitCode": code, **rest}}}


def waiting(reason):
    return {"state": {"waiting": {"reason": reason}}}


def a_pod(*statuses, phase="Running", init=(), init_specs=(), conditions=(), deleted=False, containers=None, **status):
    count = len(statuses) if containers is None else containers
    return {
        "metadata": {
            "name": "web",
            "creationTimestamp": CREATED,
            **({"deletionTimestamp": CREATED} if deleted else {}),
        },
        "spec": {
            "containers": [{"name": f"c{index}"} for index in range(count)],
            "initContainers": list(init_specs) or [{"name": f"i{index}"} for index in range(len(init))],
        },
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": f"c{index}", **one} for index, one in enumerate(statuses)],
            "initContainerStatuses": [{"name": f"i{index}", **one} for index, one in enumerate(init)],
            "conditions": [{"type": type, "status": value} for type, value in conditions],
            **status,
        },
    }


def cells(pod):
    return table_of(PODS, [pod], now=NOW)["rows"][0]["cells"]


SIDECAR = {"name": "i0", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_pod(READY, READY), ["2/2", "Running", "0"], id="running"),
        pytest.param(a_pod(READY, {"state": RUNNING}), ["1/2", "Running", "0"], id="one not ready"),
        pytest.param(a_pod(phase="Pending", containers=1), ["0/1", "Pending", "0"], id="pending"),
        pytest.param(
            a_pod(
                phase="Pending",
                containers=1,
                conditions=[("PodScheduled", "False")],
            )
            | {},
            ["0/1", "Pending", "0"],
            id="unschedulable",
        ),
        pytest.param(a_pod(phase="Failed", containers=1, reason="Evicted"), ["0/1", "Evicted", "0"], id="evicted"),
        pytest.param(a_pod(phase="Unknown", containers=2), ["0/2", "Unknown", "0"], id="unknown phase"),
        pytest.param(a_pod(READY, waiting("CrashLoopBackOff")), ["1/2", "CrashLoopBackOff", "0"], id="waiting"),
        pytest.param(a_pod(waiting("ImagePullBackOff"), done(1)), ["0/2", "ImagePullBackOff", "0"], id="first wins"),
        pytest.param(a_pod(done(reason="Completed"), phase="Succeeded"), ["0/1", "Completed", "0"], id="completed"),
        pytest.param(a_pod(done(2, signal=9)), ["0/1", "Signal:9", "0"], id="signal"),
        pytest.param(a_pod(done(2)), ["0/1", "ExitCode:2", "0"], id="exit code"),
        pytest.param(a_pod(done(2, reason="OOMKilled")), ["0/1", "OOMKilled", "0"], id="terminated with reason"),
        pytest.param(
            a_pod(done(reason="Completed"), READY, conditions=[("Ready", "True")]),
            ["1/2", "Running", "0"],
            id="one completed, ready",
        ),
        pytest.param(a_pod(done(reason="Completed"), READY), ["1/2", "NotReady", "0"], id="one completed, not ready"),
        pytest.param(
            a_pod(done(reason="Completed"), done(1, reason="Error")),
            ["0/2", "Error", "0"],
            id="one completed, one failed",
        ),
        pytest.param(a_pod(READY, deleted=True), ["1/1", "Terminating", "0"], id="terminating"),
        pytest.param(
            a_pod(READY, deleted=True, reason="NodeLost"), ["1/1", "Unknown", "0"], id="terminating on a lost node"
        ),
        pytest.param(
            a_pod(done(reason="Completed"), phase="Succeeded", deleted=True),
            ["0/1", "Completed", "0"],
            id="done, deleted",
        ),
        pytest.param(
            a_pod(containers=1, phase="Pending", init=[done(), {"state": {}}]),
            ["0/1", "Init:1/2", "0"],
            id="second init container",
        ),
        pytest.param(
            a_pod(containers=1, phase="Pending", init=[waiting("PodInitializing")]),
            ["0/1", "Init:0/1", "0"],
            id="init starts",
        ),
        pytest.param(
            a_pod(containers=1, phase="Pending", init=[waiting("CrashLoopBackOff")]),
            ["0/1", "Init:CrashLoopBackOff", "0"],
            id="init waits",
        ),
        pytest.param(
            a_pod(containers=1, phase="Pending", init=[{**done(7), "restartCount": 3}]),
            ["0/1", "Init:ExitCode:7", "3"],
            id="init failed",
        ),
        pytest.param(
            a_pod(containers=1, phase="Pending", init=[done(7, signal=15)]),
            ["0/1", "Init:Signal:15", "0"],
            id="init signal",
        ),
        pytest.param(
            a_pod(containers=1, phase="Pending", init=[done(7, reason="Error")]),
            ["0/1", "Init:Error", "0"],
            id="init error",
        ),
        pytest.param(
            a_pod(READY, init=[{**READY, "started": True, "restartCount": 2}], init_specs=[SIDECAR]),
            ["2/2", "Running", "2"],
            id="sidecar",
        ),
        pytest.param(
            a_pod(READY, init=[{"state": RUNNING, "started": True}], init_specs=[SIDECAR]),
            ["1/2", "Running", "0"],
            id="sidecar not ready",
        ),
        pytest.param(
            a_pod(containers=1, phase="Pending", init=[{"state": RUNNING}], init_specs=[SIDECAR]),
            ["0/2", "Init:0/1", "0"],
            id="sidecar not started",
        ),
        pytest.param(
            a_pod(READY, init=[done(1)], conditions=[("Initialized", "True")]),
            ["1/1", "Init:ExitCode:1", "0"],
            id="initialized all the same",
        ),
        pytest.param(a_pod({**READY, "restartCount": 2}), ["1/1", "Running", "2"], id="restarts"),
        pytest.param(
            a_pod({**READY, "restartCount": 2, "lastState": {"terminated": {"finishedAt": "1970-01-12T13:41:40Z"}}}),
            ["1/1", "Running", "2 (5m ago)"],
            id="last restart",
        ),
    ],
)
def test_ready_status_restarts(pod, expected):
    assert cells(pod)[1:4] == expected


def test_status_of_gated_pods():
    pod = a_pod(phase="Pending", containers=1)
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
    assert cells(pod)[2] == "SchedulingGated"


def test_all_cells():
    pod = a_pod(
        READY, podIPs=[{"ip": "10.0.0.7"}], nominatedNodeName="n2", conditions=[("a/b", "True"), ("c/d", "False")]
    )
    pod["spec"]["nodeName"] = "n1"
    pod["spec"]["readinessGates"] = [{"conditionType": "a/b"}, {"conditionType": "c/d"}, {"conditionType": "e/f"}]
    assert cells(pod) == ["web", "1/1", "Running", "0", "2m", "10.0.0.7", "n1", "n2", "1/3"]
    assert cells(a_pod(phase="Pending"))[5:] == ["<none>"] * 4


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_have_row_conditions(phase):
    (row,) = table_of(PODS, [a_pod(phase=phase)], now=NOW)["rows"]
    assert [(one["type"], one["reason"]) for one in row["conditions"]] == [("Completed", phase)]
    (row,) = table_of(PODS, [a_pod()], now=NOW)["rows"]
    assert "conditions" not in row
