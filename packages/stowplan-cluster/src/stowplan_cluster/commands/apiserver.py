"""`stowplan apiserver`: the embedded API server without controllers or a scheduler."""

from __future__ import annotations

import logging
from typing import Any

import click

from stowplan.app.command_line.commands import Command
from stowplan.app.command_line.error_reporting import reported
from stowplan.app.command_line.event_loop import first_of, run
from stowplan.app.command_line.stop_signals import StopSignals, stop_signals
from stowplan_cluster.commands.cluster_server import EmbeddedCluster, kubeconfig_written, open_cluster, served
from stowplan_cluster.commands.embedded_options import WITHOUT_A_CLUSTER, ClusterOptions, cluster_options


@click.command(
    cls=Command, section=WITHOUT_A_CLUSTER, short_help="Run a cluster without machines or scheduler, for kubectl."
)
@click.option("--nodes", type=click.IntRange(0, 100_000), default=0, help="Number of nodes, made from --node-template.")
@cluster_options
def apiserver(**options: Any) -> None:
    """Run an API server with controllers: a cluster without machines that kubectl works with.

    Bound pods start, Deployments create pods, deletions finish; nothing is scheduled. It listens on 127.0.0.1, with
    TLS; the token is in the kubeconfig.

    \b
      stowplan apiserver --nodes 100 &
      kubectl --kubeconfig stowplan.kubeconfig get nodes
    """
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    with reported(), open_cluster(ClusterOptions(**options)) as cluster, stop_signals() as stop:
        run(_serve(cluster, stop))


async def _serve(cluster: EmbeddedCluster, stop: StopSignals) -> None:
    stopped = stop.event()
    async with served(cluster) as controllers:
        with kubeconfig_written(cluster):
            click.echo(f"Serving on {cluster.front.url}\n  export KUBECONFIG={cluster.kubeconfig.absolute()}")
            await first_of(stopped.wait(), controllers)
