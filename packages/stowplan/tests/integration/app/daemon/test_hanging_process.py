"""A kube-scheduler whose plugin hangs at every extension point: the process lives, and every pod is bound once.

Its inputs are recorded; in a replay the same calls are interrupted, with the same effects.
"""

import json
import signal

import pytest
import yaml

from stowplan.drivers.hang_guard.guarded_plugins import register_guarded
from stowplan.drivers.hang_guard.hang_guard import InterruptedCalls
from stowplan.scheduler.in_tree.registry import in_tree_registry
from support.api import manifests
from support.plugins import hanging_plugins as hanging
from support.processes.recorded_scheduler import PROGRAM, recording_to, replayed
from support.processes.servers import embedded_server, running, until

POINTS = ["sign", "preFilter", "filter", "preScore", "score", "reserve", "permit", "preBindPreFlight"]
POINTS += ["preBind", "bind", "postBind"]


def pod(point):
    made = manifests.pod(point.lower())
    made["metadata"]["labels"] = {"at": point}
    return {**made, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}


@pytest.mark.parametrize("way", ["busy loop", "sleep", "lock"])
def test_every_pod_is_bound_once(tmp_path, way):
    log, config = tmp_path / "log", tmp_path / "config.yaml"
    with embedded_server(tmp_path, "--nodes=3") as server:
        configured = hanging.configuration(hanging.OnceAtEachPoint) | {
            "clientConnection": {"kubeconfig": str(server.kubeconfig)},
            "leaderElection": {"leaderElect": True, "resourceName": "hanging"},
        }
        configured["profiles"][0]["pluginConfig"] = [{"name": "Hanging", "args": {"way": way}}]
        config.write_text(yaml.safe_dump(configured))
        server.kubectl("create", "-f", "-", stdin=[pod(point) for point in POINTS])
        command = [*PROGRAM, f"--config={config}", "--secure-port=0"]
        command += ["--plugin=support.plugins.hanging_plugins:OnceAtEachPoint"]
        command += ["--plugin-timeout=150ms", "--logging-format=json", "-v=2"]
        with running(command, log, env=recording_to(tmp_path / "recording")) as process:
            until(lambda: all(found["spec"].get("nodeName") for found in pods(server)), process, log)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        events = server.json("get", "events")["items"]
    bound = [event["involvedObject"]["name"] for event in events if event["reason"] == "Scheduled"]
    assert sorted(bound) == sorted(point.lower() for point in POINTS)
    said = [json.loads(line) for line in log.read_text().splitlines()]
    assert said[-1]["msg"] == "Requested to terminate, exiting"
    failures = {event["involvedObject"]["name"]: event["message"] for event in events if event["reason"] != "Scheduled"}
    for point in ("preFilter", "filter", "preScore", "score", "reserve", "permit", "preBind", "bind"):
        assert (
            f'plugin "Hanging" did not return from {point[0].upper()}{point[1:]} within 150ms'
            in failures[point.lower()]
        )
    calls, registry = InterruptedCalls(), in_tree_registry()
    register_guarded(registry, (hanging.Replayed,), calls)
    steps, whole = replayed(tmp_path / "recording", registry, interrupted=calls)
    assert steps > 50
    assert whole


def pods(server):
    return server.json("get", "pods")["items"]
