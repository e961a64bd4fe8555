"""`kube-scheduler`: the command line of upstream's program, in front of this scheduler.

Exit codes: 0 for help, a version, a written configuration, and a stop on request; 1 for everything else. As upstream
has it, a stop on request of a scheduler that does without leader election is such an else.

Upstream: cmd/kube-scheduler/app/server.go, k8s.io/component-base/cli/run.go.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stowplan import __version__
from stowplan.api.field_errors import aggregate, go_quote
from stowplan.cli.event_loop import run, running, stop_signals
from stowplan.cli.flags.flag_set import FlagError, FlagSet
from stowplan.cli.flags.gates import gates_of, retiring
from stowplan.cli.flags.kinds import KUBERNETES_VERSION, NO_VERSION
from stowplan.cli.flags.log_options import log_option_errors, log_settings
from stowplan.cli.flags.overrides import check_unvalidated, with_flags
from stowplan.cli.flags.table import KUBE_SCHEDULER_FLAGS
from stowplan.cli.flags.validation import option_errors, tls_errors
from stowplan.cli.flags.versions import versions_of
from stowplan.cli.scheduler_process import Job, opened, until_stopped
from stowplan.config import ConfigError, load_config
from stowplan.config.errors import os_error_text
from stowplan.klog import get_logger
from stowplan.klog.setup import set_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stowplan.cli.event_loop import StopSignals
    from stowplan.cli.flags.flag_set import CommandLine
    from stowplan.cli.scheduler_process import AtWork, Opener
    from stowplan.config import Configuration, FeatureGates
    from stowplan.framework.registry import Registry
    from stowplan.klog.setup import Logs

_NAME = "kube-scheduler"
_ABOUT = """\
Stowplan's kube-scheduler is a control plane process that assigns Pods to Nodes.
For each Pod in its queue it finds the Nodes that the Pod's constraints and the
free resources allow, ranks them, and binds the Pod to the best. Flags, files and
decisions are those of Kubernetes' own kube-scheduler 1.36, the reference
implementation; several schedulers can work in one cluster. See
https://kubernetes.io/docs/concepts/scheduling-eviction/
for what it considers."""

_log = get_logger(__name__)


class CommandError(Exception):
    """The command ends with exit code 1; `str()` says why."""


def main(arguments: Sequence[str] | None = None, *, opener: Opener = opened) -> int:
    """Run the command, and return its exit code."""
    flags = FlagSet(KUBE_SCHEDULER_FLAGS)
    try:
        line = flags.parse(sys.argv[1:] if arguments is None else arguments)
    except FlagError as error:
        print(_usage(sys.stderr), file=sys.stderr)
        return _refuse(error)
    if line["help"]:
        return _print(f"{_ABOUT}\n\n{_usage(sys.stdout)}")
    try:
        _check_arguments(line)
        versions_of(line["emulated-version"], line["min-compatibility-version"])
        features, given_gates = gates_of(line["feature-gates"])
    except FlagError as error:
        return _refuse(error)
    if line["version"] in ("true", "raw"):
        return _print(_version_info() if line["version"] == "raw" else f"Kubernetes {KUBERNETES_VERSION}")
    problems = list(log_option_errors(line, features))
    if problems:
        print(aggregate(problems), file=sys.stderr)
        return 1
    return _logging(line, features, given_gates, opener)


def _refuse(error: FlagError) -> int:
    print(f"Error: {error}", file=sys.stderr)
    return 1


def _print(text: str) -> int:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Whoever reads has seen enough; at exit, nothing more can be written either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _check_arguments(line: CommandLine) -> None:
    if any(line.arguments):
        shown = " ".join(map(go_quote, line.arguments))
        raise FlagError(f'"{_NAME}" does not take any arguments, got [{shown}]')


# --- from here on errors are log lines


def _logging(line: CommandLine, features: FeatureGates, given_gates: Mapping[str, bool], opener: Opener) -> int:
    with closing(set_up(log_settings(line))) as logs, stop_signals(logs.flush) as stop:
        try:
            for what, name, value in retiring(given_gates):
                message = f"Warning: setting {what} feature gate. It will be removed in a future release."
                _log.info(message, featureGate=name, value=value)
            _show_flags(line)
            _work(line, features, opener, stop, logs)
        except CommandError as error:
            _log.error(error, "command failed")
            return 1
        except Exception as error:
            # Nobody else is there to tell: a bug, with the way to it.
            _log.error(error, "command failed", trace=True)
            return 1
    return 0


def _show_flags(line: CommandLine) -> None:
    verbose = _log.v(1)
    if verbose.enabled:
        for flag in sorted(KUBE_SCHEDULER_FLAGS, key=lambda flag: flag.name):
            verbose.plain(f"FLAG: --{flag.name}={go_quote(flag.kind.show(line[flag.name]))}")


def _work(line: CommandLine, features: FeatureGates, opener: Opener, stop: StopSignals, logs: Logs) -> None:
    """Schedule until told to end; raise CommandError for what the user can mend."""
    from stowplan.cli.registry import registry_with
    from stowplan.client.connection import ClientConfigError, connect_from_scheduler_flags
    from stowplan.framework.registry import PluginLoadError

    try:
        _check_options(line)
        registry = registry_with(line["plugin"])
        config = _configuration(line, registry, features)
        connection = connect_from_scheduler_flags(
            kubeconfig=config.client_connection.kubeconfig or None, master=line["master"] or None
        )
    except (ConfigError, PluginLoadError, ClientConfigError) as error:
        raise CommandError(str(error)) from error
    _admit_what_is_missing(line)
    job = Job(
        connection=connection,
        config=config,
        registry=registry,
        features=features,
        max_in_unschedulable=line["pod-max-in-unschedulable-pods-duration"].seconds,
        command=_NAME,
    )
    run(_schedule(job, line, opener, stop, logs))


def _check_options(line: CommandLine) -> None:
    for errors in (option_errors, tls_errors):
        problems = list(errors(line))
        if problems:
            raise ConfigError(aggregate(problems))


def _configuration(line: CommandLine, registry: Registry, features: FeatureGates) -> Configuration:
    config = load_config(
        line["config"] or None,
        known_plugins=registry.points(),
        features=features,
        adjust=lambda configuration: with_flags(configuration, line),
    )
    check_unvalidated(config)
    return config


def _admit_what_is_missing(line: CommandLine) -> None:
    for flag in KUBE_SCHEDULER_FLAGS:
        changed = line.is_given(flag.name) and line[flag.name] != flag.default
        # No leader election is what there is.
        if changed and not flag.built and flag.name != "leader-elect":
            _log.warning(f"--{flag.name} is accepted and has no effect yet")


async def _schedule(job: Job, line: CommandLine, opener: Opener, stop: StopSignals, logs: Logs) -> None:
    from stowplan.framework.runtime import PluginInitError
    from stowplan.scheduler.live import NotSupportedError

    async with opener(job) as (_, new_scheduler):
        try:
            scheduler = new_scheduler()
        except (PluginInitError, NotSupportedError) as error:
            raise CommandError(str(error)) from error
        _show_configuration(job.config)
        if line["write-config-to"]:
            _write_configuration(job.config, line["write-config-to"])
            return
        reported = line["version"]
        version = f"stowplan {__version__} (decides as kube-scheduler 1.36)" if reported == NO_VERSION else reported
        _log.info("Starting Kubernetes Scheduler", version=version)
        if job.config.leader_election.leader_elect:
            _log.warning("leader election is not available yet: run one replica only")
        await _until_stopped(scheduler, stop, logs, line["log-flush-frequency"].seconds)
    if not job.config.leader_election.leader_elect:
        # Parity: whoever runs it without leader election did not want it to end.
        raise CommandError("finished without leader elect")
    _log.info("Requested to terminate, exiting")


async def _until_stopped(scheduler: AtWork, stop: StopSignals, logs: Logs, flush_frequency: float) -> None:
    async with running(_flushing(logs, flush_frequency)):
        await until_stopped(scheduler, stop.event(), on_ready=lambda: _log.v(3).info("Handlers synced"))


async def _flushing(logs: Logs, seconds: float) -> None:
    while logs.buffered:
        await asyncio.sleep(seconds)
        logs.flush()


# --- the configuration, shown and written


def _show_configuration(config: Configuration) -> None:
    verbose = _log.v(2)
    if verbose.enabled:
        for plugins in config.effective_plugins().values():
            verbose.info("the scheduler starts to work with those plugins", Plugins=plugins)
        verbose.info("Using component config", config=_as_yaml(config))


def _write_configuration(config: Configuration, path: str) -> None:
    try:
        Path(path).write_text(_as_yaml(config), encoding="utf-8")
    except OSError as error:
        raise CommandError(os_error_text("open", path, error)) from error
    _log.info("Wrote configuration", file=path)


def _as_yaml(config: Configuration) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        """As Go's library writes: what needs quotes has double ones."""

    def text(dumper: Any, value: str) -> yaml.ScalarNode:
        tag = "tag:yaml.org,2002:str"
        plain = dumper.resolve(yaml.ScalarNode, value, (True, False)) == tag
        node: yaml.ScalarNode = dumper.represent_scalar(tag, value, style=None if plain else '"')
        return node

    Dumper.add_representer(str, text)
    return yaml.dump(config.to_dict(), Dumper=Dumper, sort_keys=True, allow_unicode=True, width=2**31 - 1)


# --- words


def _usage(stream: Any) -> str:
    from stowplan.cli.flags.usage import usage_of

    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return f"Usage:\n  {_NAME} [flags]\n{usage_of(KUBE_SCHEDULER_FLAGS, columns=columns)}".removesuffix("\n")


def _version_info() -> str:
    """Say it in the shape that Go gives it, as scripts take it apart."""
    import platform

    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    fields = {
        "Major": major,
        "Minor": minor,
        "EmulationMajor": major,
        "EmulationMinor": minor,
        "MinCompatibilityMajor": major,
        "MinCompatibilityMinor": str(int(minor) - 1),
        "GitVersion": KUBERNETES_VERSION,
        "GitCommit": f"stowplan-{__version__}",
        "GitTreeState": "clean",
        "BuildDate": "",
        "GoVersion": f"python{platform.python_version()}",
        "Compiler": platform.python_implementation().lower(),
        "Platform": _platform(),
    }
    return "version.Info{" + ", ".join(f"{name}:{go_quote(value)}" for name, value in fields.items()) + "}"


def _platform() -> str:
    from stowplan.client.user_agent import user_agent

    return user_agent(command="", version="").partition("(")[2].partition(")")[0]


if __name__ == "__main__":
    sys.exit(main())
