"""`stowplan what-if`: compare the cluster before and after changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.cli.cluster_options import EXIT_CODES, NAMESPACE, Answered, cluster_of, question_options
from stowplan.app.cli.shell_completion import complete_node, complete_workload, file_option
from stowplan.app.command_line.error_reporting import InputError, reported
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from stowplan.app.sources.cluster_source import ClusterSource
    from stowplan.app.sources.object_references import Reference
    from stowplan.ask.what_if.hypothetical_changes import Change, Label, Scale, Taint

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
#: A node and a change of it.
_PAIR = (str, str)


@click.command("what-if", epilog=EXIT_CODES, short_help="Which pods would get or lose a node if something changed.")
@click.option("--add-nodes", type=click.IntRange(min=1), metavar="N", help="Add N nodes like that of --like.")
@click.option(
    "--like",
    metavar="NODE",
    shell_complete=complete_node,
    help="Add nodes like this one, with the pods of its DaemonSets.",
)
@click.option(
    "--remove",
    "removed",
    metavar="NODE",
    multiple=True,
    shell_complete=complete_node,
    help="Remove a node. Repeatable.",
)
@click.option(
    "--label",
    "labels",
    metavar="NODE KEY=VALUE",
    type=_PAIR,
    multiple=True,
    shell_complete=complete_node,
    help="Set a label of a node, or remove it with KEY-. Repeatable.",
)
@click.option(
    "--taint",
    "taints",
    metavar="NODE KEY=VALUE:EFFECT",
    type=_PAIR,
    multiple=True,
    shell_complete=complete_node,
    help="Set a taint of a node, or remove it with KEY-. Repeatable.",
)
@click.option(
    "--scale",
    "scales",
    metavar="KIND/[NS/]NAME=N",
    multiple=True,
    shell_complete=complete_workload,
    help="Scale a workload to N pods. Repeatable.",
)
@file_option(
    "--apply",
    "applied",
    multiple=True,
    help="Add or replace objects; a workload's pods are replaced, as by a rollout. Repeatable.",
)
@file_option(
    "--config",
    "new_config",
    help="Change the scheduler's KubeSchedulerConfiguration to this one, from that of --base-config.",
)
@NAMESPACE
@question_options(config="--base-config", no="a pod is pending after the changes, or not within a quota")
def what_if(
    *,
    add_nodes: int | None,
    like: str | None,
    removed: tuple[str, ...],
    labels: tuple[tuple[str, str], ...],
    taints: tuple[tuple[str, str], ...],
    scales: tuple[str, ...],
    applied: tuple[str, ...],
    new_config: str | None,
    output: str,
    exit_code: bool,
    **source: Any,
) -> None:
    """Compare the cluster before and after changes: which pods get a node, which lose theirs, and why pods are pending.
    Before and after, the scheduler first places all pods that it can.

    Changes are made in the order in which the options are listed here. Controllers recreate the pods of removed nodes
    and pods that a NoExecute taint evicts. Nothing is changed anywhere.

    \b
    Examples:
      stowplan what-if --add-nodes 3 --like node-1
      stowplan what-if --remove node-7 --taint node-8 dedicated=gpu:NoSchedule
      stowplan what-if -f cluster.json --scale deployment/shop/web=20 --label node-2 disk=ssd
      stowplan what-if -f cluster.json --config packing.yaml -o json
    """
    # Slow to import, and not needed for the help.
    from stowplan.app.sources.object_references import reference
    from stowplan.ask.loading.workloads import WORKLOAD_RESOURCES
    from stowplan.ask.what_if.hypothetical_changes import AddNodes, Reconfigure, Remove
    from stowplan.ask.what_if.hypothetical_nodes import MOST_NODES

    if (add_nodes is None) != (like is None):
        raise click.UsageError("--add-nodes N and --like NODE go together.")
    if add_nodes is not None and add_nodes > MOST_NODES:
        raise click.UsageError(f"--add-nodes {add_nodes}: want at most {MOST_NODES:,} nodes.")
    with reported(source["config"]):
        scaled = [_Scaling.of(text) for text in scales]
        workloads = [one.workload.workload(source["namespace"]) for one in scaled]
        about = cluster_of(
            **source, workloads=[one for one in workloads if one[0] in WORKLOAD_RESOURCES], quotas=bool(scales)
        )

        def found(node: str) -> str:
            return about.find_node(reference(node, kind="Node"))

        # Added nodes have names that are not known yet.
        changed = (lambda node: node) if add_nodes else found
        changes: list[Change] = [AddNodes(add_nodes, found(like))] if add_nodes and like else []
        changes += (Remove(found(node)) for node in removed)
        changes += (_label(changed(node), text) for node, text in labels)
        changes += (_taint(changed(node), text) for node, text in taints)
        changes += (one.change(about, source["files"], recursive=source["recursive"]) for one in scaled)
        changes += map(about.applied, applied)
    with reported(new_config):
        changes += [Reconfigure(new_config)] if new_config else []
        if not changes:
            raise click.UsageError("Say what changes: --add-nodes, --remove, --label, --taint, --scale, --apply, …")
        changed_cluster(about, changes).write(output, exit_code=exit_code)


def changed_cluster(
    about: ClusterSource, changes: Sequence[Change], *, stop: Callable[[], bool] | None = None
) -> Answered:
    """The cluster before and after the changes; as far as it is known once `stop` returns True."""
    from stowplan.ask.offline.scheduling import never
    from stowplan.ask.what_if.answer_text import what_if_page
    from stowplan.ask.what_if.before_and_after import what_if as compare
    from stowplan.ask.what_if.quotas import quota_limits, scaled_up

    record = compare(about.cluster, *changes, stop=stop or never)
    limits = quota_limits(about.cluster, about.quotas, scaled_up(about.cluster, changes))
    return Answered(
        cluster=about.cluster,
        record=record,
        page=what_if_page,
        no=bool(record.after.pending or limits),
        notes=[limit.text for limit in limits],
    )


def _label(node: str, text: str) -> Label:
    from stowplan.ask.what_if.hypothetical_changes import Label

    if text.endswith("-"):
        return Label(node, text[:-1], None)
    key, equals, value = text.partition("=")
    if not (key and equals) or "=" in value:
        raise InputError(f"--label {node} {text}: want KEY=VALUE, or KEY- to remove it")
    return Label(node, key, value)


def _taint(node: str, text: str) -> Taint:
    from stowplan.ask.what_if.hypothetical_changes import Taint

    if text.endswith("-"):
        return Taint(node, text[:-1], effect="")
    rest, colon, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    if not (colon and key) or effect not in _EFFECTS:
        raise InputError(f"--taint {node} {text}: want KEY[=VALUE]:EFFECT with {', '.join(_EFFECTS)}; or KEY-")
    return Taint(node, key, value, effect)


class _Scaling(PlainStruct, frozen=True):
    """--scale."""

    text: str
    workload: Reference
    replicas: int

    @classmethod
    def of(cls, text: str) -> _Scaling:
        from stowplan.app.sources.object_references import reference
        from stowplan.ask.what_if.hypothetical_pods import MOST_REPLICAS

        name, equals, number = text.rpartition("=")
        if not (equals and number.isdecimal()):
            raise InputError(f"--scale {text}: want KIND/[NS/]NAME=N")
        if int(number) > MOST_REPLICAS:
            raise InputError(f"--scale {text}: want at most {MOST_REPLICAS:,} pods")
        return cls(text, reference(name), int(number))

    def change(self, about: ClusterSource, files: Sequence[str], *, recursive: bool) -> Scale:
        from stowplan.app.sources.templates import template_named
        from stowplan.ask.loading.workloads import WORKLOAD_RESOURCES
        from stowplan.ask.what_if.hypothetical_changes import Scale

        kind, key = self.workload.kind, self.workload.in_namespace(about.namespace)
        if kind not in WORKLOAD_RESOURCES:
            hint = about.hint_about("", key)
            hint = hint or f"; give the kind of a workload, as in deployment/{self.workload.name}={self.replicas}"
            raise InputError(f"--scale {self.text}: {self.workload} cannot be scaled{hint}")
        namespace, _, name = key.partition("/")
        template = template_named(about, files, kind, key, recursive=recursive)
        return Scale(kind, namespace, name, self.replicas, None if template is None else about.admitted(template))
