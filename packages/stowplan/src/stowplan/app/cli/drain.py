"""`stowplan drain`: predict the effect of draining nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.cli.cluster_options import EXIT_CODES, Answered, cluster_of, question_options
from stowplan.app.cli.data_output import Progress
from stowplan.app.cli.shell_completion import complete_node, complete_zone
from stowplan.app.command_line.error_reporting import InputError, reported
from stowplan.kube.api.label_selectors import Selector
from stowplan.scheduler.framework.explanations.formatting import listed

if TYPE_CHECKING:
    from stowplan.app.sources.cluster_source import ClusterSource
    from stowplan.app.sources.object_references import Reference

#: Flags of kubectl drain that are assumed: without them it would refuse.
_ASSUMED = ("--ignore-daemonsets", "--delete-emptydir-data")
_TIMES = ("--grace-period", "--timeout", "--skip-wait-for-delete-timeout")
_BOOLEANS = (*_ASSUMED, "--force", "--disable-eviction", "--dry-run")


class _AsKubectl(click.Command):
    """Accepts kubectl's spelling of booleans, `--force=true`, and of `--dry-run=server`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_without_values(args)))


def _without_values(args: list[str]) -> Iterator[str]:
    for arg in args:
        name, equals, value = arg.partition("=")
        if not equals or name not in _BOOLEANS:
            yield arg
        elif value.lower() != "false":
            yield name


def _kubectls_flags(command: Callable[..., Any]) -> Any:
    """Flags that change nothing here; they are accepted so that a command line of kubectl drain can be pasted."""
    for name in (*_ASSUMED, "--dry-run"):
        command = click.option(name, hidden=True, is_flag=True, expose_value=False)(command)
    for name in _TIMES:
        command = click.option(name, hidden=True, expose_value=False, callback=_note_time)(command)
    for names in (("--chunk-size",), ("-n", "--namespace")):
        command = click.option(*names, hidden=True, expose_value=False)(command)
    return command


def _note_time(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        click.echo(f"note: {param.opts[0]} has no effect: nothing is deleted here, and nothing waited for", err=True)


@click.command(cls=_AsKubectl, epilog=EXIT_CODES, short_help="What draining nodes would do; evicts no pods.")
@click.argument("nodes", nargs=-1, metavar="[NODE…]", shell_complete=complete_node)
@click.option(
    "--zone",
    metavar="ZONE",
    shell_complete=complete_zone,
    help="Drain all nodes of this zone (topology.kubernetes.io/zone).",
)
@click.option(
    "-l", "--selector", metavar="SELECTOR", help="Drain all nodes with these labels, such as pool=old,gpu!=yes."
)
@click.option("--all", "all_nodes", is_flag=True, help="Drain all nodes; with --max-unavailable, a rolling upgrade.")
@click.option(
    "--max-unavailable",
    type=click.IntRange(min=1),
    metavar="N",
    help="Take out at most N nodes at a time, which come back empty. Default: all are gone for good.",
)
@click.option("--pod-selector", metavar="SELECTOR", help="Drain only pods with these labels; others stay.")
@click.option("--disable-eviction", is_flag=True, help="Delete pods instead of evicting them: budgets do not block.")
@click.option("--force", is_flag=True, help="With --exit-code: do not count pods that no controller recreates.")
@_kubectls_flags
@question_options(
    no="a pod finds no node, a disruption budget blocks the drain, or, without --force, a pod is lost for good"
)
def drain(
    *,
    nodes: tuple[str, ...],
    zone: str | None,
    selector: str | None,
    all_nodes: bool,
    max_unavailable: int | None,
    pod_selector: str | None,
    disable_eviction: bool,
    force: bool,
    output: str,
    exit_code: bool,
    **source: Any,
) -> None:
    """Show what draining nodes would do: where each pod would go, which would find no node and why, which disruption
    budgets would block it, and in which order to drain the nodes.

    This is always a dry run: no pod is evicted, nothing is changed. The flags of kubectl drain are accepted:
    --ignore-daemonsets, --delete-emptydir-data and --force are assumed, the answer names the pods that need them;
    --grace-period, --timeout and the like have no effect.

    \b
    Examples:
      stowplan drain node-1 node-2
      stowplan drain --zone eu-1a
      stowplan drain -l pool=old --max-unavailable 2
      stowplan drain node-1 --exit-code && kubectl drain node-1 --ignore-daemonsets
      stowplan drain -f cluster.json --all --max-unavailable 1 -o json
    """
    # Slow to import, and not needed for the help.
    from stowplan.app.sources.object_references import references

    if not (nodes or zone or selector or all_nodes):
        raise click.UsageError("Say which nodes: NODE…, --zone, -l or --all.")
    wanted = references(nodes)
    with reported(source["config"]):
        pods = labels_of("--pod-selector", pod_selector)
        about = cluster_of(**source)
        progress = Progress(unit="nodes")
        try:
            found = drained(
                about,
                wanted,
                zone=zone,
                selector=selector,
                all_nodes=all_nodes,
                max_unavailable=max_unavailable,
                pods=pods,
                disable_eviction=disable_eviction,
                force=force,
                progress=partial(progress, "drain"),
            )
        finally:
            progress.close()
        found.write(output, exit_code=exit_code)


def drained(
    about: ClusterSource,
    nodes: Sequence[Reference],
    *,
    zone: str | None,
    selector: str | None,
    all_nodes: bool,
    max_unavailable: int | None,
    pods: Selector,
    disable_eviction: bool,
    force: bool = False,
    progress: Callable[[int, int], object] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Answered:
    """What the drain would do, by the options of the command; raises InputError.

    As far as it is known once `stop` returns True.
    """
    from stowplan.ask.offline.scheduling import never
    from stowplan.ask.what_if.answer_text import drain_page
    from stowplan.ask.what_if.drain import drain as what_a_drain_does

    chosen = [about.find_node(node) for node in nodes]
    if zone or selector or all_nodes:
        chosen += _nodes_of(about, zone, selector)
    about.note_unplaced()
    record = what_a_drain_does(
        about.cluster,
        chosen,
        rolling=max_unavailable,
        pods=pods,
        budgets=not disable_eviction,
        progress=progress,
        stop=stop or never,
    )
    no = bool(record.stranded or record.blocked_by or (record.lost and not force))
    return Answered(cluster=about.cluster, record=record, page=drain_page, no=no)


def labels_of(option: str, text: str | None) -> Selector:
    from stowplan.kube.api.label_selectors import SelectorError
    from stowplan.kube.api.selector_text import parse_label_selector

    try:
        return parse_label_selector(text or "")
    except SelectorError as error:
        raise InputError(f"{option} {text}: {error}") from error


def _nodes_of(about: ClusterSource, zone: str | None, selector: str | None) -> list[str]:
    from stowplan.ask.what_if.hypothetical_nodes import nodes_of, zone_of

    labels = labels_of("--selector", selector)
    found = [
        node.metadata.name
        for node in nodes_of(about.cluster)
        if (zone is None or zone_of(node) == zone) and labels.matches(node.metadata.labels)
    ]
    if not found:
        wanted = [*([f"the zone {zone}"] if zone else []), *([f"the labels {selector}"] if selector else [])]
        zones = sorted({zone_of(node) for node in nodes_of(about.cluster)} - {""})
        there = f"; zones there: {listed(zones, 5)}" if zone and zones else ""
        raise InputError(f"no node has {' and '.join(wanted)}{there}" if wanted else "there is no node")
    return found
