"""Shell completion: its scripts, and the values of options and arguments (files, contexts, names of objects).

Every command imports this module, so everything needed to look up names is imported on use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, get_completion_class

if TYPE_CHECKING:
    from stowplan.app.sources.object_names import Names

_ZONE = "topology.kubernetes.io/zone"


def complete_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


def file_option(*names: str, metavar: str = "FILE", **more: Any) -> Callable[[Callable[..., Any]], Any]:
    return click.option(*names, metavar=metavar, shell_complete=complete_file, **more)


def complete_context(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from stowplan.app.sources.object_names import contexts

    return _beginning(incomplete, contexts(ctx.params.get("kubeconfig"), os.environ))


def complete_namespace(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _beginning(incomplete, _names(ctx, "Namespace").as_arguments())


def complete_zone(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    zones = {(node.labels or {}).get(_ZONE, "") for node in _names(ctx, "Node").objects}
    return _beginning(incomplete, sorted(zones - {""}))


def complete_node(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _references(ctx, ctx.params.get("nodes") or (), incomplete, bare="Node")


def complete_pod(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _references(ctx, (), incomplete, bare="Pod")


def complete_pod_or_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from stowplan.app.sources.object_references import SINGULARS

    kinds = [word for kind, word in SINGULARS.items() if kind != "Node"]
    words = ctx.params.get("words") or ()
    return _references(ctx, words, incomplete, bare="Pod", first=kinds) or complete_file(ctx, param, incomplete)


def complete_workload(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """`KIND/[NS/]NAME`."""
    from stowplan.app.sources.object_references import SINGULARS, WORKLOADS

    kinds = [f"{SINGULARS[kind]}/" for kind in WORKLOADS if kind != "Pod"]
    return _references(ctx, (), incomplete, first=kinds)


def complete_question(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """`pending`, `KIND NAME…`, and names."""
    from stowplan.app.sources.object_references import SINGULARS

    words = tuple(ctx.params.get("question") or ())
    if words == ("pending",):
        return []
    # Before anything is typed, offer only what needs no request to the cluster.
    bare = "Pod" if incomplete or words else ""
    return _references(ctx, words, incomplete, bare=bare, first=("pending", *SINGULARS.values()))


def _references(
    ctx: click.Context, words: Sequence[str], incomplete: str, *, bare: str = "", first: Iterable[str] = ()
) -> list[CompletionItem]:
    """Names of the kind that the first of the `words` before says, or that is part of the incomplete one, or `bare`.

    `first`: words that may stand before all names.
    """
    from stowplan.app.sources.object_references import kind_of

    head, slash, rest = incomplete.partition("/")
    if slash and (kind := kind_of(head)):
        found = _names(ctx, kind, within=rest)
        return _beginning(incomplete, (f"{head}/{name}" for name in found.as_arguments()))
    known = () if words else _beginning(incomplete, first)
    kind = (kind_of(words[0]) if words else "") or bare
    names = _names(ctx, kind, within=incomplete).as_arguments() if kind else ()
    return [*known, *_beginning(incomplete, names)]


def _names(ctx: click.Context, kind: str, *, within: str = "") -> Names:
    """`within`: what is there of a name, which may begin with a namespace."""
    from stowplan.app.sources.object_names import names_in_cluster, names_in_files
    from stowplan.net.client.cluster_flags import ClusterFlags

    given: dict[str, Any] = ctx.params
    files, namespace = given.get("files"), given.get("namespace")
    if files:
        return names_in_files(kind, files, recursive=bool(given.get("recursive")), namespace=namespace)
    live = ClusterFlags.of(given)
    return names_in_cluster(kind, live, namespace=namespace, within=within.partition("/")[0] if "/" in within else None)


def _beginning(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


_COMMAND = "stowplan"
_VARIABLE = "_STOWPLAN_COMPLETE"


@click.command(short_help="Let your shell complete commands, files and names.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    """Print a completion script for SHELL. It completes commands, options, files, contexts, namespaces, kinds, and
    names of nodes, pods and workloads, from the files of -f or the live cluster. A cluster that does not answer within
    half a second offers no names.

    \b
    For this session, or in ~/.bashrc, ~/.zshrc:
      source <(stowplan completion bash)
      source <(stowplan completion zsh)
    For fish, once:
      stowplan completion fish > ~/.config/fish/completions/stowplan.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    script = found(ctx.find_root().command, {}, _COMMAND, _VARIABLE)
    click.echo(script.source_template % script.source_vars())
