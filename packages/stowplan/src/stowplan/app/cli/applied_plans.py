"""`stowplan rebalance --apply`: plans carried out in a live cluster."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Collection
from uuid import uuid4

import click
import msgspec

from stowplan import __version__
from stowplan.app.cli.cluster_options import NO
from stowplan.app.cli.data_output import write_data
from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.event_loop import run
from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.ask.loading.live_cluster import LiveClusterError, live_api
from stowplan.ask.rebalance.applying.apply_record import (
    FINISHED,
    NAME,
    ApplyRecord,
    Identities,
    RecordStore,
    record_of,
)
from stowplan.ask.rebalance.applying.applying import Applying, StoppedError, Waits, under_lease
from stowplan.ask.rebalance.goals import Goal
from stowplan.ask.rebalance.moves import Limits
from stowplan.ask.rebalance.rebalance import rebalance
from stowplan.ask.what_if.hypothetical_nodes import node_named, uncordoned
from stowplan.kube.api.api_errors import ApiError, Forbidden
from stowplan.kube.api.meta import controller_of
from stowplan.kube.config import LeaderElection
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.election.leader_election import LeaderElector
from stowplan.net.client.http.user_agent import user_agent
from stowplan.net.client.http_api import HttpApi

#: How long to wait for the lease of a run that has crashed: until it expires, and a try or two.
_PATIENCE = 25.0

#: Reads the cluster anew.
Load = Callable[[], tuple[ClusterSource, Goal]]


class ApplySettings(PlainStruct, frozen=True):
    live: ClusterFlags
    #: Of the lease and the record.
    namespace: str
    step_timeout: float
    grace_period_seconds: int | None


def carry_out(load: Load, limits: Limits, settings: ApplySettings, *, output: str, exit_code: bool) -> None:
    """Exit with NO if it stopped before its end; with `exit_code`, also if the goal is not met."""
    try:
        record = run(_under_lease(load, limits, settings))
    except StoppedError as error:
        raise InputError(str(error)) from error
    except (ApiError, LiveClusterError) as error:
        is_forbidden = isinstance(error.__cause__ or error, Forbidden)
        hints = ["--apply --rbac prints the roles for it"] if is_forbidden else []
        raise InputError(str(error), hints=hints) from error
    if output in ("json", "yaml"):
        write_data(msgspec.to_builtins(record), output)
    else:
        click.echo(_summary(record))
    if record.state != FINISHED or (exit_code and not record.met):
        raise SystemExit(NO)


async def _under_lease(load: Load, limits: Limits, settings: ApplySettings) -> ApplyRecord:
    agent = user_agent(command="stowplan", version=__version__, purpose="rebalance")
    async with live_api(settings.live, agent=agent) as (api, _):
        # Before anything else: whether the record may be read at all.
        await RecordStore(api, settings.namespace).read()
        elector = LeaderElector(
            api,
            LeaderElection(resource_name=NAME, resource_namespace=settings.namespace),
            identity=f"{socket.gethostname()}_{uuid4()}",
            times=REAL_TIMES,
        )
        applying = _applying(api, elector, load, limits, settings)
        return await under_lease(elector, applying.run, times=REAL_TIMES, patience=_PATIENCE)


def _applying(api: HttpApi, elector: LeaderElector, load: Load, limits: Limits, settings: ApplySettings) -> Applying:
    async def plan(cordoned: Collection[str]) -> ApplyRecord:
        # In a thread: the lease is renewed meanwhile.
        return await asyncio.to_thread(planned, load, limits, cordoned)

    return Applying(
        api,
        RecordStore(api, settings.namespace),
        plan,
        times=REAL_TIMES,
        is_leader=lambda: elector.is_leader,
        waits=Waits(step=settings.step_timeout),
        grace_period_seconds=settings.grace_period_seconds,
        report=lambda line: click.echo(line, file=sys.stderr),
    )


def planned(load: Load, limits: Limits, cordoned: Collection[str]) -> ApplyRecord:
    """A plan for the cluster as it is now, except that these nodes are not cordoned."""
    about, goal = load()
    cluster = about.cluster
    for name in cordoned:
        if name in cluster.state.table.row_of:
            cluster.add(uncordoned(node_named(cluster, name)))
    found = rebalance(cluster, goal, limits=limits)
    pods = {move.pod: cluster.pod(move.pod).pod.metadata for move in found.moves}
    owners = {key: controller_of(metadata) for key, metadata in pods.items()}
    ended = {f"{pod.metadata.namespace}/{pod.metadata.name}": pod.metadata.uid for pod in about.finished_pods}
    ids = Identities(
        pods={**ended, **{key: metadata.uid for key, metadata in pods.items()}},
        owners={key: owner.uid for key, owner in owners.items() if owner is not None},
    )
    return record_of(found, ids)


def _summary(record: ApplyRecord) -> str:
    moved = f"rebalance: {record.goal}: {record.moved:,} moved"
    plans = f", in {record.plans} plans" if record.plans > 1 else ""
    if record.state != FINISHED:
        return f"{moved}{plans}; stopped: {record.message}"
    return f"{moved}{plans}" if record.met else f"{moved}{plans}; that is not enough: {'; '.join(record.notes)}"
