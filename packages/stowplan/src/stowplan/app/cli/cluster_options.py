"""Options and output shared by the commands that ask about a cluster.

The help of these commands, and completion, need their options only: whatever reads or judges a cluster is imported when
it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial, reduce, wraps
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.cli.data_output import OUTPUT, answered_as, write_data
from stowplan.app.cli.live_cluster import EMULATED_VERSION, chosen_version, live_cluster
from stowplan.app.cli.moment_option import moment_asked, recording_options
from stowplan.app.cli.shell_completion import complete_namespace, file_option
from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.plugin_option import PLUGINS
from stowplan.kube.kubernetes_versions import KubernetesVersion
from stowplan.kube.structs import PlainStruct
from stowplan.net.client.cluster_flags import ClusterFlags

if TYPE_CHECKING:
    from stowplan.app.sources.cluster_source import ClusterSource
    from stowplan.ask.explain.text.tables import Block
    from stowplan.ask.loading.event_query import EventQuery
    from stowplan.ask.loading.workloads import WorkloadName
    from stowplan.ask.offline import Cluster
    from stowplan.ask.rebalance.gained_room import RoomAnswer
    from stowplan.ask.rebalance.plan_records import RebalanceRecord
    from stowplan.ask.what_if.answer_records import NotedAnswer

#: A live cluster does not say whether its scheduler has the feature gates of pod groups enabled.
POD_GROUPS = click.option(
    "--pod-groups",
    is_flag=True,
    help="Schedule pod groups of the live cluster as groups. Always on for files with PodGroups.",
)
#: For commands that name pods and workloads.
NAMESPACE = click.option(
    "-n",
    "--namespace",
    metavar="NS",
    shell_complete=complete_namespace,
    help="Look for names without a namespace in this one. Default: the context's, or default.",
)
#: The exit code with --exit-code if the answer is no.
NO = 3
EXIT_CODES = f"""\b
Exit codes:
  0    there is an answer; with --exit-code: it is yes
  1    a bug in Stowplan
  2    the question, the files, the cluster or a plugin are at fault
  {NO}    with --exit-code: it is no
"""


def exit_code_option(no: str) -> Callable[[Callable[..., Any]], Any]:
    """`no`: when the answer is no."""
    return click.option("--exit-code", is_flag=True, help=f"Exit with {NO} if {no}; otherwise with 0.")


def config_option(name: str = "--config") -> Callable[[Callable[..., Any]], Any]:
    """The option for the scheduler configuration."""
    text = "Answer as a scheduler with this KubeSchedulerConfiguration would. Default: kube-scheduler's defaults."
    return file_option(name, "config", help=text)


_FILES = (
    file_option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        help="Read the cluster from this file, directory or - for stdin. Repeatable. Default: a live cluster, which is "
        "only read.",
    ),
    click.option("-R", "--recursive", is_flag=True, help="Also read the subdirectories of directories given with -f."),
)


def _applied(options: Iterable[Callable[..., Any]], command: Callable[..., Any]) -> Any:
    return reduce(lambda made, option: option(made), reversed([*options]), command)


def _from_scheduler(help_text: str) -> Callable[[Callable[..., Any]], Any]:
    return click.option("--from-scheduler", metavar="URL", help=help_text)


_TOKEN_FILE = file_option(
    "--token-file", help="Authenticate to the scheduler with the token in this file instead of the kubeconfig."
)

_OF_ITS_OWN = (
    "--from-scheduler is about the scheduler's own configuration and its cluster: leave out -f, -R, --pod-groups "
    "and the option of the present configuration."
)


def scheduler_options(command: Callable[..., Any]) -> Any:
    """Options that select a running scheduler, and the credentials; `SchedulerEndpoint.of` takes their values."""
    asked = _from_scheduler(
        "Ask a running Stowplan scheduler: what it knows and would decide now. URL: of its secure port, "
        "https://host:10259; or auto: the one on this machine, or of `stowplan up`."
    )
    return _applied((asked, _TOKEN_FILE), command)


def cluster_options(command: Callable[..., Any]) -> Any:
    """Options that select a cluster; `cluster_of` takes their values, and the configuration's."""
    return _applied((*_FILES, live_cluster, PLUGINS, POD_GROUPS, EMULATED_VERSION), command)


