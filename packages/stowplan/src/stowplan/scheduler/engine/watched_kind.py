"""A kind that a scheduler or a controller watches."""

from __future__ import annotations

from stowplan.kube.api import types as t
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.sources import Source

#: Finished pods are removed as if they were deleted.
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"

#: Kinds that every API server has, and without which scheduling cannot start.
CORE: tuple[type[ApiStruct], ...] = (t.Node, t.Pod, t.Namespace)


class WatchedKind(PlainStruct, frozen=True):
    kind: type[ApiStruct]
    #: Enabled plugins that are disabled while the cluster does not serve the kind.
    needed_by: frozenset[str] = frozenset()
    #: Enabled plugins that work without the kind.
    read_by: frozenset[str] = frozenset()
    #: Of pods: whether finished ones are watched, too.
    finished: bool = False
    #: Where its objects come from if it is measured; () for the API server.
    sources: tuple[Source, ...] = ()

    @property
    def measured(self) -> bool:
        return bool(self.sources)

    @property
    def core(self) -> bool:
        return self.kind in CORE

    @property
    def field_selector(self) -> str:
        return UNFINISHED if self.kind is t.Pod and not self.finished else ""
