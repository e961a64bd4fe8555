"""`stowplan drain`: predict the effect of draining nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stowplan.api.label_selectors import SelectorError
from stowplan.api.selector_text import parse_label_selector
from stowplan.cli.about import about_a_cluster, answer, cluster_of
from stowplan.cli.shell_completion import complete_node, complete_zone
from stowplan.command_line.errors import InputError, reported
from stowplan.what_if.drain import drain as what_a_drain_does
from stowplan.what_if.nodes import nodes_of, zone_of
from stowplan.what_if.text import drain_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.sources.cluster_source import ClusterSource


@click.command(short_help="What draining nodes would do; evicts no pods.")
@click.argument("nodes", nargs=-1, metavar="[NODE…]", shell_complete=complete_node)
@click.option(
    "--zone",
    metavar="ZONE",
    shell_complete=complete_zone,
    help="All nodes of a zone (topology.kubernetes.io/zone).",
)
@click.option("-l", "--selector", metavar="SELECTOR", help="All nodes with these labels, such as pool=old,gpu!=yes.")
@click.option("--all", "all_nodes", is_flag=True, help="All nodes; with --max-unavailable, a rolling upgrade.")
@click.option(
    "--max-unavailable",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of nodes that are out at a time and come back empty. Default: all are gone for good.",
)
@about_a_cluster()
def drain(
    *,
    nodes: tuple[str, ...],
    zone: str | None,
    selector: str | None,
    all_nodes: bool,
    max_unavailable: int | None,
    output: str,
    **source: Any,
) -> None:
    """Show what draining nodes would do: where each pod would go, which would find no node and why, which disruption
    budgets would block it, and in which order to drain the nodes.

    This is always a dry run: no pod is evicted, nothing is changed.

    \b
    Examples:
      stowplan drain node-1 node-2
      stowplan drain --zone eu-1a
      stowplan drain -l pool=old --max-unavailable 2
      stowplan drain -f cluster.json --all --max-unavailable 1 -o json
    """
    if not (nodes or zone or selector or all_nodes):
        raise click.UsageError("Say which nodes: NODE…, --zone, -l or --all.")
    with reported(source["config"]):
        about = cluster_of(**source)
        for name in nodes:
            about.check_node(name)
        about.note_unplaced()
        chosen = [*nodes, *_chosen(about, zone, selector, all_nodes=all_nodes)]
        answer(about.cluster, what_a_drain_does(about.cluster, chosen, rolling=max_unavailable), drain_page, output)


def _chosen(about: ClusterSource, zone: str | None, selector: str | None, *, all_nodes: bool) -> Sequence[str]:
    if not (zone or selector or all_nodes):
        return ()
    try:
        wanted = parse_label_selector(selector or "")
    except SelectorError as error:
        raise InputError(f"-l {selector}: {error}") from error
    found = [
        node.metadata.name
        for node in nodes_of(about.cluster)
        if (zone is None or zone_of(node) == zone) and wanted.matches(node.metadata.labels)
    ]
    if not found:
        raise InputError("no node has this zone and these labels")
    return found
