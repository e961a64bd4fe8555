"""`python -m gpu_sharing`: the runs of one workload, in one command.

python -m gpu_sharing --nodes nodes_gpu.csv.gz --pods pods_default.csv.gz --output results
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from gpu_sharing.experiment import POLICIES, Job, do
from gpu_sharing.results import curves, figure, table
from gpu_sharing.trace import TraceError, read_nodes, read_pods
from stowplan_lab.sweeps import Dask, Processes, WorkersError, run_all

if TYPE_CHECKING:
    from rich.console import Console

    from gpu_sharing.experiment import Run
    from stowplan_lab.sweeps import Workers

PUBLISHED = "https://github.com/alibaba/clusterdata (cluster-trace-gpu-v2023)"


class _Seeds(click.ParamType):
    name = "seeds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        first, _, last = str(value).partition("-")
        if not first.isdigit() or not (last or first).isdigit() or int(last or first) < int(first):
            self.fail(f'want a seed or a range such as 42-51, got "{value}"', param, ctx)
        return range(int(first), int(last or first) + 1)


_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("gpu_sharing", epilog=f"The trace is published at {PUBLISHED}.")
@click.option("--nodes", "nodes_file", type=_FILE, required=True, metavar="FILE", help="CSV, may be packed with gzip.")
@click.option("--pods", "pods_file", type=_FILE, required=True, metavar="FILE", help="CSV of one workload.")
@click.option(
    "--policy",
    "policies",
    type=click.Choice(list(POLICIES), case_sensitive=False),
    multiple=True,
    help="Repeatable; all if none.",
)
@click.option("--seeds", type=_Seeds(), default="42-51", show_default=True, metavar="FIRST-LAST")
@click.option(
    "--load",
    "ratio",
    type=click.FloatRange(0, min_open=True),
    default=1.3,
    show_default=True,
    metavar="RATIO",
    help="Pods ask for so many times the GPUs that there are.",
)
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes; one per core if not given.")
@click.option("--dask", metavar="ADDRESS", help="Run on a Dask cluster, such as tcp://scheduler:8786.")
@click.option(
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where runs.json and figure.html go.",
)
def main(
    *,
    nodes_file: Path,
    pods_file: Path,
    policies: tuple[str, ...],
    seeds: range,
    ratio: float,
    jobs: int | None,
    dask: str | None,
    folder: Path | None,
) -> None:
    """Repeat the experiment of "Beware of Fragmentation": policies for shared GPUs, each with several seeds."""
    from rich.console import Console

    try:
        nodes, pods = read_nodes(nodes_file), read_pods(pods_file)
    except TraceError as e:
        raise click.ClickException(f"{e}\nThe trace is published at {PUBLISHED}.") from e
    wanted = [Job(policy, seed, ratio, nodes, pods) for seed in seeds for policy in policies or POLICIES]
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        runs, failed = _all(Dask(dask) if dask else Processes(jobs), wanted, Console(stderr=True))
        if runs:
            _report(runs, f"{pods_file.name}: {len(seeds)} seeds", Console(), folder)
    except WorkersError as e:
        raise click.ClickException(str(e)) from e
    except OSError as e:
        raise click.ClickException(f"{e.filename or folder}: {e.strerror}") from e
    for job, why in failed:
        click.echo(f"run {job.policy}, seed {job.seed} failed: {why}", err=True)
    if failed:
        raise SystemExit(1)


def _all(workers: Workers, jobs: list[Job], console: Console) -> tuple[list[Run], list[tuple[Job, str]]]:
    """The runs in the order of their jobs, and what became of the others; Ctrl-C keeps what is done."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    found: dict[int, Run] = {}
    failed: list[tuple[Job, str]] = []
    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=len(jobs))
        try:
            for outcome in run_all(workers, do, jobs):
                if outcome.result is None:
                    failed.append((jobs[outcome.job], outcome.error))
                else:
                    found[outcome.job] = outcome.result
                progress.advance(bar)
        except KeyboardInterrupt:
            console.print(f"interrupted: {len(found)} of {len(jobs)} runs are done")
    return [found[i] for i in sorted(found)], failed


def _report(runs: list[Run], title: str, console: Console, folder: Path | None) -> None:
    from rich.table import Table

    titles = {name: policy.title for name, policy in POLICIES.items()}
    measures = {measure: curves(runs, measure, titles) for measure in ("allocated", "fragments")}
    for measure, caption in (("allocated", "Allocated, % of all GPUs"), ("fragments", "Fragmented, % of all GPUs")):
        head, *rows = table(measures[measure])
        shown = Table(*head, title=f"{caption}, by arrived load: mean over seeds ± deviation of one run")
        for row in rows:
            shown.add_row(*row)
        console.print(shown)
    if folder is not None:
        (folder / "runs.json").write_bytes(msgspec.json.format(msgspec.json.encode(runs), indent=1))
        (folder / "figure.html").write_text(figure(*measures.values(), title=title), encoding="utf-8")
        console.print(f"{folder / 'runs.json'} and {folder / 'figure.html'} written")


if __name__ == "__main__":
    main()
