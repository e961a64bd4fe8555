"""Group pods that no plugin can distinguish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.engine.engine import Engine


def kinds_of(engine: Engine, pods: Iterable[PodInfo]) -> list[tuple[PodInfo, tuple[str, ...]]]:
    """(the first pod of a kind, keys of the others), in the order of the first ones."""
    groups: dict[Any, list[PodInfo]] = {}
    for info in pods:
        framework = engine.framework_for(info)
        signature = None if framework is None else framework.signature(info)
        nominated = info.pod.status.nominated_node_name
        groups.setdefault(info.key if signature is None else (signature, nominated), []).append(info)
    return [(infos[0], tuple(info.key for info in infos[1:])) for infos in groups.values()]