def role_option(command: Callable[..., Any]) -> Any:
    """--rbac, which prints the role for the command's reads of a live cluster instead of running it."""

    @wraps(command)
    def or_role(*, rbac: bool, **given: Any) -> Any:
        if not rbac:
            return command(**given)
        from stowplan.app.command_line.error_reporting import reported
        from stowplan.app.daemon.plugin_registry import registry_with
        from stowplan.app.sources.printed_roles import kinds_of_policy, role_of_reader, role_of_rebalancer
        from stowplan.ask.rebalance.policy.policy_file import read_policy
        from stowplan.kube.config import load_config

        with reported(given["config"]):
            registry = registry_with(given["plugins"])
            configuration = load_config(given["config"], plugins=registry.declarations)
            also = kinds_of_policy(read_policy(given["policy"])) if given.get("policy") else []
            if given.get("apply"):
                namespace = given["record_namespace"]
                role = role_of_rebalancer(
                    configuration, registry, name="stowplan-rebalance", namespace=namespace, also=also
                )
            else:
                role = role_of_reader(configuration, registry, name="stowplan-read", also=also)
            click.echo(role, nl=False)

    return click.option(
        "--rbac", is_flag=True, help="Print the ClusterRole that this needs in a live cluster, and exit."
    )(or_role)


def question_options(config: str = "--config", *, no: str) -> Callable[[Callable[..., Any]], Any]:
    """Options of a command, whose values `cluster_of` and `answer` take.

    `config`: the name of the configuration option; `no`: when the answer is no, for --exit-code.
    """
    options = (
        cluster_options,
        recording_options,
        config_option(config),
        role_option,
        _from_scheduler(
            "Answer as a running Stowplan scheduler would: with its configuration, and with the nodes of pods that it "
            "has not bound yet. URL: of its secure port, https://host:10259; or auto: the one on this machine, or of "
            "`stowplan up`."
        ),
        _TOKEN_FILE,
        exit_code_option(no),
        OUTPUT,
    )
    return lambda command: _applied(options, command)


def cluster_of(
    *,
    files: Sequence[str],
    recursive: bool,
    live: ClusterFlags,
    config: str | None,
    plugins: Sequence[str],
    pod_groups: bool,
    emulated_version: str | None = None,
    groups: bool = False,
    events: EventQuery | None = None,
    workloads: Collection[WorkloadName] = (),
    quotas: bool = False,
    in_full: bool = False,
    namespace: str | None = None,
    recording: str | None = None,
    at: str | None = None,
    from_scheduler: str | None = None,
    token_file: str | None = None,
) -> ClusterSource:
    """`groups`: the question is about a pod group, so groups are scheduled as groups in any case.

    `events`, `workloads`, `quotas`: what else to read of a live cluster; `in_full`: whether to keep what the scheduler
    does not read of pods, and finished ones; `namespace`: the default for names without
    one.
    """
    from stowplan.app.command_line.event_loop import run
    from stowplan.app.sources.cluster_source import ClusterSource

    check_token_file(token_file, from_scheduler)
    elsewhere = {"-f": files, "-R": recursive, "--pod-groups": pod_groups, "--from-scheduler": from_scheduler}
    moment = moment_asked(recording, at, elsewhere | dict.fromkeys(live.given, True))
    if recording is not None:
        version = chosen_version(emulated_version)
        found = ClusterSource.of_recording(recording, moment, config, plugins, version, in_full=in_full)
    elif from_scheduler is not None:
        if files or recursive or config or pod_groups or emulated_version:
            raise click.UsageError(_OF_ITS_OWN)
        from stowplan.app.sources.running_scheduler import SchedulerEndpoint

        endpoint = SchedulerEndpoint.of(from_scheduler, live, token_file)
        found = run(
            ClusterSource.of_scheduler(endpoint, plugins=plugins, groups=groups, quotas=quotas, in_full=in_full)
        )
    else:
        found = _cluster_of(
            files,
            live,
            config=config,
            plugins=plugins,
            recursive=recursive,
            groups=groups or pod_groups,
            version=chosen_version(emulated_version),
            events=events,
            workloads=workloads,
            quotas=quotas,
            in_full=in_full,
        )
    if namespace is not None:
        found.namespace = namespace
    return found


