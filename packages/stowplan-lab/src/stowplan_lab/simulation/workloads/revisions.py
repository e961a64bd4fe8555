"""A workload's revisions, which are its templates over time. Its pods have a label with their revision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.kube.api.timestamps import timestamp

if TYPE_CHECKING:
    from stowplan.kube.api.types import Pod
    from stowplan_lab.simulation.results.ledger import Entry
    from stowplan_lab.simulation.workloads.owners import Template

#: kubectl's annotation of a restarted template.
_RESTARTED = "kubectl.kubernetes.io/restartedAt"
HASH, REVISION = "pod-template-hash", "controller-revision-hash"


class Revisions:
    def __init__(self, template: Template, label: str) -> None:
        """`label`: the revision label; "" for a workload that is never rolled out."""
        self._label = label
        self._pods: list[Pod] = []
        self.turn_to(template)

    def turn_to(self, template: Template) -> bool:
        """Set the current template; return whether it is a new revision.

        An earlier template becomes its revision again.
        """
        self.template = template
        new = template.pod not in self._pods
        if new:
            self._pods.append(template.pod)
        self.current = self._pods.index(template.pod)
        return new

    def next_of(self, template: Template | None, now: float) -> Template:
        """The template that a rollout switches to."""
        if template is not None:
            return template
        metadata = self.template.pod.metadata
        annotations = {**metadata.annotations, _RESTARTED: timestamp(now)}
        return replace(
            self.template, pod=replace(self.template.pod, metadata=replace(metadata, annotations=annotations))
        )

    def pod(self, revision: int) -> Pod:
        """The pod template of the revision."""
        pod = self._pods[revision]
        if self.template.update is None:
            return pod
        labels = {**pod.metadata.labels, self._label: str(revision)}
        return replace(pod, metadata=replace(pod.metadata, labels=labels))

    def of(self, entry: Entry | None) -> int:
        """A pod's revision; one that the API server rejected counts as current."""
        return self.current if entry is None else int(entry.pod.metadata.labels.get(self._label, self.current))
