"""`stowplan fit`: how many more copies of a pod fit, the limiting resource, and how many nodes to add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.cli.cluster_options import EXIT_CODES, NAMESPACE, Answered, cluster_of, question_options
from stowplan.app.cli.shell_completion import complete_node, complete_pod_or_file, file_option
from stowplan.app.command_line.error_reporting import InputError, reported

if TYPE_CHECKING:
    from stowplan.app.sources.cluster_source import ClusterSource
    from stowplan.app.sources.object_references import Reference
    from stowplan.ask.loading.workloads import WorkloadName
    from stowplan.ask.what_if.hypothetical_nodes import NodeKind
    from stowplan.kube.api.device_claims import ResourceClaimSpec
    from stowplan.kube.api.types import Pod


@click.command(
    epilog=EXIT_CODES, short_help="How many more pods of a kind fit, and how many nodes the rest would need."
)
@click.argument(
    "words",
    metavar="[KIND/][NS/]NAME|KIND NAME|podgroup/NAME|FILE",
    nargs=-1,
    shell_complete=complete_pod_or_file,
)
@click.option(
    "--more",
    "--replicas",
    "replicas",
    type=click.IntRange(min=0),
    metavar="N",
    help="How many more pods are wanted, beside those that there are. Default: as many as fit.",
)
@click.option(
    "--like",
    "likes",
    metavar="NODE[=PRICE]",
    shell_complete=complete_node,
    multiple=True,
    help="Try to add nodes like this one. Repeatable; with prices, the cheapest mix is shown.",
)
@file_option(
    "--node-template",
    "templates",
    metavar="FILE[=PRICE]",
    multiple=True,
    help="Try to add nodes like the Node in this file. Repeatable.",
)
@NAMESPACE
@question_options(no="fewer fit (or are within quotas) than --more wants, or none without it")
def fit(
    *,
    words: tuple[str, ...],
    replicas: int | None,
    likes: tuple[str, ...],
    templates: tuple[str, ...],
    output: str,
    exit_code: bool,
    **source: Any,
) -> None:
    """Show how many more pods like a pod, a workload or a manifest fit, on which nodes, and why the next one does not.
    With --more N (or --replicas N), also how many nodes to add so that N more fit, beside the pods that there are.

    Of a pod group (podgroup/NAME), it is groups that are counted, each of them whole.

    Without a pod: how many more pods of common shapes fit (one GPU, a node's GPUs, gangs, the most frequent requests),
    how many would if all that is free were together, and whether moving pods would make room. By resources alone.

    The scheduler itself decides, with the plugins of your configuration. No pod is evicted, and pods that are already
    pending are not placed first. Nothing is changed anywhere.

    \b
    Examples:
      stowplan fit
      stowplan fit shop/web-0
      stowplan fit deployment/web -n shop --replicas 20
      stowplan fit deployment/web --replicas 20 --exit-code || echo "there is no room"
      stowplan fit -f cluster.json new-service.yaml --replicas 50 --like node-3
      stowplan fit -f cluster.json podgroup/research/train --replicas 4
      stowplan fit gpu-job.yaml --replicas 64 --like small=0.40 --like large=1.20 -o json
    """
    if not words:
        if replicas is not None or likes or templates:
            raise click.UsageError("--more, --like and --node-template are about a pod, a workload or a file: name it.")
        with reported(source["config"]):
            room_left(cluster_of(**source)).write(output, exit_code=exit_code)
        return
    wanted = _wanted(words)
    group = wanted if not isinstance(wanted, Path) and wanted.kind == "PodGroup" else None
    files, recursive = source["files"], source["recursive"]
    with reported(source["config"]):
        about = cluster_of(
            **source, groups=group is not None, workloads=workloads_of(wanted, source["namespace"]), quotas=True
        )
        kinds = _kinds(about, likes, templates)
        if group is not None:
            found = groups_that_fit(about, group, replicas=replicas, kinds=kinds)
        else:
            pod, claims = _pod_of(about, wanted, files, recursive=recursive)
            found = pods_that_fit(about, pod, claims, replicas=replicas, kinds=kinds)
        found.write(output, exit_code=exit_code)


def groups_that_fit(
    about: ClusterSource, group: Reference, *, replicas: int | None, kinds: list[NodeKind] | None
) -> Answered:
    """How many more groups like an existing one fit; raises InputError."""
    from stowplan.ask.what_if.answer_text import group_fit_page
    from stowplan.ask.what_if.group_fit import fit_group

    record = fit_group(about.cluster, about.find_group(group), replicas=replicas, kinds=kinds)
    no = record.fits < (1 if replicas is None else replicas)
    return Answered(cluster=about.cluster, record=record, page=group_fit_page, no=no)


def pods_that_fit(
    about: ClusterSource,
    pod: Pod,
    claims: Mapping[str, ResourceClaimSpec],
    *,
    replicas: int | None,
    kinds: list[NodeKind] | None,
) -> Answered:
    """How many more copies of a pod fit, with the templates of its claims."""
    # Slow to import, and not needed for the help.
    from stowplan.ask.what_if.answer_text import fit_page
    from stowplan.ask.what_if.fit import fit as how_many_fit
    from stowplan.ask.what_if.quotas import quota_limits

    record = how_many_fit(about.cluster, pod, replicas=replicas, kinds=kinds, claim_templates=claims)
    enough = 1 if replicas is None else replicas
    more = record.fits if replicas is None else replicas
    limits = quota_limits(about.cluster, about.quotas, [(pod, max(more, enough))])
    return Answered(
        cluster=about.cluster,
        record=record,
        page=fit_page,
        no=min(record.fits, *(limit.allowed for limit in limits), enough) < enough,
        notes=[limit.text for limit in limits],
    )


def room_left(about: ClusterSource) -> Answered:
    """How many more pods of common shapes fit."""
    from stowplan.ask.rebalance.gained_room import room
    from stowplan.ask.rebalance.plan_text import room_page

    found = room(about.cluster)
    no = any(not shape.fits for shape in found.room.shapes)
    return Answered(cluster=about.cluster, record=found, page=room_page, no=no)


def workloads_of(wanted: Reference | Path, namespace: str | None) -> list[WorkloadName]:
    """To read of a live cluster."""
    from stowplan.ask.loading.workloads import WORKLOAD_RESOURCES

    if isinstance(wanted, Path) or wanted.kind not in WORKLOAD_RESOURCES:
        return []
    return [wanted.workload(namespace)]


def _wanted(words: Sequence[str]) -> Reference | Path:
    """What is copied, or the file that has it; raises click.UsageError."""
    from stowplan.app.sources.object_references import references

    if len(words) == 1 and _is_file(words[0]):
        return Path(words[0])
    found = references(words)
    if len(found) > 1:
        raise click.UsageError(f"Ask about one pod, workload or file; got {' '.join(words)!r}.")
    return not_a_node(found[0])


def not_a_node(wanted: Reference) -> Reference:
    """What can be copied; raises click.UsageError."""
    if wanted.kind == "Node":
        raise click.UsageError(
            f"{wanted} is a node: ask how many copies of a pod or workload fit, as in fit shop/web-0."
        )
    return wanted


def _kinds(about: ClusterSource, likes: Sequence[str], templates: Sequence[str]) -> list[NodeKind] | None:
    return [*_node_kinds(about, likes), *_templates(templates)] or None


def _is_file(what: str) -> bool:
    return what.endswith((".yaml", ".yml", ".json")) or Path(what).is_file()


def _pod_of(
    about: ClusterSource, wanted: Reference | Path, files: Sequence[str], *, recursive: bool
) -> tuple[Pod, Mapping[str, ResourceClaimSpec]]:
    """The pod to copy, and the templates of its claims."""
    from stowplan.app.sources.templates import claim_templates_of, pod_in, pod_named

    if isinstance(wanted, Path):
        pod = about.admitted(pod_in(about, str(wanted)))
        files = [*files, str(wanted)]
    else:
        pod = about.admitted(pod_named(about, files, wanted, recursive=recursive))
    return pod, claim_templates_of(pod, files, recursive=recursive)


def _node_kinds(about: ClusterSource, given: Sequence[str]) -> Iterator[NodeKind]:
    from stowplan.app.sources.object_references import reference
    from stowplan.ask.what_if.hypothetical_nodes import NodeKind

    for text in given:
        name, price = _priced(text, "--like")
        yield NodeKind(about.find_node(reference(name, kind="Node")), price)


def _templates(given: Sequence[str]) -> Iterator[NodeKind]:
    from stowplan.app.sources.templates import read_checked
    from stowplan.ask.what_if.hypothetical_nodes import NodeKind
    from stowplan.kube.api.types import Node

    for text in given:
        path, price = _priced(text, "--node-template")
        nodes = [obj for obj in read_checked(path).objects if isinstance(obj, Node)]
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