_IGNORES_GROUPS = (
    "the cluster's scheduler tries the pods of groups one by one, as its feature gate GenericWorkload is off"
)


def _cluster_of(
    files: Sequence[str],
    live: ClusterFlags,
    *,
    config: str | None,
    plugins: Sequence[str],
    recursive: bool,
    groups: bool,
    version: KubernetesVersion | None,
    events: EventQuery | None,
    workloads: Collection[WorkloadName],
    quotas: bool,
    in_full: bool,
) -> ClusterSource:
    from stowplan.app.command_line.event_loop import run
    from stowplan.app.sources.cluster_source import ClusterSource, note

    if files and live.given:
        given = ", ".join(live.given)
        raise click.UsageError(f"-f reads files, and these select a live cluster: {given}; give one or the other.")
    check_recursive(files, recursive=recursive)
    if files:
        return ClusterSource.of_files(files, config, plugins, recursive=recursive, version=version, in_full=in_full)
    read = partial(
        ClusterSource.of_live_cluster,
        live=live,
        config=config,
        plugins=plugins,
        events=events,
        workloads=workloads,
        quotas=quotas,
        version=version,
        in_full=in_full,
    )
    found: ClusterSource = run(read(groups=groups))
    if groups:
        if not found.schedules_groups:
            note(f"{_IGNORES_GROUPS}; with the gate, it would decide as follows")
    elif found.has_pods_of_groups and not found.cluster.engine.schedules_groups:
        grouped: ClusterSource = run(read(groups=True))
        if grouped.schedules_groups:
            return grouped
        note(f"{_IGNORES_GROUPS}: groups do not count")
    return found


def check_token_file(token_file: str | None, from_scheduler: str | None) -> None:
    if token_file and from_scheduler is None:
        raise click.UsageError("--token-file is for --from-scheduler; --token authenticates to the API server.")


def check_recursive(files: Sequence[str], *, recursive: bool) -> None:
    if recursive and not files:
        raise click.UsageError("-R needs -f: it reads the subdirectories of directories given with -f.")


class Answered(PlainStruct, frozen=True, kw_only=True):
    """An answer about a cluster, for whoever asked: a command, or an agent."""

    cluster: Cluster
    record: NotedAnswer | RebalanceRecord | RoomAnswer
    page: Callable[[Any], list[Block]]
    #: Whether the answer is no.
    no: bool
    #: In addition to the record's.
    notes: Sequence[str] = ()

    @property
    def _noted(self) -> NotedAnswer | RebalanceRecord | RoomAnswer:
        return _with_notes(self.record, self.notes, self.cluster.failures)

    def document(self) -> dict[str, Any]:
        return self._noted.to_dict() | answered_as(self.cluster.state.emulated_version)

    def text(self) -> list[Block]:
        return self.page(self._noted)

    def write(self, output: str, *, exit_code: bool) -> None:
        """Print it, and exit as by `end`."""
        from stowplan.ask.explain.text.tables import write

        if output in ("json", "yaml"):
            write_data(self.document(), output)
        else:
            write(self.text(), sys.stdout)
        self.end(exit_code=exit_code)

    def end(self, *, exit_code: bool) -> None:
        """Exit if it is no answer, or if it is no and that was asked for."""
        if self.cluster.failures:
            raise SystemExit(InputError.exit_code)
        if exit_code and self.no:
            raise SystemExit(NO)


#: Maximum number of failures in an answer.
_MAX_FAILURES = 3


def _with_notes(
    record: NotedAnswer | RebalanceRecord | RoomAnswer, more: Sequence[str], failures: Sequence[str]
) -> NotedAnswer | RebalanceRecord | RoomAnswer:
    """An answer that failing plugins or extenders decided must not look like one about the cluster."""
    from msgspec.structs import replace

    left = len(failures) - _MAX_FAILURES
    notes = [f"not an answer about the cluster alone, as this failed: {text}" for text in failures[:_MAX_FAILURES]]
    if left > 0:
        notes.append(f"{left} more failures of plugins or extenders")
    return replace(record, notes=(*record.notes, *more, *notes))
