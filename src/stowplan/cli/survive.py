"""`stowplan survive`: what would not come back if nodes, zones or racks were lost."""

from __future__ import annotations

from typing import Any

import click

from stowplan.cli.about import about_a_cluster, answer, cluster_of
from stowplan.command_line.errors import reported
from stowplan.what_if.survive import survive as what_survives
from stowplan.what_if.text import survive_page


@click.command(short_help="What would not come back if nodes or zones were lost.")
@click.option(
    "--by",
    metavar="node|LABEL",
    help="What is lost at a time: each node, or the nodes that share a label's value. "
    "Without it, zones where there are several, otherwise nodes.",
)
@click.option("--only", metavar="VALUE", help="Just this node, or this value of the label.")
@about_a_cluster()
def survive(*, by: str | None, only: str | None, output: str, **source: Any) -> None:
    """Say what the loss of each node, zone or rack would cost: its pods are made anew by their controllers and look for
    another node, one loss at a time. What finds none is stranded; pods without a controller are gone.

    Nothing is changed anywhere.

    \b
    Examples:
      stowplan survive
      stowplan survive --by node
      stowplan survive --by topology.kubernetes.io/rack -f cluster.json -o json
    """
    with reported(source["config"]):
        about = cluster_of(**source)
        answer(what_survives(about.cluster, by, only=only), survive_page, output)
