"""`kube-scheduler` startup, step by step: flags, gates, log, configuration, cluster, secure port, scheduling.

Each step can end the process with a one-line error, in upstream's words: plain text before the log is set up, log lines
afterwards. Exit codes: 0 for help, a version, a written configuration, and a stop on request; 1 for everything else,
which in upstream includes a stop on request without leader election.

Upstream: cmd/kube-scheduler/app/server.go, k8s.io/component-base/cli/run.go.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stowplan.app.command_line.flags import retired
from stowplan.app.command_line.flags.flag_kinds import KUBERNETES_VERSION
from stowplan.app.command_line.flags.flag_set import CommandLine, FlagError, FlagSet
from stowplan.app.command_line.flags.gates import Gates, gates_of, versions_of
from stowplan.app.command_line.flags.option_errors import option_errors, serving_errors
from stowplan.app.command_line.flags.overrides import check_unvalidated, log_option_errors, log_settings, with_flags
from stowplan.app.command_line.flags.table import KUBE_SCHEDULER_FLAGS
from stowplan.app.command_line.standard_streams import answer, print_to_stderr
from stowplan.app.daemon.fatal_errors import CommandError, LeaseLost
from stowplan.kube.api.field_errors import aggregate, go_quote
from stowplan.kube.config import ConfigError, Configuration, FeatureGates, load_config
from stowplan.kube.klog import get_logger
from stowplan.kube.klog.setup import Logs, LogSettings, set_up

if TYPE_CHECKING:
    from stowplan.app.command_line.stop_signals import StopSignals
    from stowplan.app.daemon.process import ClusterConnector, Job
    from stowplan.kube.config.older.upgrade import PolicyMaps
    from stowplan.scheduler.framework.runtime.registry import Registry

_NAME = "kube-scheduler"
_ABOUT = """\
Stowplan's kube-scheduler is a control plane process that assigns Pods to Nodes.
For each Pod in its queue it finds the Nodes that the Pod's constraints and the
free resources allow, ranks them, and binds the Pod to the best. Flags, files and
decisions are those of Kubernetes' own kube-scheduler 1.37, the reference
implementation; several schedulers can work in one cluster. See
https://kubernetes.io/docs/concepts/scheduling-eviction/
for what it considers."""

_log = get_logger(__name__)


def command(arguments: Sequence[str], stop: StopSignals, opener: ClusterConnector | None) -> int:
    flags = FlagSet((*KUBE_SCHEDULER_FLAGS, *retired.RETIRED_FLAGS), gone=retired.GONE_FLAGS)
    try:
        line = flags.parse(arguments)
    except FlagError as error:
        print_to_stderr(_usage(sys.stderr))
        return _refuse(error)
    if line["help"]:
        return answer(f"{_ABOUT}\n\n{_usage(sys.stdout)}")
    try:
        _check_arguments(line)
    except FlagError as error:
        return _refuse(error)
    try:
        versions = versions_of(line["emulated-version"], line["min-compatibility-version"])
        gates = gates_of(line["feature-gates"], versions)
    except FlagError as error:
        return _fail(error)
    if line["version"] in ("true", "raw"):
        return answer(_version(line["version"]))
    problems = list(log_option_errors(line, gates.features))
    if problems:
        print_to_stderr(str(aggregate(problems)))
        return 1
    return _logging(line, gates, opener, stop)


def _refuse(error: FlagError) -> int:
    for hint in error.hints:
        print_to_stderr(f"hint: {hint}")
    print_to_stderr(f"Error: {error}")
    return 1


def _fail(error: FlagError) -> int:
    """Logged with the default format, as it is not configured yet."""
    with closing(set_up(LogSettings())):
        _log.error(error, "command failed")
    return 1


def _version(form: str) -> str:
    from stowplan.app.daemon.version_info import version_text

    return version_text() if form == "raw" else f"Kubernetes {KUBERNETES_VERSION}"


def _check_arguments(line: CommandLine) -> None:
    if any(line.arguments):
        given = " ".join(map(go_quote, line.arguments))
        raise FlagError(f'"{_NAME}" does not take any arguments, got [{given}]')


# --- from here on errors are log lines


def _logging(line: CommandLine, gates: Gates, opener: ClusterConnector | None, stop: StopSignals) -> int:
    with closing(set_up(log_settings(line))) as logs:
        stop.before_the_end = logs.flush
        try:
            _log_gates(gates)
            _show_flags(line)
            _work(line, gates, opener, stop, logs)
        except CommandError as error:
            # The last line is what users and tools look at.
            for hint in error.hints:
                _log.info(f"Hint: {hint}")
            _log.error(error, "command failed")
            return 1
        except LeaseLost:
            _log.error(None, "Leaderelection lost")
            return 1
        except Exception as error:
            # A bug: log it with its stack trace, as nothing else reports it.
            _log.error(error, "command failed", trace=True)
            return 1
    return 0


def _log_gates(gates: Gates) -> None:
    for what, name, value in gates.retiring():
        message = f"Warning: setting {what} feature gate. It will be removed in a future release."
        _log.info(message, featureGate=name, value=value)
    if alpha := " ".join(gates.alpha()):
        _log.warning(
            f"component has alpha features enabled in emulated version, this is unsupported: features=[{alpha}]"
        )
    for name, why in gates.without_effect():
        _log.warning(f"feature gate {name} {why}")


def _show_flags(line: CommandLine) -> None:
    verbose = _log.v(1)
    if verbose.enabled:
        for flag in sorted(KUBE_SCHEDULER_FLAGS, key=lambda flag: flag.name):
            verbose.plain(f"FLAG: --{flag.name}={go_quote(flag.kind.show(line[flag.name]))}")


def _work(line: CommandLine, gates: Gates, opener: ClusterConnector | None, stop: StopSignals, logs: Logs) -> None:
    """Schedule until stopped; raises CommandError for user errors."""
    from stowplan.app.command_line.event_loop import run
    from stowplan.app.daemon.assembly import Process, schedule
    from stowplan.app.daemon.config_watch import WatchedFile, without_hangups
    from stowplan.app.daemon.plugin_registry import registry_with
    from stowplan.app.daemon.process import Job, opened
    from stowplan.app.daemon.secure_port import metrics_of
    from stowplan.drivers.hang_guard.hang_guard import HangGuard
    from stowplan.net.client.connection import ClientConfigError, connect_from_scheduler_flags
    from stowplan.scheduler.framework.runtime.registry import PluginLoadError

    guard = HangGuard(seconds=line["plugin-timeout"].seconds, binding_seconds=line["plugin-binding-timeout"].seconds)
    try:
        _check([*option_errors(line, gates.features.enabled), *retired.retired_errors(line)])
        registry = registry_with(line["plugin"], guard=guard)
        config = _configuration(line, registry, gates.features, stop)
        connection = connect_from_scheduler_flags(
            kubeconfig=config.client_connection.kubeconfig or None, master=line["master"] or None
        )
        _check(list(islice(serving_errors(line), 1)))
        check_unvalidated(config)
    except (ConfigError, PluginLoadError, ClientConfigError) as error:
        raise CommandError(str(error), error.hints if isinstance(error, ConfigError) else ()) from error
    _admit_what_is_missing(line)
    load = partial(_from_its_file, line, registry, gates.features)
    metrics = metrics_of(line, gates)
    job = Job(
        connection=connection,
        config=config,
        registry=registry,
        features=gates.features,
        max_in_unschedulable=line["pod-max-in-unschedulable-pods-duration"].seconds,
        command=_NAME,
        emulated_version=f"{gates.versions.emulated}.0",
        metrics=metrics,
        guard=guard,
        overlaps=line["extender-mode"] == "overlap",
        watched=WatchedFile(line["config"], load) if line["watch-config"] else None,
    )
    with (
        _traced(job, line) as job,
        _recorded(job, line) as job,
        nullcontext() if job.watched is None else without_hangups(),
    ):
        process = Process(job=job, metrics=metrics, line=line, gates=gates, stop=stop, logs=logs)
        run(schedule(process, opener or opened))


@contextmanager
def _traced(job: Job, line: CommandLine) -> Iterator[Job]:
    """The job with a tracer, if --tracing-config-file names a file."""
    path = line["tracing-config-file"]
    if not path:
        yield job
        return
    from stowplan.app.daemon.tracing import tracer_of

    with ExitStack() as stack:
        try:
            tracer = stack.enter_context(tracer_of(path, _NAME))
        except ConfigError as error:
            raise CommandError(str(error)) from error
        yield replace(job, tracer=tracer)


@contextmanager
def _recorded(job: Job, line: CommandLine) -> Iterator[Job]:
    """The job with a recorder, if --record names a file."""
    path = line["record"]
    if not path:
        yield job
        return
    from stowplan.app.daemon.recording_file import kept_annotations, recording
    from stowplan.kube.config.config_errors import os_error_text

    with ExitStack() as stack:
        try:
            recorder = stack.enter_context(
                recording(
                    path,
                    job.guard,
                    annotations=kept_annotations(job.registry, line["record-annotation"]),
                    rotate_at=line["record-max-size"] << 20,
                    kept=line["record-keep"],
                )
            )
        except OSError as error:
            raise CommandError(f"--record {os_error_text('open', path, error)}") from error
        yield replace(job, recorder=recorder)


def _check(problems: list[str]) -> None:
    if problems:
        raise ConfigError(aggregate(problems))


def _configuration(line: CommandLine, registry: Registry, features: FeatureGates, stop: StopSignals) -> Configuration:
    if not line["config"] and retired.selects_plugins(line):
        from stowplan.app.daemon.older_command_line import configuration_of

        return configuration_of(line, registry.declarations, features, partial(with_flags, line=line), stop)
    from stowplan.app.daemon.older_command_line import PolicyMapReader

    return _from_its_file(line, registry, features, PolicyMapReader(line["master"] or None, stop))


def _from_its_file(
    line: CommandLine, registry: Registry, features: FeatureGates, policy_maps: PolicyMaps | None = None
) -> Configuration:
    """The configuration in --config, or the defaults."""
    from stowplan.app.command_line.named_plugins import plugin_names

    return load_config(
        line["config"] or None,
        plugins=registry.declarations,
        features=features,
        adjust=partial(with_flags, line=line),
        asked_for=plugin_names(line["plugin"]),
        policy_maps=policy_maps,
    )


def _admit_what_is_missing(line: CommandLine) -> None:
    for flag in KUBE_SCHEDULER_FLAGS:
        if not flag.built and line.is_given(flag.name) and line[flag.name] != flag.default:
            _log.warning(f"--{flag.name} is accepted and has no effect")
    for warning in retired.retired_warnings(line):
        _log.warning(warning)


# --- messages


def _usage(stream: Any) -> str:
    from stowplan.app.command_line.flags.usage import usage_of

    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return f"Usage:\n  {_NAME} [flags]\n{usage_of(KUBE_SCHEDULER_FLAGS, columns=columns)}".removesuffix("\n")
