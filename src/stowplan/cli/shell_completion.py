"""Completion of option values and arguments: files, contexts, pod and node names.

Every command imports this module, so everything needed to look up names is imported on use.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click

    from stowplan.api.meta import ApiStruct

_ZONE = "topology.kubernetes.io/zone"


def complete_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


def complete_context(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from stowplan.sources.object_names import contexts

    return _beginning(incomplete, contexts(ctx.params.get("kubeconfig"), os.environ))


def complete_node(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from stowplan.api.types import Node

    return _beginning(incomplete, _names(ctx, Node))


def complete_zone(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from stowplan.api.types import Node

    zones = {node.metadata.labels.get(_ZONE, "") for node in _objects(ctx, Node)}
    return _beginning(incomplete, sorted(zones - {""}))


def complete_pod(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from stowplan.api.types import Pod

    return _beginning(incomplete, _names(ctx, Pod))


def complete_pod_or_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return complete_pod(ctx, param, incomplete) or complete_file(ctx, param, incomplete)


def complete_question(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """`pod NAME`, `node NAME`, `pending`."""
    match tuple(ctx.params.get("question") or ()):
        case ("pod",):
            return complete_pod(ctx, param, incomplete)
        case ("node",):
            return complete_node(ctx, param, incomplete)
        case ():
            return _beginning(incomplete, ("pod", "pending", "node"))
        case _:
            return []


def _names(ctx: click.Context, kind: type[ApiStruct]) -> list[str]:
    from stowplan.sources.object_names import names_of

    return names_of(_objects(ctx, kind))


def _objects(ctx: click.Context, kind: type[ApiStruct]) -> list[Any]:
    from stowplan.sources.object_names import objects_of

    given = ctx.params
    return objects_of(
        kind,
        files=given.get("files") or (),
        recursive=bool(given.get("recursive")),
        kubeconfig=given.get("kubeconfig"),
        context=given.get("context"),
    )


def _beginning(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_namespace(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return []
