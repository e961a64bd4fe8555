"""`stowplan explain`: why a pod is placed or pending; what a node accepts and rejects."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.cli import cluster_options
from stowplan.app.cli.data_output import output_option, write_data
from stowplan.app.cli.moment_option import recording_options
from stowplan.app.cli.shell_completion import complete_namespace, complete_pod, complete_question
from stowplan.app.command_line.error_reporting import InputError, reported

if TYPE_CHECKING:
    from stowplan.app.cli.explain.answers import Answer
    from stowplan.app.cli.explain.options import Options, Question
    from stowplan.app.sources.cluster_source import ClusterSource
    from stowplan.app.sources.running_scheduler import SchedulerEndpoint
    from stowplan.app.sources.selection import Selection


@click.command(short_help="Why a pod gets its node, or none.")
@click.argument(
    "question",
    nargs=-1,
    metavar="[[KIND/][NS/]NAME… | KIND NAME… | node NAME | podgroup NAME | pending]",
    shell_complete=complete_question,
)
@cluster_options.cluster_options
@recording_options
@cluster_options.config_option()
@click.option("--no-extenders", is_flag=True, help="Do not call the extenders of the configuration.")
@click.option(
    "--pod",
    "pod",
    metavar="[NS/]NAME",
    shell_complete=complete_pod,
    help="Explain this pod, pending or placed; the same as its name without the option.",
)
@click.option("--pending", is_flag=True, help="Explain all pods without a node, as without a question.")
@click.option(
    "-n",
    "--namespace",
    metavar="NS",
    shell_complete=complete_namespace,
    help="Explain pods of this namespace; names without a namespace are looked for in it.",
)
@click.option(
    "-A", "--all-namespaces", is_flag=True, help="Explain pending pods of all namespaces. This is the default."
)
@click.option(
    "-l", "--selector", metavar="LABELS", default="", help="Explain only pods with these labels, in kubectl's syntax."
)
@click.option(
    "--field-selector",
    metavar="FIELDS",
    default="",
    help="Explain only pods with these fields, such as spec.nodeName=node-1.",
)
@click.option("-w", "--watch", is_flag=True, help="Answer again whenever the answer changes; needs a live cluster.")
@click.option(
    "--watch-interval",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    help="Wait this long between the answers of --watch.",
)
@cluster_options.exit_code_option("any of the pods gets no node")
@output_option("text", "wide", "json", "yaml", more="; wide explains every group of pods and every node")
@cluster_options.role_option
@cluster_options.scheduler_options
def explain(**given: Any) -> None:
    """Show which node a pod gets and why, why every other node was refused, and what would help a pod that fits
    nowhere. Or show what is on a node, which pending pods it takes and why it refuses the others.

    Reads a live cluster or, with -f, manifests and what `stowplan dump` or `kubectl get -o json` writes.
    Nothing is changed anywhere. A pod that already has a node is judged as if it were to be placed now.

    For several pods, a summary comes first; then each group of equal pods is explained, the largest first. Each is
    judged alone; the summary says if they do not fit together. A workload in a file that has no pods yet stands for the
    pods that it asks for.

    A pod group is judged as a whole: which of its pods fit together, in which domain, what is lacking, and what would
    help. Where the files have PodGroups, the feature gates of groups are on, and a pod of a group is explained with it.

    With --from-scheduler, a running scheduler answers from its own state, which includes pods that are being placed,
    and shows what happened to the pod so far.

    With --recording and --at, the answer is the one that would have been given then.

    \b
    Exit codes:
      0    there is an answer, even if a pod gets no node
      1    a bug in Stowplan
      2    the question, the files, the cluster or a plugin are at fault: there is no answer; with --exit-code also
           if only some of several pods cannot be judged
      3    with --exit-code: some pod gets no node, if all are scheduled

    \b
    Examples:
      stowplan explain pod shop/web-0
      stowplan explain deployment/shop/web
      stowplan explain --kubeconfig admin.conf pending -n shop -l app=web
      stowplan explain node worker-3 -o wide
      stowplan explain -f cluster.json podgroup/research/train
      stowplan dump -o cluster.json && stowplan explain -f cluster.json
      stowplan explain -f cluster.json -f new-pod.yaml pod new-pod
      stowplan explain -f cluster.json --config scheduler.yaml -o json
      stowplan explain --recording cluster.recording --at 2026-11-20T12:03 pod shop/web-0
      stowplan explain --from-scheduler https://10.0.0.7:10259 --certificate-authority scheduler-ca.crt pod shop/web-0
    """
    # Slow to import, and not needed for the help.
    from stowplan.app.cli.explain.answers import watch
    from stowplan.app.cli.explain.options import Options, Question

    options = Options(**given)
    question = Question.of(options)
    if options.from_scheduler is not None:
        _ask_scheduler(question, options, options.from_scheduler)
        return
    with reported(options.config):
        selection = question.selection(options)

        def answer() -> Answer:
            return _answer(question, _cluster(question, options, selection), selection, options.output)

        if options.watch:
            watch(answer, options.watch_interval)
            return
        found = answer()
        found.write(options.output)
    unjudged = found.unjudged
    if unjudged and (all(unjudged) or (options.exit_code and any(unjudged))):
        raise SystemExit(InputError.exit_code)
    if options.exit_code and found.some_without_node():
        raise SystemExit(cluster_options.NO)


def _cluster(question: Question, options: Options, selection: Selection) -> ClusterSource:
    found = cluster_options.cluster_of(
        files=options.files,
        recursive=options.recursive,
        recording=options.recording,
        at=options.at,
        live=options.live,
        config=options.config,
        plugins=options.plugins,
        pod_groups=options.pod_groups,
        emulated_version=options.emulated_version,
        groups=question.what == "podgroup",
        events=question.events(selection),
        workloads=selection.workloads(),
    )
    if options.recording is None:
        found.check_nodes()
    found.extenders = not options.no_extenders
    return found


def _answer(question: Question, about: ClusterSource, selection: Selection, output: str) -> Answer:
    from stowplan.app.cli.explain.answers import about_group, about_node, about_pods

    match question.what:
        case "node":
            return about_node(about, question.names[0], output)
        case "podgroup":
            return about_group(about, question.names[0], output)
    return about_pods(about, selection, output)


# -- a running scheduler ----------------------------------------------------------------------------------------------


def _ask_scheduler(question: Question, options: Options, url: str) -> None:
    from stowplan.app.command_line.event_loop import run
    from stowplan.app.sources.running_scheduler import SchedulerEndpoint, page_of
    from stowplan.ask.explain.text.tables import write

    endpoint = SchedulerEndpoint.of(url, options.live, options.token_file, extenders=not options.no_extenders)
    found = run(_fetched(question, options, endpoint))
    if options.as_data:
        write_data(found, options.output)
    else:
        write(page_of(found, endpoint), sys.stdout)


async def _fetched(question: Question, options: Options, endpoint: SchedulerEndpoint) -> dict[str, Any]:
    from stowplan.app.sources.running_scheduler import fetch_group, fetch_node, fetch_pending, fetch_pod

    page = "" if options.as_data else options.output
    match question.what:
        case "pods":
            return await fetch_pod(endpoint, _key(question, options.namespace), page=page)
        case "node":
            return await fetch_node(endpoint, question.names[0].name, page=page)
        case "podgroup":
            return await fetch_group(endpoint, _key(question, options.namespace), page=page)
    return await fetch_pending(endpoint, page=page)


def _key(question: Question, namespace: str | None) -> str:
    """Of the one pod or group; a scheduler can only be asked about one at a time. Raises click.UsageError."""
    names = question.names
    if len(names) != 1 or names[0].kind not in ("", "Pod", "PodGroup"):
        raise click.UsageError("--from-scheduler answers about one pod, one pod group, a node, or all pending pods.")
    (wanted,) = names
    where = wanted.namespace or namespace
    return f"{where}/{wanted.name}" if where else wanted.name
