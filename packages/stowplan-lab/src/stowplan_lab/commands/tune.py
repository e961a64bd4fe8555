"""`stowplan tune`: search for a configuration on one part of a scenario, and evaluate it on the rest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.cli.data_output import OUTPUT, Progress, write_data
from stowplan.app.cli.shell_completion import complete_file
from stowplan.app.command_line.commands import Command
from stowplan.app.command_line.error_reporting import InputError, reported
from stowplan.app.command_line.named_plugins import allow_current_directory, named_plugins
from stowplan.app.command_line.plugin_option import PLUGINS
from stowplan.ask.explain.text.tables import write
from stowplan_lab.commands import scenario_options

if TYPE_CHECKING:
    from stowplan_lab.tuning.tune import TuningResult

#: Exit code if nothing better than the baseline was found.
_NOT_BETTER, _INTERRUPTED = 3, 130
_EPILOG = "Exit codes: 0: done; 2: invalid input; 3: nothing better was found; 130: interrupted."


@click.command(
    cls=Command,
    section=scenario_options.DAYS_IN_SECONDS,
    epilog=_EPILOG,
    short_help="Search for a better configuration on part of a scenario, judged on the rest.",
)
@scenario_options.SCENARIO
@click.option(
    "--config",
    metavar="FILE",
    shell_complete=complete_file,
    help="Start from this KubeSchedulerConfiguration. Default: the scenario's.",
)
@click.option("--space", metavar="FILE", shell_complete=complete_file, help="Search in this space; see --schema.")
@click.option(
    "--objective",
    metavar="WHAT",
    help="Improve this: waits, cost, utilization, …; A=1,B=0.5 for a blend; or MODULE:FUNCTION.",
)
@click.option(
    "--out", metavar="FOLDER", help="Write the results into this folder. Default: SCENARIO's name with -tuned."
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=40,
    show_default=True,
    metavar="N",
    help="Try this many configurations.",
)
@click.option(
    "--share",
    type=float,
    default=0.6,
    show_default=True,
    metavar="S",
    help="Search on this share of the simulated time; the rest is for the final evaluation.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    metavar="N",
    help="Use this many seeds per trial.",
)
@click.option(
    "--judged-seeds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Use this many seeds for the final evaluation.",
)
@scenario_options.SEEDS_FROM
@PLUGINS
@click.option("--resume", is_flag=True, help="Resume the search in FOLDER or --storage.")
@click.option(
    "--storage",
    metavar="URL",
    help="Keep the trials in this Optuna storage, such as sqlite:///tuning.db. Default: a file in FOLDER.",
)
@scenario_options.on_workers
@scenario_options.QUIET
@click.option("--schema", is_flag=True, help="Print the JSON schema of search spaces, for editors, and exit.")
@OUTPUT
@click.pass_context
def tune(
    context: click.Context,
    /,
    *,
    scenario: str | None,
    out: str | None,
    quiet: bool,
    schema: bool,
    output: str,
    **search: Any,
) -> None:
    """Search for weights, strategies and percentages that improve a scenario's results, and evaluate the best on a part
    of the scenario that the search has not seen. Writes tuned.yaml (a KubeSchedulerConfiguration; candidate.yaml if it
    is not better than the baseline), report.json and report.html, which shows the Pareto front. Needs Optuna: pip
    install 'stowplan-lab[tune]'. docs/use/tune.md explains search spaces and objectives.

    \b
    Examples:
      stowplan tune day.yaml
      stowplan tune day.yaml --objective waits=1,cost=0.5 --trials 80 --out tuned
      stowplan tune day.yaml --space space.yaml --out tuned --resume
      stowplan tune --schema > space.schema.json
    """
    if schema:
        from stowplan_lab.tuning.space import space_schema

        scenario_options.print_schema(space_schema())
        return
    scenario = scenario_options.wanted(scenario)
    folder = Path(out if out is not None else f"{Path(scenario).stem}-tuned")
    # NumPy and the scheduler are slow to import.
    from stowplan_lab.tuning.search_report import tuning_page

    progress = Progress(quiet=quiet)
    try:
        with reported(search["config"]):
            found = _tuned(scenario, folder, progress, **search)
    finally:
        progress.close()
    if output == "text":
        write(tuning_page(found.record), sys.stdout)
        if found.file is not None:
            click.echo(f"\n{found.file}, report in {folder / 'report.html'}")
    else:
        write_data(found.record.to_dict(), output)
    context.exit(_exit_code(found))


def _tuned(
    scenario: str,
    folder: Path,
    progress: Progress,
    *,
    config: str | None,
    space: str | None,
    objective: str | None,
    trials: int,
    share: float,
    seeds: int,
    judged_seeds: int,
    seed: int | None,
    plugins: tuple[str, ...],
    resume: bool,
    storage: str | None,
    jobs: int | None,
    dask: str | None,
) -> TuningResult:
    from stowplan_lab.sweeps import WorkersError
    from stowplan_lab.tuning.objective import TuningError
    from stowplan_lab.tuning.tune import Effort, tune_scenario

    named_plugins(plugins)
    if objective is not None and ":" in objective:
        allow_current_directory()
    try:
        with scenario_options.scenario_reported():
            return tune_scenario(
                scenario,
                folder=folder,
                config=config,
                space=space,
                objective=objective,
                effort=Effort(trials=trials, share=share, seeds=seeds, judged_seeds=judged_seeds),
                seed=seed,
                plugins=plugins,
                storage=storage,
                resume=resume,
                workers=scenario_options.workers_of(jobs=jobs, dask=dask),
                progress=progress,
            )
    except TuningError as error:
        raise InputError(str(error)) from error
    except WorkersError as error:
        raise click.ClickException(str(error)) from error


def _exit_code(found: TuningResult) -> int:
    from stowplan_lab.tuning.search_records import BETTER

    if found.record.interrupted:
        return _INTERRUPTED
    return 0 if found.record.verdict == BETTER else _NOT_BETTER
