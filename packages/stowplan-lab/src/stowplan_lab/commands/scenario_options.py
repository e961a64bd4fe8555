"""What the commands about scenarios share: their section of the help, options and errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.cli.shell_completion import complete_file
from stowplan.app.command_line.commands import Section
from stowplan.app.command_line.error_reporting import InputError
from stowplan_lab.simulation.scenario_errors import ScenarioError

if TYPE_CHECKING:
    from stowplan_lab.sweeps import Workers

DAYS_IN_SECONDS = Section(
    "What would a day be like?",
    (
        ("stowplan scenario --pools cluster.json --out week", "pools, prices and Prometheus as a scenario"),
        ("stowplan simulate day.yaml", "a day in seconds, with pictures"),
        ("stowplan compare a.yaml b.yaml --scenario day.yaml", "configurations side by side"),
        ("stowplan tune day.yaml --objective waits=1,cost=0.5", "search for a better configuration"),
    ),
)


SCENARIO = click.argument("scenario", metavar="SCENARIO", required=False, shell_complete=complete_file)
SEEDS_FROM = click.option(
    "--seed", type=int, metavar="N", help="Start with this random seed; the others follow it. Default: the scenario's."
)
QUIET = click.option("--quiet", is_flag=True, help="Show no progress on stderr.")
_JOBS = click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Run this many processes. Default: one per core."
)
_DASK = click.option("--dask", metavar="ADDRESS", help="Run on a Dask cluster, such as tcp://scheduler:8786.")


def on_workers(command: Callable[..., Any]) -> Any:
    """Options that select workers; `workers_of` takes the values."""
    return _JOBS(_DASK(command))


def workers_of(*, jobs: int | None, dask: str | None) -> Workers:
    from stowplan_lab.sweeps import Dask, Processes

    return Dask(dask) if dask else Processes(jobs)


def wanted(scenario: str | None) -> str:
    """SCENARIO is only optional with --schema; raises click.UsageError."""
    if scenario is None:
        raise click.UsageError("Missing argument 'SCENARIO'.")
    return scenario


def print_schema(schema: Any) -> None:
    click.echo(json.dumps(schema, indent=2))


@contextmanager
def scenario_reported() -> Iterator[None]:
    """Report an invalid scenario as an input error."""
    try:
        yield
    except ScenarioError as error:
        raise InputError(*error.problems, hints=error.hints) from error
