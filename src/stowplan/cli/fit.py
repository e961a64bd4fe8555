"""`stowplan fit`: how many more copies of a pod fit, the limiting resource, and how many nodes to add."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stowplan.api.load import load_files
from stowplan.api.types import Node
from stowplan.cli.about import NAMESPACE, about_a_cluster, answer, cluster_of
from stowplan.cli.shell_completion import complete_file, complete_node, complete_pod_or_file
from stowplan.command_line.errors import InputError, reported
from stowplan.sources.templates import KINDS, POD_GROUP, claim_templates_of, pod_in, pod_named
from stowplan.what_if.fit import fit as how_many_fit
from stowplan.what_if.group_fit import fit_group
from stowplan.what_if.nodes import NodeKind
from stowplan.what_if.text import fit_page, group_fit_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stowplan.api.types import Pod
    from stowplan.sources.cluster_source import ClusterSource


@click.command(short_help="How many more pods of a kind fit, and how many nodes the rest would need.")
@click.argument(
    "words",
    metavar="POD|KIND/NAME|KIND NAME|podgroup/NAME|FILE",
    nargs=-1,
    required=True,
    shell_complete=complete_pod_or_file,
)
@click.option(
    "--replicas", type=click.IntRange(min=0), metavar="N", help="Number of pods wanted. Default: as many as fit."
)
@click.option(
    "--like",
    "likes",
    metavar="NODE[=PRICE]",
    shell_complete=complete_node,
    multiple=True,
    help="Node that you could get more of, and its price. Repeatable; prices show the cheapest mix.",
)
@click.option(
    "--node-template",
    "templates",
    metavar="FILE[=PRICE]",
    multiple=True,
    shell_complete=complete_file,
    help="The same for a Node in a file.",
)
@NAMESPACE
@about_a_cluster()
def fit(
    *,
    words: tuple[str, ...],
    replicas: int | None,
    likes: tuple[str, ...],
    templates: tuple[str, ...],
    output: str,
    **source: Any,
) -> None:
    """Show how many more pods like a pod, a workload or a manifest fit, on which nodes, and why the next one does not.
    With --replicas, also how many nodes to add so that all of them fit.

    Of a pod group (podgroup/NAME), it is groups that are counted, each of them whole.

    The scheduler itself decides, with the plugins of your configuration. No pod is evicted, and pods that are already
    pending are not placed first. Nothing is changed anywhere.

    \b
    Examples:
      stowplan fit shop/web-0
      stowplan fit deployment/web -n shop --replicas 20
      stowplan fit -f cluster.json new-service.yaml --replicas 50 --like node-3
      stowplan fit -f cluster.json podgroup/research/train --replicas 4
      stowplan fit gpu-job.yaml --replicas 64 --like small=0.40 --like large=1.20 -o json
    """
    what = "/".join(words)
    if len(words) > 2 or (len(words) == 2 and words[0].lower() not in (*KINDS, *POD_GROUP)):
        raise click.UsageError(f"Ask about one pod, workload or file; got {' '.join(words)!r}.")
    with reported(source["config"]):
        about = cluster_of(**source, groups=_named_group(what) is not None)
        if (group := _named_group(what)) is not None:
            found = fit_group(
                about.cluster, about.find_group(group), replicas=replicas, kinds=_kinds(about, likes, templates)
            )
            answer(about.cluster, found, group_fit_page, output)
            return
        recursive = source["recursive"]
        pod = about.admitted(_pod_of(about, what, source["files"], recursive=recursive))
        files = [*source["files"], what] if _is_file(what) else source["files"]
        claims = claim_templates_of(pod, files, recursive=recursive)
        kinds = _kinds(about, likes, templates)
        record = how_many_fit(about.cluster, pod, replicas=replicas, kinds=kinds, claim_templates=claims)
        answer(about.cluster, record, fit_page, output)


def _named_group(what: str) -> str | None:
    kind, slash, name = what.partition("/")
    return name if slash and name and kind.lower() in POD_GROUP else None


def _kinds(about: ClusterSource, likes: Sequence[str], templates: Sequence[str]) -> list[NodeKind] | None:
    return [*_likes(about, likes), *_templates(templates)] or None


def _is_file(what: str) -> bool:
    return what.endswith((".yaml", ".yml", ".json")) or Path(what).is_file()


def _pod_of(about: ClusterSource, what: str, files: Sequence[str], *, recursive: bool) -> Pod:
    if _is_file(what):
        return pod_in(what)
    return pod_named(about, files, what, recursive=recursive)


def _likes(about: ClusterSource, given: Sequence[str]) -> Iterator[NodeKind]:
    for text in given:
        name, price = _priced(text, "--like")
        about.check_node(name)
        yield NodeKind(name, price)


def _templates(given: Sequence[str]) -> Iterator[NodeKind]:
    for text in given:
        path, price = _priced(text, "--node-template")
        nodes = [obj for obj in load_files([path]).objects if isinstance(obj, Node)]
        if len(nodes) != 1:
            raise InputError(f"--node-template {path}: want one Node, got {len(nodes)}")
        yield NodeKind(nodes[0], price)


def _priced(text: str, option: str) -> tuple[str, float | None]:
    name, equals, price = text.rpartition("=")
    if not equals:
        return text, None
    try:
        amount = float(price)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < float("inf"):
        raise InputError(f"{option} {text}: want a price of 0 or more after =, got {price!r}")
    return name, amount
