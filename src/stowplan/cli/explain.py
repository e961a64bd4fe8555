"""`stowplan explain`: why a pod is placed or pending; what a node accepts and rejects."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from stowplan.cli.about import POD_GROUPS, a_scheduler
from stowplan.cli.data_output import write_data
from stowplan.cli.moment_option import moment_from_option
from stowplan.cli.shell_completion import (
    complete_context,
    complete_file,
    complete_pod,
    complete_question,
)
from stowplan.command_line.errors import reported
from stowplan.command_line.event_loop import run
from stowplan.explain.detailed_record import detailed, in_short
from stowplan.explain.group_text import group_page
from stowplan.explain.kinds import kinds_of
from stowplan.explain.node_text import node_page
from stowplan.explain.node_view import NodeView, node_view
from stowplan.explain.overview import Group, overview, summary
from stowplan.explain.tables import Line, plain, write
from stowplan.explain.text import explanation
from stowplan.framework.explanations.formatting import count
from stowplan.inspection.records import VerdictListRecord, document
from stowplan.sources.cluster_source import ClusterSource
from stowplan.sources.selection import Selection, spelled
from stowplan.sources.templates import POD_GROUP, named_object
from stowplan.what_if.group_relief import group_relief
from stowplan.what_if.relief import relief

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.engine.engine import Engine
    from stowplan.explain.reported_status import ReportedStatus
    from stowplan.explain.tables import Block
    from stowplan.inspection.records import GroupVerdictRecord, VerdictRecord

    _Told = tuple[Group, ReportedStatus | None]

_WANTED = 'Ask for "pod [NS/]NAME…", "deployment/NAME", "podgroup/NAME", "pending" or "node NAME"'
#: Groups of equal pods that a page explains, where many are asked about.
_GROUPS = 10
#: With --exit-code: some pod gets no node.
_SOME_WITHOUT_NODE = 3


@click.command(short_help="Why a pod goes where it goes, or nowhere.")
@click.argument(
    "question",
    nargs=-1,
    metavar="[pod [NS/]NAME… | KIND/[NS/]NAME… | podgroup/[NS/]NAME | pending | node NAME]",
    shell_complete=complete_question,
)
@click.option(
    "-f",
    "--filename",
    "files",
    metavar="FILE",
    shell_complete=complete_file,
    multiple=True,
    help="File, directory or - for stdin. Repeatable. Without it, a live cluster is asked.",
)
@click.option("-R", "--recursive", is_flag=True, help="Of directories, read the folders in them, too.")
@click.option(
    "--recording",
    metavar="FILE",
    shell_complete=complete_file,
    help="Ask about a moment of a recording (stowplan record, kube-scheduler --record).",
)
@click.option("--at", metavar="TIME", help="The moment, as 2026-11-20T12:03 (UTC); without it, the recording's end.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    shell_complete=complete_file,
    help="Kubeconfig of the live cluster. Default: found as kubectl finds it.",
)
@click.option(
    "--context",
    metavar="NAME",
    shell_complete=complete_context,
    help="Context of the kubeconfig. Default: the current one.",
)
@click.option(
    "--config",
    metavar="FILE",
    shell_complete=complete_file,
    help="KubeSchedulerConfiguration. Default: kube-scheduler's defaults.",
)
@click.option("--no-extenders", is_flag=True, help="Do not ask the extenders of the configuration.")
@click.option(
    "--pod",
    "pod",
    metavar="[NS/]NAME",
    shell_complete=complete_pod,
    help="The pod to explain, pending or placed.",
)
@click.option("--pending", is_flag=True, help="All pods without a node. The default question.")
@click.option("-n", "--namespace", metavar="NS", help="Namespace of the pods that are named or pending.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Pending pods of all namespaces; the default.")
@click.option(
    "-l", "--selector", metavar="LABELS", default="", help="Only pods with these labels, in kubectl's syntax."
)
@click.option("--field-selector", metavar="FIELDS", default="", help="Only pods with these fields.")
@click.option("-w", "--watch", is_flag=True, help="Answer again whenever the answer changes; needs a live cluster.")
@click.option("--watch-interval", metavar="SECONDS", type=click.FloatRange(min=0.1), default=5.0, show_default=True)
@click.option("--exit-code", is_flag=True, help=f"Exit with {_SOME_WITHOUT_NODE} if any of the pods gets no node.")
@click.option("-o", "--output", type=click.Choice(["text", "wide", "json", "yaml"]), default="text", show_default=True)
@click.option("--plugin", "plugins", metavar="MODULE:CLASS", multiple=True, help="Plugin of your own. Repeatable.")
@POD_GROUPS
@a_scheduler
def explain(
    *,
    question: tuple[str, ...],
    files: tuple[str, ...],
    recursive: bool,
    recording: str | None,
    at: str | None,
    kubeconfig: str | None,
    context: str | None,
    config: str | None,
    pod: str | None,
    pending: bool,
    namespace: str | None,
    all_namespaces: bool,
    selector: str,
    field_selector: str,
    watch: bool,
    watch_interval: float,
    exit_code: bool,
    output: str,
    plugins: tuple[str, ...],
    no_extenders: bool,
    pod_groups: bool,
    from_scheduler: str | None,
    token_file: str | None,
    certificate_authority: str | None,
    insecure_skip_tls_verify: bool,
) -> None:
    """Show which node a pod gets and why, why every other node was refused, and what would help a pod that fits
    nowhere. Or show what is on a node, which pending pods it takes and why it refuses the others.

    Reads a live cluster or, with -f, manifests and what `kubectl get -o json` writes (or yaml, which takes longer).
    Nothing is changed anywhere. A pod that already has a node is judged as if it were to be placed now.

    For several pods, a summary comes first; then each group of equal pods is explained, the largest first. A workload
    in a file that has no pods yet stands for the pods that it asks for.

    A pod group is judged as a whole: which of its pods fit together, in which domain, what is lacking, and what would
    help. Where the files have PodGroups, the feature gates of groups are on, and a pod of a group is explained with it.

    With --from-scheduler, a running scheduler answers from its own state, which includes pods that are being placed,
    and shows what happened to the pod so far.

    With --recording and --at, the answer is the one that would have been given then.

    \b
    Exit codes:
      0    there is an answer, even if a pod gets no node
      1    a bug in Stowplan
      2    the question, the files or the cluster are at fault
      3    with --exit-code: some pod gets no node

    \b
    Examples:
      stowplan explain pod shop/web-0
      stowplan explain deployment/shop/web
      stowplan explain --kubeconfig admin.conf pending -n shop -l app=web
      stowplan explain node worker-3 -o wide
      stowplan explain -f cluster.json podgroup/research/train
      kubectl get ns,no,po,svc,rs,rc,sts,pdb,pc,pvc,pv,sc,csinodes,csidrivers,csistoragecapacities,volumeattachments \\
        -A -o json | stowplan explain -f -
      stowplan explain -f cluster.json -f new-pod.yaml pod new-pod
      stowplan explain -f cluster.json --config scheduler.yaml -o json
      stowplan explain --recording cluster.recording --at 2026-11-20T12:03 pod shop/web-0
      stowplan explain --from-scheduler https://10.0.0.7:10259 --certificate-authority scheduler-ca.crt pod shop/web-0
    """
    if pod and pending:
        raise click.UsageError("--pod and --pending exclude each other.")
    if files and (kubeconfig or context):
        raise click.UsageError("-f reads files, --kubeconfig and --context a live cluster: give one or the other.")
    if recursive and not files:
        raise click.UsageError("-R is for the directories of -f.")
    if namespace is not None and all_namespaces:
        raise click.UsageError("-n and -A exclude each other.")
    if at is not None and recording is None:
        raise click.UsageError("--at is for a moment of a recording: give --recording FILE.")
    if recording is not None:
        elsewhere = {"-f": files, "--kubeconfig": kubeconfig, "--context": context, "--from-scheduler": from_scheduler}
        _excluded("--recording has a cluster of its own", elsewhere | {"--watch": watch})
    when = moment_from_option(at)
    what, names = _asked(question, pod, pending=pending)
    only_there = {
        "--token-file": token_file,
        "--certificate-authority": certificate_authority,
        "--insecure-skip-tls-verify": insecure_skip_tls_verify,
    }
    if from_scheduler is not None:
        _excluded(
            "--from-scheduler asks a scheduler that has its own", {"-f": files, "--config": config, "--plugin": plugins}
        )
        _excluded(
            "a scheduler is asked about one pod or all that wait",
            {
                "-n": namespace if what == "pending" else None,
                "-l": selector,
                "--field-selector": field_selector,
                "--watch": watch,
                "--exit-code": exit_code,
            },
        )
        _excluded(
            "the kubeconfig is not read with --token-file",
            {"--kubeconfig": kubeconfig, "--context": context} if token_file else {},
        )
        _ask_scheduler(
            what,
            names,
            namespace,
            output,
            url=from_scheduler,
            kubeconfig=kubeconfig,
            context=context,
            token_file=token_file,
            certificate_authority=certificate_authority,
            insecure=insecure_skip_tls_verify,
            extenders=not no_extenders,
        )
        return
    _excluded("for --from-scheduler only", only_there)
    if what == "node":
        of_pods = {"-n": namespace, "-l": selector, "--field-selector": field_selector, "--exit-code": exit_code}
        _excluded("a node is asked about, these are about pods", of_pods)
    if what == "podgroup":
        _excluded("a group is asked about, these are about pods", {"-l": selector, "--field-selector": field_selector})
        if namespace is not None and "/" not in names[0]:
            names = [f"{namespace}/{names[0]}"]
    if watch and (files or output in ("json", "yaml")):
        raise click.UsageError("--watch is for a live cluster, and for text: give neither -f nor -o json or yaml.")
    with reported(config):
        selection = Selection.of(
            [] if what == "podgroup" else names, namespace=namespace, labels=selector, fields=field_selector
        )

        def cluster() -> ClusterSource:
            if recording is not None:
                found = ClusterSource.of_recording(recording, when, config, plugins)
            elif files:
                found = ClusterSource.of_files(files, config, plugins, recursive=recursive)
                found.check_nodes()
            else:
                found = run(
                    ClusterSource.of_live_cluster(
                        kubeconfig=kubeconfig,
                        context=context,
                        config=config,
                        plugins=plugins,
                        pod=_one_pod(what, selection),
                        groups=pod_groups or what == "podgroup",
                    )
                )
            found.extenders = not no_extenders
            return found

        def answer() -> _Answer:
            about = cluster()
            match what:
                case "node":
                    return _about_node(about, names[0], output)
                case "podgroup":
                    return _about_group(about, names[0], output)
            return _about_pods(about, selection, output)

        if watch:
            _watched(answer, watch_interval)
            return
        found = answer()
        found.write(output)
    if exit_code and found.some_without_node:
        raise SystemExit(_SOME_WITHOUT_NODE)


def _asked(words: Sequence[str], pod: str | None, *, pending: bool) -> tuple[str, list[str]]:
    """(pods, pending, node or podgroup; the names)."""
    if words and (pod or pending):
        raise click.UsageError(f"{_WANTED}, or use --pod or --pending, not both.")
    match list(words):
        case []:
            return ("pods", [pod]) if pod else ("pending", [])
        case ["pending"]:
            return "pending", []
        case ["node" | "nodes" | "no", name] if name:
            return "node", [name]
        case [one] if one.startswith(("node/", "no/")) and one.partition("/")[2]:
            return "node", [one.partition("/")[2]]
        case [kind, name] if kind.lower() in POD_GROUP and name:
            return "podgroup", [name]
        case [one] if one.partition("/")[0].lower() in POD_GROUP and one.partition("/")[2]:
            return "podgroup", [one.partition("/")[2]]
        case [first, *_] if first != "pending" and (len(words) > 1 or "/" in first):
            names = spelled(words)
            if all(names):
                return "pods", names
    raise click.UsageError(f"{_WANTED}; got {' '.join(words)!r}.")


def _one_pod(what: str, selection: Selection) -> str:
    """The pod whose Events are of interest."""
    if what != "pods" or not selection.is_one_pod:
        return ""
    _, namespace, name = named_object(selection.names[0], selection.namespace or "")
    return f"{namespace}/{name}" if namespace else name


def _excluded(why: str, options: Mapping[str, object]) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        raise click.UsageError(f"{', '.join(given)}: {why}.")


@dataclass(frozen=True)
class _Answer:
    """As data or as a page."""

    data: Callable[[], dict[str, Any]]
    page: Callable[[], list[Block]]
    some_without_node: bool = False

    def write(self, output: str) -> None:
        if output in ("json", "yaml"):
            write_data(self.data(), output)
        else:
            write(self.page(), sys.stdout)


def _watched(answer: Callable[[], _Answer], interval: float) -> None:
    """Again and again, until somebody interrupts; what is as before is not said again."""
    said = ""
    while True:
        page = answer().page()
        text = plain(page)
        if text != said:
            stamp = time.strftime("%H:%M:%S")
            write([*([Line()] if said else []), Line(((f"-- {stamp}", "dim"),)), *page], sys.stdout)
            sys.stdout.flush()
            said = text
        time.sleep(interval)


# -- pods -----------------------------------------------------------------------------------------------------------


def _about_pods(about: ClusterSource, selection: Selection, output: str) -> _Answer:
    pods = selection.pods(about)
    kinds = [(first, Group(about.verdict(first), alike)) for first, alike in kinds_of(about.engine, pods)]
    groups = [group for _, group in kinds]
    reported = [about.reported(first) for first, _ in kinds]
    engine = about.cluster.engine
    wide = output == "wide"

    def data() -> dict[str, Any]:
        if selection.is_one_pod and groups:
            return document(
                replace(_record(detailed, engine, groups[0], reported[0]), pod_group=_group_of(about, pods))
            )
        found = tuple(_record(in_short, engine, *one) for one in zip(groups, reported, strict=True))
        told = summary(groups, relief(about.cluster, groups))
        return document(VerdictListRecord(kind="ExplainList", summary=told, verdicts=found))

    def page() -> list[Block]:
        if not groups:
            return [Line(_nobody(about, selection))]
        shown = _most_first(list(zip(groups, reported, strict=True)), wide)
        several = len(groups) > 1
        blocks = overview(summary(groups, relief(about.cluster, groups)), wide=wide) if several else []
        for group, status in shown:
            blocks += [Line()] if blocks else []
            blocks += explanation(engine, group.verdict, wide=wide, alike=group.alike, reported=status)
        for group_name in about.groups_of(pods)[:_GROUPS]:
            verdict = about.cluster.explain_group(group_name, extenders=about.extenders)
            found = group_page(verdict, group_relief(about.cluster, verdict), wide=wide)
            blocks += [Line(), Line((("That is each pod alone. It is scheduled with its group:", "pending"),)), *found]
        left = sum(len(group.keys) for group in groups) - sum(len(group.keys) for group, _ in shown)
        if left:
            more = f"… and {count(left, 'more pod')} in {count(len(groups) - len(shown), 'group')} of equal ones"
            blocks += [Line(), Line(((f"{more}: -o wide explains all, `explain pod NAME` one", "dim"),))]
        return blocks

    return _Answer(data, page, any(not group.verdict.node_name for group in groups))


def _group_of(about: ClusterSource, pods: Sequence[PodInfo]) -> GroupVerdictRecord | None:
    """The verdict on the group that a pod is in."""
    for group in about.groups_of(pods):
        return about.group_record(group)
    return None


def _nobody(about: ClusterSource, selection: Selection) -> str:
    if selection.names:
        return "No pod that was named has these labels and fields."
    if selection.narrows:
        return "No pod of those that were asked for is pending."
    # The others are told of in a note.
    others = " for the schedulers of this configuration" if about.cluster.pending() else ""
    return f"No pod is pending{others}."


def _most_first(found: list[_Told], wide: bool) -> list[_Told]:
    """Those that wait and can be helped before those that have a node; the largest group first."""
    if wide or len(found) <= _GROUPS:
        return found
    return sorted(found, key=lambda one: (bool(one[0].verdict.node_name), -len(one[0].keys)))[:_GROUPS]


def _record(
    made: Callable[..., VerdictRecord], engine: Engine, group: Group, reported: ReportedStatus | None
) -> VerdictRecord:
    # The record has advice that was asked for.
    _ = group.verdict.advice
    record = made(engine, group.verdict, group.alike) if made is in_short else made(engine, group.verdict)
    return replace(record, scheduler=None if reported is None else reported.record())


# -- a group --------------------------------------------------------------------------------------------------------


def _about_group(about: ClusterSource, name: str, output: str) -> _Answer:
    verdict = about.cluster.explain_group(about.find_group(name), extenders=about.extenders)
    found = group_relief(about.cluster, verdict)
    return _Answer(
        lambda: document(replace(verdict.record(), relief=tuple(found))),
        lambda: group_page(verdict, found, wide=output == "wide"),
        some_without_node=not verdict.fits,
    )


# -- a node ---------------------------------------------------------------------------------------------------------


def _about_node(about: ClusterSource, name: str, output: str) -> _Answer:
    about.check_node(name)
    view = _view(about, name)
    return _Answer(lambda: document(view.record()), lambda: node_page(view, wide=output == "wide"))


def _view(about: ClusterSource, name: str) -> NodeView:
    kinds = kinds_of(about.engine, about.pending())
    questions = ((about.verdict(first), (first.key, *alike)) for first, alike in kinds)
    return node_view(about.cluster.engine, name, questions)


# -- a running scheduler --------------------------------------------------------------------------------------------


def _ask_scheduler(what: str, names: Sequence[str], namespace: str | None, output: str, **about: Any) -> None:
    from stowplan.sources.running_scheduler import (
        SchedulerEndpoint,
        fetch_group,
        fetch_node,
        fetch_pending,
        fetch_pod,
        page_of,
    )

    kinds = [] if what in ("node", "podgroup") else [named_object(name, namespace or "") for name in names]
    if len(kinds) > 1 or any(kind != "Pod" for kind, _, _ in kinds):
        raise click.UsageError("--from-scheduler answers about one pod or all that wait: name one pod.")
    name = "/".join(part for part in kinds[0][1:] if part) if kinds else ""
    endpoint = SchedulerEndpoint(**about)
    as_data = output in ("json", "yaml")
    page = "" if as_data else output
    match what:
        case "pods":
            asking = fetch_pod(endpoint, name, page=page)
        case "node":
            asking = fetch_node(endpoint, names[0], page=page)
        case "podgroup":
            asking = fetch_group(endpoint, names[0] if namespace is None else f"{namespace}/{names[0]}", page=page)
        case _:
            asking = fetch_pending(endpoint, page=page)
    found = run(asking)
    if as_data:
        write_data(found, output)
    else:
        write(page_of(found, endpoint), sys.stdout)
