"""Results of PostFilter plugins for a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.ask.explain.suggestions.explanations import guarded
from stowplan.scheduler.framework.explanations.preemption import Eviction, Preemption, eviction
from stowplan.scheduler.framework.status import Code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.scheduler.framework.interface import PostFilterResult
    from stowplan.scheduler.framework.runtime.framework import Framework


def preemption_of(framework: Framework, results: Sequence[tuple[str, PostFilterResult]]) -> Preemption | None:
    """The result of the plugin that succeeded; if none did, the explanation of the first plugin that has one.

    Details are computed on the current cluster. None if no plugin explains more than its status.
    """
    selected = _selected(results[-1][1]) if results else None
    if selected is None:
        explained = (_explained(framework, name, result) for name, result in results)
        return next((found for found in explained if found is not None), None)
    plugin, last = results[-1]
    found = _explained(framework, plugin, last) or Preemption(plugin=plugin)
    return replace(
        found,
        candidates={selected.node_name: selected, **found.candidates},
        best=found.best or (selected.node_name,),
        selected=selected,
    )


def _selected(result: PostFilterResult) -> Eviction | None:
    """The plan of a success; a nomination without victims is an eviction of no pods."""
    if result.status.code != Code.Success:
        return None
    if result.plan is not None:
        return eviction(result.plan.node_name, result.plan.victims, result.plan.pdb_violations)
    return Eviction(result.nominated_node_name) if result.nominated_node_name else None


def _explained(framework: Framework, name: str, result: PostFilterResult) -> Preemption | None:
    plugin = next(plugin for plugin in framework.post_filter if plugin.name == name)
    found = guarded(name, lambda: plugin.preemption(result), None)
    return replace(found, plugin=name) if isinstance(found, Preemption) else None
