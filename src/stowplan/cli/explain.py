"""`stowplan explain`: why a pod goes where it goes, or nowhere; what a node takes and what it refuses."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from stowplan.cli.data_output import write_data
from stowplan.cli.shell_completion import (
    complete_context,
    complete_file,
    complete_pod,
    complete_question,
)
from stowplan.command_line.errors import reported
from stowplan.command_line.event_loop import run
from stowplan.explain.node_text import node_page
from stowplan.explain.node_view import NodeView, node_view
from stowplan.explain.tables import Line, write
from stowplan.explain.text import explanation
from stowplan.inspection.records import VerdictListRecord, document
from stowplan.sources.cluster_source import ClusterSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.explain.tables import Block
    from stowplan.inspection.records import VerdictRecord

_WANTED = 'Ask for "pod [NS/]NAME", "pending" or "node NAME"'


@click.command(short_help="Why a pod goes where it goes, or nowhere.")
@click.argument("question", nargs=-1, metavar="[pod [NS/]NAME | pending | node NAME]", shell_complete=complete_question)
@click.option(
    "-f",
    "--filename",
    "files",
    metavar="FILE",
    shell_complete=complete_file,
    multiple=True,
    help="File, directory or - for stdin. Repeatable. Without it, a live cluster is asked.",
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    shell_complete=complete_file,
    help="Where the live cluster is; without it, where kubectl would look.",
)
@click.option(
    "--context",
    metavar="NAME",
    shell_complete=complete_context,
    help="The context of the kubeconfig; without it, the current one.",
)
@click.option(
    "--config",
    metavar="FILE",
    shell_complete=complete_file,
    help="KubeSchedulerConfiguration; without it, the default one.",
)
@click.option("--no-extenders", is_flag=True, help="Do not ask the extenders of the configuration.")
@click.option(
    "--pod",
    "pod",
    metavar="[NS/]NAME",
    shell_complete=complete_pod,
    help="The pod to explain, pending or placed.",
)
@click.option("--pending", is_flag=True, help="All pods without a node. This is what happens without a question.")
@click.option("-o", "--output", type=click.Choice(["text", "wide", "json", "yaml"]), default="text", show_default=True)
@click.option("--plugin", "plugins", metavar="MODULE:CLASS", multiple=True, help="A plugin of your own. Repeatable.")
@click.option(
    "--from-scheduler",
    metavar="URL",
    help="Ask a running Stowplan scheduler at its secure port, https://host:10259: what it knows and would decide now.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    shell_complete=complete_file,
    help="Be known to the scheduler by this token, not by the kubeconfig.",
)
@click.option(
    "--certificate-authority",
    metavar="FILE",
    shell_complete=complete_file,
    help="What the scheduler's certificate is signed by (PEM).",
)
@click.option("--insecure-skip-tls-verify", is_flag=True, help="Do not check the scheduler's certificate.")
def explain(
    *,
    question: tuple[str, ...],
    files: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    config: str | None,
    pod: str | None,
    pending: bool,
    output: str,
    plugins: tuple[str, ...],
    no_extenders: bool,
    from_scheduler: str | None,
    token_file: str | None,
    certificate_authority: str | None,
    insecure_skip_tls_verify: bool,
) -> None:
    """Say where a pod goes and why there, why not elsewhere, and what would help a pod that goes nowhere; or what a
    node holds, which pending pods it takes and why it refuses the others.

    Asks a live cluster, reading only; or, with -f, what `kubectl get -o json` (or yaml, which takes longer) writes
    and what people write. Nothing is changed anywhere. A pod that has a node is judged as if it were to be placed
    anew.

    With --from-scheduler, a running scheduler answers from its own state, pods that are on their way included, and
    tells what happened to the pod so far.

    \b
    Examples:
      stowplan explain pod shop/web-0
      stowplan explain --kubeconfig admin.conf pending
      stowplan explain node worker-3 -o wide
      kubectl get ns,no,po,svc,rs,rc,sts,pdb,pc,pvc,pv,sc,csinodes,csidrivers,csistoragecapacities,volumeattachments \\
        -A -o json | stowplan explain -f -
      stowplan explain -f cluster.json -f new-pod.yaml pod new-pod
      stowplan explain -f cluster.json --config scheduler.yaml -o json
      stowplan explain --from-scheduler https://10.0.0.7:10259 --certificate-authority scheduler-ca.crt pod shop/web-0
    """
    if pod and pending:
        raise click.UsageError("--pod and --pending exclude each other.")
    if files and (kubeconfig or context):
        raise click.UsageError("-f reads files, --kubeconfig and --context a live cluster: give one or the other.")
    what, name = _asked(question, pod, pending=pending)
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
            "the kubeconfig is not read with --token-file",
            {"--kubeconfig": kubeconfig, "--context": context} if token_file else {},
        )
        _ask_scheduler(
            what,
            name,
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
    with reported(config):
        if files:
            about = ClusterSource.of_files(files, config, plugins)
        else:
            asked = name if what == "pod" else ""
            about = run(
                ClusterSource.of_live_cluster(
                    kubeconfig=kubeconfig, context=context, config=config, plugins=plugins, pod=asked
                )
            )
        about.extenders = not no_extenders
        _answer(about, what, name, output)


def _asked(words: Sequence[str], pod: str | None, *, pending: bool) -> tuple[str, str]:
    """(pod, pending or node; the name)."""
    if words and (pod or pending):
        raise click.UsageError(f"{_WANTED}, or use --pod or --pending, not both.")
    match list(words):
        case []:
            return ("pod", pod) if pod else ("pending", "")
        case ["pending"]:
            return "pending", ""
        case ["pod" | "node" as what, name] if name:
            return what, name
    raise click.UsageError(f"{_WANTED}; got {' '.join(words)!r}.")


def _excluded(why: str, options: Mapping[str, object]) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        raise click.UsageError(f"{', '.join(given)}: {why}.")


def _answer(about: ClusterSource, what: str, name: str, output: str) -> None:
    if what == "node":
        about.check_node(name)
        _answer_node(about, name, output)
    elif what == "pod":
        _answer_pods(about, [about.find(name)], output, single=True)
    else:
        _answer_pods(about, about.pending(), output, single=False)


# -- pods -----------------------------------------------------------------------------------------------------------


def _answer_pods(about: ClusterSource, pods: Sequence[PodInfo], output: str, *, single: bool) -> None:
    if output in ("json", "yaml"):
        records = tuple(_record(about, info) for info in pods)
        write_data(document(records[0] if single else VerdictListRecord(kind="ExplainList", verdicts=records)), output)
        return
    if not pods:
        # The others are told of in a note.
        others = " for the schedulers of this configuration" if about.cluster.pending() else ""
        click.echo(f"No pod is pending{others}.")
        return
    blocks: list[Block] = []
    for first, alike in about.alike(pods):
        blocks += [Line()] if blocks else []
        verdict, reported = about.verdict(first), about.reported(first)
        blocks += explanation(about.cluster.engine, verdict, wide=output == "wide", alike=alike, reported=reported)
    write(blocks, sys.stdout)


def _record(about: ClusterSource, info: PodInfo) -> VerdictRecord:
    verdict, reported = about.verdict(info), about.reported(info)
    # The record has advice that was asked for.
    _ = verdict.advice
    return msgspec.structs.replace(verdict.record(), scheduler=None if reported is None else reported.record())


# -- a node ---------------------------------------------------------------------------------------------------------


def _answer_node(about: ClusterSource, name: str, output: str) -> None:
    view = _view(about, name)
    if output in ("json", "yaml"):
        write_data(document(view.record()), output)
    else:
        write(node_page(view, wide=output == "wide"), sys.stdout)


def _view(about: ClusterSource, name: str) -> NodeView:
    kinds = about.alike(about.pending())
    questions = ((about.verdict(first), (first.key, *alike)) for first, alike in kinds)
    return node_view(about.cluster.engine, name, questions)


# -- a running scheduler --------------------------------------------------------------------------------------------


def _ask_scheduler(what: str, name: str, output: str, **about: Any) -> None:
    from stowplan.sources.running_scheduler import SchedulerEndpoint, fetch_pending, fetch_pod, page_of

    if what == "node":
        raise click.UsageError('--from-scheduler answers about pods: ask for "pod [NS/]NAME" or "pending".')
    endpoint = SchedulerEndpoint(**about)
    as_data = output in ("json", "yaml")
    page = "" if as_data else output
    found = run(fetch_pod(endpoint, name, page=page) if what == "pod" else fetch_pending(endpoint, page=page))
    if as_data:
        write_data(found, output)
    else:
        write(page_of(found, endpoint), sys.stdout)
