"""`stowplan scenario`: a scenario from what a cluster has and does: pools, prices, and what Prometheus measured."""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.cli.moment_option import moment_from_option
from stowplan.app.cli.shell_completion import file_option
from stowplan.app.command_line.commands import Command
from stowplan.app.command_line.error_reporting import InputError
from stowplan_lab.commands import scenario_options

if TYPE_CHECKING:
    from stowplan_lab.traces.prometheus import Measured


@click.command(
    cls=Command,
    section=scenario_options.DAYS_IN_SECONDS,
    short_help="Make a scenario from a cluster's pools, prices and Prometheus.",
)
@file_option(
    "--pools",
    "pools",
    multiple=True,
    required=True,
    help="Read nodes (as of stowplan dump), Karpenter's NodePools and the ConfigMap cluster-autoscaler-status from "
    "this file or directory. Repeatable.",
)
@file_option("--prices", help="Read the prices of nodes from this CSV file: columns type, price, perhaps capacityType.")
@click.option("--prometheus", metavar="URL", help="Take the pods that came, and their use, from this Prometheus.")
@file_option(
    "--prometheus-token-file",
    help="The token for Prometheus. Default: that of the service account, in a pod.",
)
@click.option("--since", metavar="SPAN", default="7d", show_default=True, help="How much of the past to take.")
@click.option("--until", metavar="TIME", help="Where it ends. Default: now.")
@click.option(
    "--arrivals",
    type=click.Choice(("trace", "profile")),
    default="trace",
    show_default=True,
    help="Take each pod as it came, or of each owner how many pods came at which hours and weekdays, and their run "
    "times, so that a simulation can be longer than what was measured, and have other seeds.",
)
@click.option(
    "--out", metavar="FOLDER", required=True, help="Write scenario.yaml, and pods.csv for a trace, into this folder."
)
def scenario(
    *,
    pools: tuple[str, ...],
    prices: str | None,
    prometheus: str | None,
    prometheus_token_file: str | None,
    since: str,
    until: str | None,
    arrivals: str,
    out: str,
) -> None:
    """Make a scenario for simulate, compare and tune: node groups from nodes, pools of autoscalers and a price list;
    pods as they came, with their requests and run times, from Prometheus (kube-state-metrics). Whole hours are taken.

    \b
    Examples:
      stowplan dump -o cluster.json
      stowplan scenario --pools cluster.json --prices prices.csv --prometheus http://127.0.0.1:9090 --out week
      stowplan simulate week/scenario.yaml
    """
    from stowplan.ask.loading.price_list import read_prices
    from stowplan.kube.api.manifest_files import LoadError, load_manifests
    from stowplan.kube.api.meta import timestamp
    from stowplan.kube.api.yaml_text import to_yaml
    from stowplan_lab.simulation.definition.amounts import seconds
    from stowplan_lab.simulation.definition.scenario_loading import load_scenario
    from stowplan_lab.traces.arrival_profile import arrival_workloads
    from stowplan_lab.traces.node_pools import node_groups
    from stowplan_lab.traces.prometheus import HOUR
    from stowplan_lab.traces.trace import TraceError

    if prometheus is None and (prometheus_token_file, until) != (None, None):
        raise click.UsageError("--prometheus-token-file and --until are for --prometheus.")
    folder = Path(out)
    found: dict[str, Any] = {"name": folder.name, "cluster": {}}
    try:
        manifests = [manifest for _, manifest in load_manifests(pools)]
        groups, notes = node_groups(manifests, read_prices(Path(prices)) if prices else {})
        found["cluster"]["groups"] = groups
        if prometheus is not None:
            end = (moment_from_option(until) or time.time()) // HOUR * HOUR
            begin = end - max(seconds(since) // HOUR, 1) * HOUR
            known = {name for group in groups for name in group["capacity"]}
            pods = _asked(prometheus, prometheus_token_file, begin, end, known)
            notes += pods.notes
            workloads = list(arrival_workloads(pods.rows, begin, end)) if arrivals == "profile" else [_trace(pods)]
            if pods.usage:
                workloads = [one | {"usage": pods.usage} for one in workloads]
            for group in groups:
                if group.pop("taints", None):
                    notes.append(f"taints of {group['name']} are left out: metrics do not tell what pods tolerate")
            found |= {"start": timestamp(begin), "duration": end - begin, "workloads": workloads}
    except LoadError as error:
        raise InputError(*error.errors) from error
    except (TraceError, ValueError) as error:
        raise InputError(str(error)) from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if prometheus is not None and arrivals == "trace":
            with (folder / "pods.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(pods.rows)
        (folder / "scenario.yaml").write_text(to_yaml(found), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
    with scenario_options.scenario_reported():
        load_scenario(folder / "scenario.yaml")
    for note in notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"The scenario is in {folder}; run it with: stowplan simulate {folder / 'scenario.yaml'}")


def _trace(pods: Measured) -> dict[str, Any]:
    trace = {
        "format": "csv",
        "file": "pods.csv",
        "start": 0,
        "time": "time",
        "lifetime": "lifetime",
        "name": "name",
        "resources": pods.resources,
        # Tables of a simulation are by team.
        "labels": {"team": "namespace", "owner": "owner"},
    }
    return {"name": "measured", "trace": trace}


def _asked(url: str, token_file: str | None, begin: float, end: float, known: set[str]) -> Measured:
    from stowplan import __version__
    from stowplan.app.command_line.event_loop import run
    from stowplan.app.sources.measured_use import prometheus_token
    from stowplan.net.client.http.user_agent import user_agent
    from stowplan.net.client.json_http import JsonHttp
    from stowplan_lab.traces.prometheus import measured

    token = prometheus_token(token_file)
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def asked() -> Measured:
        client = JsonHttp(agent=user_agent(command="stowplan", version=__version__, purpose="scenario"))

        async def ask(path: str, query: Mapping[str, str]) -> Any:
            return await client.get(f"{url.rstrip('/')}/api/v1/{path}", query=query, headers=headers, insecure=False)

        try:
            return await measured(ask, begin, end, known)
        finally:
            await client.close()

    return run(asked())
