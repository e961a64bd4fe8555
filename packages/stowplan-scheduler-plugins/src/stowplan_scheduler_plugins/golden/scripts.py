"""Scripts of scheduling cycles with pods that wait on Permit."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

import stowplan
from stowplan.plugins import Code, CycleState, PodInfo
from stowplan.plugins.objects import parse_timestamp
from stowplan_scheduler_plugins.golden.differences import differences, verdict_differences
from stowplan_scheduler_plugins.golden.tally import STEPS, Answer

Json = Any
_PLUGIN = "Coscheduling"
_NOW = parse_timestamp("2026-09-01T00:00:00Z")
_JUDGED = ("absentNodesStatus", "preFilterMessage", "message", "rejected", "feasible")


@dataclass
class Waiting:
    """A pod that waits on Permit."""

    pod: PodInfo
    node: str
    #: "Success", or why it was rejected; None while it waits.
    decision: str | None = None

    @property
    def uid(self) -> str:
        return self.pod.uid

    def allow(self, plugin: str) -> None:
        self.decision = self.decision or "Success"

    def reject(self, plugin: str, message: str) -> bool:
        self.decision = self.decision or message
        return True


@dataclass(frozen=True)
class Queued:
    pod: PodInfo
    timestamp: float = 0.0

    @property
    def initial_attempt_timestamp(self) -> float:
        return parse_timestamp(self.pod.pod.metadata.creation_timestamp or "")


def script_answers(number: int, row: Json) -> Iterator[Answer]:
    played = _Played(row)
    for i, (op, want) in enumerate(zip(row["script"], row["steps"], strict=True)):
        found = played.after(op)
        judged = {key: want[key] for key in _JUDGED if key in want}
        ours = {key: found[key] for key in _JUDGED if key in found}
        lines = verdict_differences({"pod": "", **judged}, {"pod": "", **ours}, {})
        wanted, other = ({key: value for key, value in one.items() if key not in _JUDGED} for one in (want, found))
        yield Answer(STEPS, f"{row['name']} step {i} {op['op']}", [*lines, *differences(wanted, other)])


@dataclass
class _Played:
    row: Json
    waiting: list[Waiting] = field(default_factory=list)
    #: Pods that have left Permit in this step, and how.
    released: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        objects = [*self.row["objects"], *self.row["pods"]]
        self.now = _NOW
        self.cluster = stowplan.Cluster(objects, config=self.row["config"], now=self.now)
        [framework] = self.cluster.algorithm.frameworks.values()
        self.plugin: Any = framework.plugins[_PLUGIN]
        self.others = [plugin.name for plugin in framework.post_filter if plugin.name != _PLUGIN]
        # Its pods wait here, and not in the cluster's scheduler.
        handle: Any = self.plugin.handle
        handle.waiting_pods = self

    def get(self, uid: str) -> Waiting | None:
        """As of the scheduler's waiting pods."""
        return next((one for one in self.waiting if one.uid == uid), None)

    def after(self, op: Json) -> Json:
        self.now += 1
        self.cluster.now = self.now
        found: Json = {}
        match op["op"]:
            case "order":
                found = self._order()
            case "add":
                self.cluster.add(op["object"])
            case "remove":
                self._remove(op["pod"])
            case "schedule":
                found = self._schedule(op)
        self._settle()
        released, self.released = self.released, {}
        left = sorted(one.pod.key for one in self.waiting)
        return found | ({"released": released} if released else {}) | ({"waiting": left} if left else {})

    def _order(self) -> Json:
        queue = [Queued(pod) for pod in self.cluster.state.pending.values() if not self._waits(pod.key)]
        less = self.plugin.less
        ordered = sorted(queue, key=functools.cmp_to_key(lambda a, b: -1 if less(a, b) else 1))
        return {"order": [one.pod.key for one in ordered]}

    def _waits(self, key: str) -> bool:
        return any(one.pod.key == key for one in self.waiting)

    def _remove(self, key: str) -> None:
        for one in self.waiting:
            if one.pod.key == key:
                one.reject("", "removed")
                return
        state = self.cluster.state
        pod = state.pending.get(key) or next((one for one in state.placed_pods() if one.key == key), None)
        if pod is not None:
            self.cluster.remove(pod.pod)

    def _schedule(self, op: Json) -> Json:
        info = self.cluster.state.pending.get(op["pod"])
        if info is None or self._waits(op["pod"]):
            return {"skipped": True}
        verdict = self.cluster.explain(info.pod)
        judged = verdict.to_dict()
        found = {key: judged[key] for key in _JUDGED if judged.get(key)}
        if not judged.get("feasible"):
            return found | {"postFilter": self._post_filter(info, verdict)}
        node = op.get("node")
        node = node if node in judged["feasible"] else min(judged["feasible"])
        found["node"] = node
        state = CycleState()
        self.cluster.state.assume(info, node)
        status, seconds = self.plugin.permit(state, info, node)
        code = "Success" if status is None else status.code.name
        found["permit"] = {"code": code} | ({"message": status.message} if status and status.message else {})
        activated = sorted(one.key for one in state.pods_to_activate.take())
        found |= {"activate": activated} if activated else {}
        if status is not None and status.code == Code.Wait:
            found["permit"]["timeoutSeconds"] = seconds
            self.waiting.append(Waiting(info, node))
        elif status is not None or op.get("fail"):
            self._give_up(info, node)
            found["unreserved"] = True
        else:
            self._settle()
            self._bind(info, node)
        return found

    def _post_filter(self, info: PodInfo, verdict: Any) -> Json:
        """Of the whole chain: what others say is in the verdict, and Coscheduling's part is done here."""
        said = verdict.full_message.removeprefix(verdict.message).strip()
        result = self.plugin.post_filter(CycleState(), info, verdict)
        first = self.others[0] if self.others else _PLUGIN
        message = ", ".join(filter(None, (said, result.status.message)))
        found = {"code": "Unschedulable", "plugin": first} | ({"message": message} if message else {})
        return found | ({"nominatedNodeName": ""} if self.others else {})

    def _bind(self, info: PodInfo, node: str) -> None:
        self.cluster.add(replace(info.pod, spec=replace(info.pod.spec, node_name=node)))

    def _give_up(self, info: PodInfo, node: str) -> None:
        self.cluster.state.forget(info)
        self.plugin.unreserve(CycleState(), info, node)

    def _settle(self) -> None:
        """Bind pods that were allowed, and give those up that were rejected, which may reject others."""
        while decided := sorted((one for one in self.waiting if one.decision), key=lambda one: one.pod.key):
            self.waiting[:] = [one for one in self.waiting if not one.decision]
            for one in decided:
                self.released[one.pod.key] = one.decision or ""
                if one.decision == "Success":
                    self._bind(one.pod, one.node)
                else:
                    self._give_up(one.pod, one.node)
                if one.decision == "removed":
                    self.cluster.remove(one.pod.pod)
