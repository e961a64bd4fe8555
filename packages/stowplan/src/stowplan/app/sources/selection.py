"""Select pods by name, owner, namespace, labels and fields, like kubectl."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.sources.object_references import Reference
from stowplan.ask.loading.workloads import WORKLOAD_RESOURCES, WorkloadName, belongs_to
from stowplan.kube.api.label_selectors import EVERYTHING, Selector, SelectorError
from stowplan.kube.api.selector_text import FieldTerm, parse_field_selector, parse_label_selector
from stowplan.kube.api.types import Pod
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.explanations.formatting import joined

if TYPE_CHECKING:
    from stowplan.app.sources.cluster_source import ClusterSource
    from stowplan.scheduler.cluster.pod_info import PodInfo

#: The API server's pod field selectors that are meaningful here.
_FIELDS: dict[str, Callable[[Pod], str]] = {
    "metadata.name": lambda pod: pod.metadata.name,
    "metadata.namespace": lambda pod: pod.metadata.namespace,
    "spec.nodeName": lambda pod: pod.spec.node_name,
    "spec.restartPolicy": lambda pod: pod.spec.restart_policy or "Always",
    "spec.schedulerName": lambda pod: pod.spec.scheduler_name or "default-scheduler",
    "status.nominatedNodeName": lambda pod: pod.status.nominated_node_name,
    "status.phase": lambda pod: pod.status.phase or "Pending",
}


class Selection(PlainStruct, frozen=True):
    """Pods of a cluster."""

    #: Pods and their owners; empty: all pending pods.
    names: tuple[Reference, ...] = ()
    #: For names without one, and for pending pods; None: the context's for the former, all for the latter.
    namespace: str | None = None
    labels: Selector = EVERYTHING
    fields: tuple[FieldTerm, ...] = ()

    @classmethod
    def of(
        cls, names: Sequence[Reference], *, namespace: str | None = None, labels: str = "", fields: str = ""
    ) -> Selection:
        """Parse command line values; raises InputError."""
        try:
            terms, selector = parse_field_selector(fields), parse_label_selector(labels)
        except SelectorError as error:
            raise InputError(f"{'--field-selector' if fields else '--selector'}: {error}") from error
        for term in terms:
            if term.field not in _FIELDS:
                known = joined(tuple(_FIELDS))
                raise InputError(f"--field-selector: {term.field!r} is not a supported field; supported: {known}")
        return cls(tuple(names), namespace, selector, terms)

    @property
    def is_one_pod(self) -> bool:
        """Whether a single pod is requested."""
        return len(self.names) == 1 and self.names[0].kind in ("", "Pod")

    @property
    def narrows(self) -> bool:
        """Whether the selection is a subset of the pending pods."""
        return self.namespace is not None or not self.labels.empty or bool(self.fields)

    def workloads(self, context: str = "") -> list[WorkloadName]:
        """The named workloads. `context`: the namespace of its context."""
        named = (name for name in self.names if name.kind in WORKLOAD_RESOURCES)
        return [name.workload(self.namespace or context) for name in named]

    def pods(self, about: ClusterSource) -> list[PodInfo]:
        """Without duplicates, in the requested order; raises InputError for unknown names."""
        if not self.names:
            return about.pending(self._takes)
        named = dict.fromkeys(info.key for name in self.names for info in self._named(about, name))
        return [info for info in map(about.find, named) if self._takes(info.pod)]

    def _named(self, about: ClusterSource, wanted: Reference) -> list[PodInfo]:
        key = wanted.in_namespace(self.namespace or about.namespace)
        if wanted.kind in ("", "Pod"):
            return [about.find(key)]
        namespace, _, name = key.partition("/")
        found = [
            info for info in about.pods() if info.namespace == namespace and belongs_to(info.pod, wanted.kind, name)
        ]
        workload = (wanted.kind, namespace, name)
        if not found and about.workloads.get(workload) is None:
            hint = about.hint_about(wanted.kind, key)
            if workload in about.workloads:
                raise InputError(f'{wanted.kind} "{key}" not found{hint}')
            raise InputError(f"no pod of {wanted.kind} {key} in {about.where}{hint}")
        return found

    def _takes(self, pod: Pod) -> bool:
        if self.namespace is not None and not self.names and pod.metadata.namespace != self.namespace:
            return False
        return self.labels.matches(pod.metadata.labels) and all(
            term.holds(_FIELDS[term.field](pod)) for term in self.fields
        )
