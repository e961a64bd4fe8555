"""`stowplan compare`: configurations side by side on one scenario, with several seeds, or on a recording."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stowplan.app.cli.data_output import OUTPUT, Progress, write_data
from stowplan.app.cli.shell_completion import complete_file
from stowplan.app.command_line.commands import Command
from stowplan.app.command_line.error_reporting import InputError, reported
from stowplan.app.command_line.named_plugins import named_plugins
from stowplan.app.command_line.plugin_option import PLUGINS
from stowplan.ask.explain.text.tables import write
from stowplan_lab.commands import scenario_options

if TYPE_CHECKING:
    from stowplan_lab.compare.comparison import ComparisonRecord
    from stowplan_lab.sweeps import Workers

_EPILOG = "Exit codes: 0: done; 1: some run failed; 2: invalid input; 130: interrupted, with partial results."
_INTERRUPTED = 130


@click.command(
    cls=Command,
    section=scenario_options.DAYS_IN_SECONDS,
    epilog=_EPILOG,
    short_help="Configurations side by side on a scenario or a recording.",
)
@click.argument("configs", metavar="CONFIG...", nargs=-1, shell_complete=complete_file)
@click.option("--scenario", metavar="FILE", shell_complete=complete_file, help="Simulate this scenario.")
@click.option(
    "--recording", metavar="FILE", shell_complete=complete_file, help="Replay this recording instead of a scenario."
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run each configuration with this many seeds. Default: 5, and 1 on a recording.",
)
@scenario_options.SEEDS_FROM
@PLUGINS
@scenario_options.on_workers
@click.option("--html", metavar="FILE", help="Also write a self-contained HTML report.")
@scenario_options.QUIET
@OUTPUT
@click.pass_context
def compare(
    context: click.Context,
    *,
    configs: tuple[str, ...],
    scenario: str | None,
    recording: str | None,
    seeds: int | None,
    seed: int | None,
    plugins: tuple[str, ...],
    jobs: int | None,
    dask: str | None,
    html: str | None,
    quiet: bool,
    output: str,
) -> None:
    """Simulate one scenario with two or more configurations (KubeSchedulerConfiguration files), each with the same
    seeds: the same pods arrive at the same times. CONFIG is a FILE, a version of Kubernetes with the scenario's own
    configuration, such as 1.36, or both: FILE@1.36. It may also be a DeschedulerPolicy, by which the scenario's
    rebalancing then goes, or no-rebalance. Shows waits, utilization, fragmentation, cost and evictions of
    each, their differences from the first, and how many pods are placed differently.

    With --recording, each configuration schedules the recorded pods again; "recorded" as CONFIG stands for the
    configuration in the recording, "real" for what happened.

    \b
    Examples:
      stowplan compare today.yaml packing.yaml --scenario day.yaml
      stowplan compare a.yaml b.yaml c.yaml --scenario day.yaml --seeds 20 --html compared.html
      stowplan compare a.yaml b.yaml --scenario day.yaml --dask tcp://127.0.0.1:8786 -o json
      stowplan compare no-rebalance tidy.yaml pack.yaml --scenario week.yaml   # policies
      stowplan compare real recorded new.yaml --recording mine.recording --seeds 10
      stowplan compare 1.36 1.37 --recording mine.recording       # what would an upgrade move?
    """
    if len(configs) < 2:
        raise click.UsageError("Name two or more configurations.")
    if (scenario is None) == (recording is None):
        raise click.UsageError("Give one of --scenario and --recording.")
    # NumPy and the scheduler are slow to import.
    from stowplan.ui.one_file import report_file
    from stowplan_lab.compare.comparison_report import comparison_page, comparison_report
    from stowplan_lab.sweeps import WorkersError

    workers = scenario_options.workers_of(jobs=jobs, dask=dask)
    progress = Progress(quiet=quiet)
    try:
        if recording is not None:
            found = _on_recording(recording, configs, plugins, workers, progress, seeds=seeds or 1)
        else:
            assert scenario is not None
            found = _on_scenario(scenario, configs, plugins, workers, progress, seeds=seeds or 5, first=seed)
    except WorkersError as error:
        raise click.ClickException(str(error)) from error
    finally:
        progress.close()
    if output == "text":
        write(comparison_page(found), sys.stdout)
    else:
        write_data(found.to_dict(), output)
    if html is not None:
        try:
            Path(html).write_text(report_file(comparison_report(found)), encoding="utf-8")
        except OSError as error:
            raise click.ClickException(f"{html}: {error.strerror}") from error
    if found.interrupted:
        context.exit(_INTERRUPTED)
    if found.failures:
        context.exit(1)


def _on_scenario(
    scenario: str,
    configs: Sequence[str],
    plugins: Sequence[str],
    workers: Workers,
    progress: Progress,
    *,
    seeds: int,
    first: int | None,
) -> ComparisonRecord:
    from stowplan_lab.compare.comparison import Scheduler
    from stowplan_lab.compare.comparison import compare as compared
    from stowplan_lab.simulation.simulate import Simulation

    named, schedulers = named_plugins(plugins), [Scheduler.of(config) for config in configs]
    for one in schedulers:
        # Report invalid input before anything runs.
        with reported(one.config), scenario_options.scenario_reported():
            simulation = Simulation(
                scenario, config=one.config, plugins=named, emulated_version=one.version, policy=one.policy
            )
        first = simulation.seed if first is None else first
    assert first is not None
    runs = count(1)
    return compared(
        scenario,
        schedulers,
        names=configs,
        seeds=range(first, first + seeds),
        workers=workers,
        plugins=plugins,
        progress=lambda: progress("compare", next(runs), seeds * len(configs)),
    )


def _on_recording(
    recording: str, configs: Sequence[str], plugins: Sequence[str], workers: Workers, progress: Progress, *, seeds: int
) -> ComparisonRecord:
    from stowplan.kube.kubernetes_versions import VersionError
    from stowplan.scheduler.engine.input_log.recording import RecordingError
    from stowplan_lab.compare.comparison import Scheduler, check_recorded, compare_recorded

    named_plugins(plugins)
    schedulers = [Scheduler.of(config) for config in configs]
    runs = count(1)
    try:
        for one in schedulers:
            with reported(one.config):
                check_recorded(recording, one, tuple(plugins))
        return compare_recorded(
            recording,
            schedulers,
            names=configs,
            workers=workers,
            seeds=seeds,
            plugins=plugins,
            progress=lambda: progress("compare", next(runs), seeds * len(configs)),
        )
    except (RecordingError, VersionError) as error:
        raise InputError(str(error)) from error
