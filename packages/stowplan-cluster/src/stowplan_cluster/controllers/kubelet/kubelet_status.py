"""The pod status that the simulated kubelet writes.

All containers of a pod start, end and restart together; init containers complete as soon as the pod starts, sidecars
run with the others. Functions modify the pod in place.

Left out: `resources` and `allocatedResources` of containers, volume mounts, ephemeral containers.

Upstream: pkg/kubelet/kubelet_pods.go, pkg/kubelet/status/generate.go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from stowplan_cluster.apiserver.objects import JsonObject, condition_of, set_condition
from stowplan_cluster.reconcile.kubelet import EXIT_CODE_KILLED
from stowplan_cluster.reconcile.pods import FAILED, PENDING, RUNNING, SUCCEEDED

#: The state of an init container, by whether it is a sidecar.
InitState = Callable[[bool], JsonObject]

_PHASES = (PENDING, RUNNING, SUCCEEDED, FAILED)
#: Fields that a new container status keeps from the previous one.
_KEPT = {"lastState", "ready", "restartCount"}

CREATING = "ContainerCreating"
BACK_OFF = "CrashLoopBackOff"


def accept(pod: JsonObject, *, host_ip: str, now: str) -> None:
    """Accept the pod: Pending, with containers being created."""
    status = pod["status"]
    for field in ("containerStatuses", "initContainerStatuses"):
        status.pop(field, None)
    status.update(phase=PENDING, startTime=now, hostIP=host_ip, hostIPs=[{"ip": host_ip}])
    waiting = {"waiting": {"reason": CREATING}}
    if pod["spec"].get("initContainers"):
        waiting = {"waiting": {"reason": "PodInitializing"}}
        _set_init_containers(pod, lambda sidecar: {"waiting": {"reason": CREATING}}, done=False)
    _set_containers(pod, waiting)
    _observe(pod, now=now, sandbox=False)


def run(pod: JsonObject, *, pod_ip: str, now: str) -> None:
    status = pod["status"]
    status.update(phase=RUNNING, podIP=pod_ip, podIPs=[{"ip": pod_ip}])
    done = _terminated(0, "Completed", started=now, now=now)
    running: JsonObject = {"running": {"startedAt": now}}
    if pod["spec"].get("initContainers"):
        _set_init_containers(pod, lambda sidecar: running if sidecar else done, done=True)
    _set_containers(pod, running)
    _observe(pod, now=now)


def end(pod: JsonObject, *, exit_code: int, now: str, reason: str = "", message: str = "") -> None:
    """Terminate all containers for good."""
    status = pod["status"]
    status["phase"] = FAILED if exit_code or reason else SUCCEEDED
    if reason:
        status.update(reason=reason, message=message)
    started = _started_at(pod, now)
    code_reason = "Error" if exit_code else "Completed"
    if pod["spec"].get("initContainers"):
        finished = _terminated(0, "Completed", started=started, now=now)
        _set_init_containers(pod, lambda sidecar: finished, done=True)
    _set_containers(pod, _terminated(exit_code, code_reason, started=started, now=now))
    _observe(pod, now=now, sandbox=False)


def back_off(pod: JsonObject, *, exit_code: int, seconds: int, now: str) -> None:
    """Terminate the containers; they restart after a back-off."""
    ended = _terminated(exit_code, "Error" if exit_code else "Completed", started=_started_at(pod, now), now=now)
    for container in pod["status"]["containerStatuses"]:
        metadata = pod["metadata"]
        message = (
            f"back-off {_go_seconds(seconds)} restarting failed container={container['name']} "
            f"pod={metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        )
        container.update(
            state={"waiting": {"reason": BACK_OFF, "message": message}}, lastState=ended, ready=False, started=False
        )
    _observe(pod, now=now)


def restart(pod: JsonObject, *, exit_code: int, now: str) -> None:
    """Start the containers again, right after they have ended or after their back-off."""
    ended = _terminated(exit_code, "Error" if exit_code else "Completed", started=_started_at(pod, now), now=now)
    for container in pod["status"]["containerStatuses"]:
        last = container["lastState"] if "waiting" in container["state"] else ended
        container.update(
            state={"running": {"startedAt": now}},
            lastState=last,
            ready=True,
            started=True,
            restartCount=container["restartCount"] + 1,
        )
        container["containerID"] = _container_id(pod, container["name"], container["restartCount"])
    _observe(pod, now=now)


def lose(pod: JsonObject, *, now: str) -> None:
    """The containers were lost with their node, and are created again."""
    lost = _terminated(EXIT_CODE_KILLED, "Error", started=_started_at(pod, now), now=now)
    for container in pod["status"]["containerStatuses"]:
        if "running" in container["state"]:
            container.update(lastState=lost, restartCount=container["restartCount"] + 1)
        container.update(state={"waiting": {"reason": CREATING}}, ready=False, started=False)
    _observe(pod, now=now, sandbox=False)


def reject(pod: JsonObject, *, reason: str, message: str, now: str) -> None:
    """Reject the pod: it fails with this reason."""
    status = pod["status"]
    status.update(phase=FAILED, reason=reason, message=f"Pod was rejected: {message}", startTime=now)
    status["observedGeneration"] = pod["metadata"].get("generation", 0)


def refresh(pod: JsonObject, *, now: str) -> None:
    """Update the conditions from containers and readiness gates."""
    _observe(pod, now=now)


def is_sound(pod: JsonObject) -> bool:
    """Whether this module can continue from the status; other clients may have written anything."""
    status, spec = pod["status"], pod["spec"]
    if status.get("phase") not in _PHASES or not status.get("startTime"):
        return False
    return _are_sound(status.get("containerStatuses"), spec["containers"]) and _are_sound(
        status.get("initContainerStatuses"), spec.get("initContainers")
    )


def _are_sound(statuses: Sequence[JsonObject] | None, containers: Sequence[JsonObject] | None) -> bool:
    names = [container["name"] for container in containers or ()]
    complete = all(one.get("state") and one.keys() >= _KEPT for one in statuses or ())
    return complete and [one.get("name") for one in statuses or ()] == names


def state_of(pod: JsonObject) -> JsonObject:
    """The state that all containers are in."""
    state: JsonObject = pod["status"]["containerStatuses"][0]["state"]
    return state


def _go_seconds(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _started_at(pod: JsonObject, now: str) -> str:
    at: str = state_of(pod).get("running", {}).get("startedAt", now)
    return at


def _terminated(exit_code: int, reason: str, *, started: str, now: str) -> JsonObject:
    return {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": now}}


def _set_containers(pod: JsonObject, state: JsonObject) -> None:
    known = {one["name"]: one for one in pod["status"].get("containerStatuses") or ()}
    pod["status"]["containerStatuses"] = [
        _container(pod, container, state, known.get(container["name"]), ready="running" in state)
        for container in pod["spec"]["containers"]
    ]


def _set_init_containers(pod: JsonObject, state: InitState, *, done: bool) -> None:
    known = {one["name"]: one for one in pod["status"].get("initContainerStatuses") or ()}
    statuses = []
    for container in pod["spec"]["initContainers"]:
        sidecar = container.get("restartPolicy") == "Always"
        own = state(sidecar)
        ready = "running" in own if sidecar else done
        statuses.append(_container(pod, container, own, known.get(container["name"]), ready=ready))
    pod["status"]["initContainerStatuses"] = statuses


def _container(
    pod: JsonObject, container: JsonObject, state: JsonObject, known: JsonObject | None, *, ready: bool
) -> JsonObject:
    restarts = known["restartCount"] if known else 0
    status = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "lastState": known["lastState"] if known else {},
        "ready": ready,
        "restartCount": restarts,
        "started": "running" in state,
        "state": state,
    }
    if "waiting" not in state:
        status["imageID"] = _image_id(container.get("image", ""))
        status["containerID"] = _container_id(pod, container["name"], restarts)
        if "terminated" in state:
            ended = {**state["terminated"], "containerID": status["containerID"]}
            status["state"] = {"terminated": ended}
    return status


def _image_id(image: str) -> str:
    head, slash, last = image.rpartition("/")
    repository = head + slash + last.partition("@")[0].partition(":")[0]
    return f"{repository}@sha256:{_digest(image)}"


def _container_id(pod: JsonObject, name: str, restarts: int) -> str:
    uid = pod["metadata"]["uid"]
    return f"stowplan://{_digest(f'{uid}/{name}/{restarts}')}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _observe(pod: JsonObject, *, now: str, sandbox: bool = True) -> None:
    """Set the conditions that kubelets own."""
    pod["status"]["observedGeneration"] = pod["metadata"].get("generation", 0)
    phase = pod["status"]["phase"]
    completed = "PodCompleted" if phase == SUCCEEDED else ""
    reason, message = _why_containers_unready(pod)
    initialized = phase != PENDING or not pod["spec"].get("initContainers")
    _set(pod, "PodReadyToStartContainers", sandbox, now=now)
    if initialized:
        _set(pod, "Initialized", True, completed, now=now)
    else:
        names = _go_names([container["name"] for container in pod["spec"]["initContainers"]])
        incomplete = f"containers with incomplete status: {names}"
        _set(pod, "Initialized", False, "ContainersNotInitialized", incomplete, now=now)
    ready_reason, ready_message = (reason, message) if reason else _why_gates_closed(pod)
    _set(pod, "Ready", not ready_reason, ready_reason, ready_message, now=now)
    _set(pod, "ContainersReady", not reason, reason, message, now=now)


def _set(pod: JsonObject, type_: str, holds: bool, reason: str = "", message: str = "", *, now: str) -> None:
    condition: JsonObject = {"type": type_, "status": "True" if holds else "False"}
    condition["observedGeneration"] = pod["status"]["observedGeneration"]
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    set_condition(pod["status"], condition, now=now, probed=True)


def _why_containers_unready(pod: JsonObject) -> tuple[str, str]:
    phase = pod["status"]["phase"]
    if phase in (SUCCEEDED, FAILED):
        return ("PodCompleted" if phase == SUCCEEDED else "PodFailed"), ""
    unready = [one["name"] for one in pod["status"]["containerStatuses"] if not one["ready"]]
    return ("ContainersNotReady", f"containers with unready status: {_go_names(unready)}") if unready else ("", "")


def _why_gates_closed(pod: JsonObject) -> tuple[str, str]:
    messages = []
    for gate in pod["spec"].get("readinessGates") or ():
        type_ = gate.get("conditionType", "")
        condition = condition_of(pod["status"], type_)
        if condition is None:
            messages.append(f'corresponding condition of pod readiness gate "{type_}" does not exist.')
        elif condition.get("status") != "True":
            status = condition.get("status")
            messages.append(f'the status of pod readiness gate "{type_}" is not "True", but {status}')
    return ("ReadinessGatesNotReady", ", ".join(messages)) if messages else ("", "")


def _go_names(names: Sequence[str]) -> str:
    """Format names as Go's `%s` prints a slice."""
    return f"[{' '.join(names)}]"
