"""Options and output shared by the commands that ask about a cluster."""

from __future__ import annotations

import sys
from functools import reduce
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from stowplan.cli.data_output import write_data
from stowplan.cli.live_cluster import CONTEXT, KUBECONFIG
from stowplan.cli.shell_completion import complete_file
from stowplan.command_line.event_loop import run
from stowplan.command_line.plugin_option import PLUGINS
from stowplan.config.features import GROUP_GATES
from stowplan.explain.text.tables import write
from stowplan.sources.cluster_source import ClusterSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stowplan.explain.text.tables import Block
    from stowplan.loading.wanted_events import EventsWanted
    from stowplan.offline import Cluster
    from stowplan.what_if.records import NotedAnswer

#: A live cluster does not reveal whether its scheduler has the feature gates of pod groups enabled.
POD_GROUPS = click.option(
    "--pod-groups",
    is_flag=True,
    help="Schedule pod groups of the live cluster as groups. Always on for files with PodGroups.",
)
#: For commands that name pods and workloads.
NAMESPACE = click.option(
    "-n", "--namespace", metavar="NS", help="Namespace of names without one. Default: the context's, or default."
)


def config_option(name: str = "--config") -> Callable[[Callable[..., Any]], Any]:
    """The option for the scheduler configuration."""
    text = "KubeSchedulerConfiguration. Default: kube-scheduler's defaults."
    return click.option(name, "config", metavar="FILE", shell_complete=complete_file, help=text)


_OPTIONS = (
    click.option(
        "-f",
        "--filename",
        "files",
        metavar="FILE",
        multiple=True,
        shell_complete=complete_file,
        help="File, directory or - for stdin. Repeatable. Default: a live cluster, which is only read.",
    ),
    click.option("-R", "--recursive", is_flag=True, help="Also read subdirectories."),
    KUBECONFIG,
    CONTEXT,
    PLUGINS,
    POD_GROUPS,
)


def _from_scheduler(help_text: str) -> Callable[[Callable[..., Any]], Any]:
    return click.option("--from-scheduler", metavar="URL", help=help_text)


_ACCESS = (
    click.option(
        "--token-file",
        metavar="FILE",
        shell_complete=complete_file,
        help="Authenticate to the scheduler with this token instead of the kubeconfig.",
    ),
    click.option(
        "--certificate-authority",
        metavar="FILE",
        shell_complete=complete_file,
        help="CA that signed the scheduler's certificate (PEM).",
    ),
    click.option("--insecure-skip-tls-verify", is_flag=True, help="Do not verify the scheduler's certificate."),
)


_ACCESS_NAMES = "--token-file, --certificate-authority and --insecure-skip-tls-verify"
_OF_ITS_OWN = (
    "--from-scheduler is about the scheduler's own configuration and its cluster: leave out -f, -R, --pod-groups "
    "and the option of the present configuration."
)


def a_scheduler(command: Callable[..., Any]) -> Any:
    """Options that select a running scheduler, and the credentials; `SchedulerEndpoint` takes their values."""
    asked = _from_scheduler(
        "Ask a running Stowplan scheduler: what it knows and would decide now. URL: of its secure port, "
        "https://host:10259; or auto: the one on this machine, or of `stowplan up`."
    )
    return reduce(lambda made, option: option(made), reversed((asked, *_ACCESS)), command)


def a_cluster(command: Callable[..., Any]) -> Any:
    """Options that select a cluster; `cluster_of` takes their values, and the configuration's."""
    return reduce(lambda made, option: option(made), reversed(_OPTIONS), command)


def about_a_cluster(config: str = "--config") -> Callable[[Callable[..., Any]], Any]:
    """Options of a command, whose values `cluster_of` and `answer` take; `config`: the name of the configuration
    option.
    """
    options = (
        *_OPTIONS,
        config_option(config),
        _from_scheduler(
            "Answer as a running Stowplan scheduler would: with its configuration, and with the nodes of pods that it "
            "has not bound yet. URL: of its secure port, https://host:10259; or auto: the one on this machine, or of "
            "`stowplan up`."
        ),
        *_ACCESS,
        click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True),
    )
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def cluster_of(
    *,
    files: Sequence[str],
    recursive: bool,
    kubeconfig: str | None,
    context: str | None,
    config: str | None,
    plugins: Sequence[str],
    pod_groups: bool,
    groups: bool = False,
    events: EventsWanted | None = None,
    namespace: str | None = None,
    from_scheduler: str | None = None,
    token_file: str | None = None,
    certificate_authority: str | None = None,
    insecure_skip_tls_verify: bool = False,
) -> ClusterSource:
    """`groups`: the question is about a pod group, so groups are scheduled as groups in any case.

    `events`: whether to read Events of a live cluster; `namespace`: the default for names without one.
    """
    access = token_file or certificate_authority or insecure_skip_tls_verify
    if from_scheduler is None and access:
        raise click.UsageError(f"--from-scheduler is missing: {_ACCESS_NAMES} are for that.")
    if from_scheduler is not None:
        if files or recursive or config or pod_groups:
            raise click.UsageError(_OF_ITS_OWN)
        # The HTTP client is slow to import.
        from stowplan.sources.running_scheduler import SchedulerEndpoint

        endpoint = SchedulerEndpoint(
            url=from_scheduler,
            kubeconfig=kubeconfig,
            context=context,
            token_file=token_file,
            certificate_authority=certificate_authority,
            insecure=insecure_skip_tls_verify,
        )
        found = run(ClusterSource.of_scheduler(endpoint, plugins=plugins, groups=groups))
    else:
        found = _cluster_of(
            files,
            kubeconfig,
            context,
            config=config,
            plugins=plugins,
            recursive=recursive,
            groups=groups or pod_groups,
            events=events,
        )
    if namespace is not None:
        found.namespace = namespace
    return found


def _cluster_of(
    files: Sequence[str],
    kubeconfig: str | None,
    context: str | None,
    *,
    config: str | None,
    plugins: Sequence[str],
    recursive: bool,
    groups: bool,
    events: EventsWanted | None,
) -> ClusterSource:
    if files and (kubeconfig or context):
        raise click.UsageError("-f reads files, --kubeconfig and --context a live cluster: give one or the other.")
    if recursive and not files:
        raise click.UsageError("-R is for the directories of -f.")
    if files:
        return ClusterSource.of_files(files, config, plugins, recursive=recursive)
    return run(
        ClusterSource.of_live_cluster(
            kubeconfig=kubeconfig,
            context=context,
            config=config,
            plugins=plugins,
            events=events,
            gates=GROUP_GATES if groups else None,
        )
    )


def answer(cluster: Cluster, record: NotedAnswer, page: Callable[[Any], list[Block]], output: str) -> None:
    record = _with_failures(record, cluster.failures)
    if output in ("json", "yaml"):
        write_data(record.to_dict(), output)
    else:
        write(page(record), sys.stdout)


#: Maximum number of failures in an answer.
_MAX_FAILURES = 3


def _with_failures(record: NotedAnswer, failures: Sequence[str]) -> NotedAnswer:
    """An answer that failing plugins or extenders decided must not look like one about the cluster."""
    left = len(failures) - _MAX_FAILURES
    notes = [f"not an answer about the cluster alone, as this failed: {text}" for text in failures[:_MAX_FAILURES]]
    if left > 0:
        notes.append(f"{left} more failures of plugins or extenders")
    return replace(record, notes=(*record.notes, *notes))
