"""`stowplan survive`: which pods could not be rescheduled after losing nodes, zones or racks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.cli.cluster_options import EXIT_CODES, Answered, cluster_of, question_options
from stowplan.app.cli.data_output import Progress
from stowplan.app.cli.shell_completion import complete_node
from stowplan.app.command_line.error_reporting import reported

if TYPE_CHECKING:
    from stowplan.app.sources.cluster_source import ClusterSource


@click.command(epilog=EXIT_CODES, short_help="Which pods would find no node after the loss of a node or zone.")
@click.option(
    "--by",
    metavar="node|LABEL",
    help="Lose one node at a time, or all nodes with the same value of a label. "
    "Default: zones if there are several, otherwise nodes.",
)
@click.option(
    "--only",
    metavar="VALUE",
    shell_complete=complete_node,
    help="Show only the loss of this node, or of this value of the label.",
)
@question_options(no="some loss leaves a pod without a node, or deletes one for good")
def survive(*, by: str | None, only: str | None, output: str, exit_code: bool, **source: Any) -> None:
    """Show what the loss of each node, zone or rack would cost, one loss at a time. Controllers recreate its pods, and
    the scheduler looks for other nodes. Pods that find none are stranded; pods without a controller are gone; pods
    elsewhere that are evicted to make room for these are displaced, and find another node themselves or are stranded.

    Nothing is changed anywhere.

    \b
    Examples:
      stowplan survive
      stowplan survive --by node
      stowplan survive --by topology.kubernetes.io/rack -f cluster.json -o json
    """
    with reported(source["config"]):
        about = cluster_of(**source)
        # A node at a time can take a minute in a large cluster.
        progress = Progress(unit="losses")
        try:
            found = losses(about, by, only, progress=partial(progress, "survive"))
        finally:
            progress.close()
        found.write(output, exit_code=exit_code)


def losses(
    about: ClusterSource,
    by: str | None,
    only: str | None,
    *,
    progress: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Answered:
    """What each loss would cost; as far as it is known once `stop` returns True."""
    # Slow to import, and not needed for the help.
    from stowplan.ask.offline.scheduling import never
    from stowplan.ask.what_if.answer_text import survive_page
    from stowplan.ask.what_if.survive import survive as what_survives

    about.note_unplaced()
    if only is not None:
        # The value of a label may have a slash.
        only = only.removeprefix("node/") if by in (None, "node") else only
    found = what_survives(about.cluster, by, only=only, progress=progress, stop=stop or never)
    no = any(loss.stranded or loss.gone for loss in found.losses)
    return Answered(cluster=about.cluster, record=found, page=survive_page, no=no)
