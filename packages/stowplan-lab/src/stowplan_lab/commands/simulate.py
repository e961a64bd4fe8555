"""`stowplan simulate`: run a scenario in virtual time and write the results to a directory."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stowplan.app.cli.data_output import OUTPUT, on_one_line, write_data
from stowplan.app.cli.live_cluster import EMULATED_VERSION, chosen_version
from stowplan.app.cli.shell_completion import complete_file
from stowplan.app.command_line.commands import Command
from stowplan.app.command_line.error_reporting import reported
from stowplan.app.command_line.named_plugins import named_plugins
from stowplan.app.command_line.plugin_option import PLUGINS
from stowplan.app.command_line.stop_signals import StopSignals, stop_signals
from stowplan.ask.explain.text.tables import write
from stowplan_lab.commands import scenario_options

if TYPE_CHECKING:
    from stowplan_lab.simulation.simulate import Progress, Simulation

#: Seconds between progress updates, on a terminal and elsewhere.
_OFTEN, _SELDOM = 0.2, 15.0
_ERASED = "\r\x1b[K"


@click.command(
    cls=Command,
    section=scenario_options.DAYS_IN_SECONDS,
    short_help="Run a scenario (pods, nodes and faults from a file) in virtual time.",
)
@scenario_options.SCENARIO
@click.option(
    "--out", metavar="FOLDER", help="Write the results into this folder. Default: SCENARIO's name with -results."
)
@click.option(
    "--config",
    metavar="FILE",
    shell_complete=complete_file,
    help="Schedule with this KubeSchedulerConfiguration. Default: the scenario's.",
)
@click.option("--seed", type=int, metavar="N", help="Use this random seed. Default: the scenario's.")
@PLUGINS
@EMULATED_VERSION
@click.option("--no-decisions", is_flag=True, help="Do not write decisions.jsonl.")
@scenario_options.QUIET
@click.option("--schema", is_flag=True, help="Print the JSON schema of scenarios, for editors, and exit.")
@OUTPUT
@click.pass_context
def simulate(
    context: click.Context,
    *,
    scenario: str | None,
    out: str | None,
    config: str | None,
    seed: int | None,
    plugins: tuple[str, ...],
    emulated_version: str | None,
    no_decisions: bool,
    quiet: bool,
    schema: bool,
    output: str,
) -> None:
    """Run a scenario in virtual time: the real scheduler, with its queue, preemption and plugins, on a cluster,
    workloads and faults that a YAML file describes. The same file and seed give the same results, byte for byte.

    Writes decisions.jsonl (one row per pod), series.jsonl (the cluster's state over time), summary.json, report.html (a
    self-contained report with charts) and timeline.jsonl.gz, which `stowplan ui --simulation FOLDER` plays; also
    Parquet files if pyarrow is installed. Ctrl-C ends the simulation early and keeps the results so far.
    docs/use/simulate.md explains scenarios.

    \b
    Examples:
      stowplan simulate week.yaml
      stowplan simulate week.yaml --out results --seed 2 --config packing.yaml
      stowplan simulate --schema > scenario.schema.json
    """
    if schema:
        from stowplan_lab.simulation.definition.scenario_fields import scenario_schema

        scenario_options.print_schema(scenario_schema())
        return
    scenario = scenario_options.wanted(scenario)
    folder = Path(out if out is not None else f"{Path(scenario).stem}-results")
    # NumPy and the scheduler are slow to import.
    from stowplan_lab.simulation.report.summary_text import summary_page
    from stowplan_lab.simulation.simulate import simulate_scenario

    chosen_version(emulated_version)
    with reported(config), scenario_options.scenario_reported(), stop_signals() as stop:
        shown = _Shown(stop, quiet=quiet)
        try:
            result = simulate_scenario(
                scenario,
                config=config,
                seed=seed,
                plugins=named_plugins(plugins),
                emulated_version=emulated_version,
                folder=folder,
                decisions=not no_decisions,
                progress=shown,
            )
        finally:
            shown.close()
    if output == "text":
        write(summary_page(result.summary, str(folder)), sys.stdout)
    else:
        write_data(result.summary.to_dict(), output)
    if result.summary.interrupted:
        context.exit(130)


class _Shown:
    """Shows progress on stderr with an estimate of the remaining time, and stops the simulation on request."""

    def __init__(self, stop: StopSignals, *, quiet: bool) -> None:
        self._stop = stop
        self._quiet = quiet
        self._begin = self._last = time.monotonic()
        self._on_one_line = on_one_line()
        self._shown = False
        #: How many notes were shown.
        self._told = 0

    def __call__(self, progress: Progress, simulation: Simulation) -> None:
        if self._stop.requested:
            simulation.stop()
        now = time.monotonic()
        if self._quiet or now - self._last < (_OFTEN if self._on_one_line else _SELDOM):
            return
        self._last, self._shown = now, True
        # What will never run, for example, is worth knowing before the end of a long run.
        notes = list(simulation.context.notes)
        for note in notes[self._told :]:
            click.echo(f"{_ERASED if self._on_one_line else ''}note: {note}", err=True)
        self._told = len(notes)
        line = self._line(progress, now - self._begin)
        click.echo(f"{_ERASED}{line}" if self._on_one_line else line, err=True, nl=not self._on_one_line)

    def close(self) -> None:
        if self._shown and self._on_one_line:
            click.echo(_ERASED, err=True, nl=False)

    @staticmethod
    def _line(progress: Progress, seconds: float) -> str:
        rate = progress.arrived / seconds if seconds else 0.0
        parts = [f"{_span(progress.time)} simulated", f"{progress.arrived:,} pods", f"{rate:,.0f} per second"]
        share = _share(progress)
        if share:
            parts[0] += f" ({share:.0%})"
            parts.append(f"about {_span(seconds / share - seconds)} left")
        return ", ".join(parts)


def _share(progress: Progress) -> float | None:
    """The completed share."""
    if progress.expected:
        by_pods = progress.arrived / progress.expected
        by_time = progress.time / progress.duration if progress.duration else by_pods
        return min(1.0, max(by_pods, by_time)) or None
    return progress.time / progress.duration if progress.duration and progress.time else None


def _span(seconds: float) -> str:
    whole = round(seconds)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if whole >= 2 * length:
            return f"{whole / length:.1f} {unit}"
    return f"{whole} s"
