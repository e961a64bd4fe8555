"""Suggestions for a pod as plain data, computed by `suggestions/`."""

from __future__ import annotations

from typing import Any

from stowplan.kube.api.types import Pod
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.explanations.formatting import count, joined, listed
from stowplan.scheduler.framework.explanations.remedy import Change
from stowplan.scheduler.inspection.records import SuggestionRecord


class Suggestion(PlainStruct, frozen=True):
    """A verified change, and what it gains.

    Examples:
        >>> cluster.explain("ml/notebook").suggestions()[0]
        <Suggestion: tolerate nvidia.com/gpu:NoSchedule to gain 2 nodes (gpu-a1, gpu-b1)>
    """

    changes: tuple[Change, ...]
    #: The number of nodes that become feasible.
    gain: int
    #: The first of them.
    nodes: tuple[str, ...]
    note: str = ""
    #: Without gain: the node on which the pod would evict others.
    preempts_on: str = ""

    def __repr__(self) -> str:
        return f"<Suggestion: {self.text}>"

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(change.kind for change in self.changes))

    @property
    def cost(self) -> int:
        return sum(change.cost for change in self.changes)

    @property
    def gives_up(self) -> bool:
        """Whether the pod goes without something that it asks for."""
        return any(change.gives_up for change in self.changes)

    @property
    def deed(self) -> str:
        """The changes in words, without what they gain."""
        return joined([change.text for change in self.changes])

    @property
    def text(self) -> str:
        """The suggestion in words."""
        if self.preempts_on:
            return f"{self.deed} (the pod would then preempt others on {self.preempts_on})"
        if not self.gain:
            return f"{self.deed} (no node takes the pod even then)"
        named = listed(self.nodes) if self.gain <= len(self.nodes) else f"{', '.join(self.nodes[:3])}, …"
        named = "" if any(change.nodes for change in self.changes) else f" ({named})"
        return f"{self.deed} to gain {count(self.gain, 'node')}{named}"

    def applied_to(self, pod: Pod) -> Pod:
        """The changed pod; changes of nodes and other pods are not included."""
        for change in self.changes:
            pod = pod if change.on_pod is None else change.on_pod(pod)
        return pod

    @property
    def changes_data(self) -> tuple[dict[str, Any], ...]:
        """The changes as JSON-able data."""
        return tuple({"kind": change.kind, **change.data} for change in self.changes)

    def record(self) -> SuggestionRecord:
        return SuggestionRecord(
            text=self.text, gain=self.gain, nodes=self.nodes, changes=self.changes_data, note=self.note
        )


class Advice(PlainStruct, frozen=True):
    """Changes that would help, and facts that make every node infeasible."""

    suggestions: tuple[Suggestion, ...] = ()
    obstacles: tuple[str, ...] = ()

    def fields(self) -> dict[str, Any]:
        """The fields of a `VerdictRecord`."""
        return {
            "suggestions": tuple(suggestion.record() for suggestion in self.suggestions),
            "obstacles": self.obstacles,
        }
