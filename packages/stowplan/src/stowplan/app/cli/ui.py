"""`stowplan ui`: the cluster as a stow plan in the browser."""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from stowplan import __version__
from stowplan.app.cli.cluster_options import (
    check_recursive,
    check_token_file,
    cluster_of,
    cluster_options,
    config_option,
    scheduler_options,
)
from stowplan.app.cli.config import known_plugins
from stowplan.app.cli.live_cluster import chosen_version, followed_cluster, readable
from stowplan.app.cli.moment_option import moment_from_option
from stowplan.app.cli.shell_completion import file_option
from stowplan.app.command_line import event_loop
from stowplan.app.command_line.error_reporting import InputError, reported
from stowplan.app.command_line.event_loop import first_of, running
from stowplan.app.command_line.stop_signals import StopSignals, stop_signals
from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.app.sources.timeline_sources import (
    NO_RERUN,
    TimelineSource,
    recorded_source,
    rerun_source,
    simulated_source,
    simulated_timeline,
)
from stowplan.ask.loading.price_list import PriceListError, read_prices
from stowplan.ask.rebalance.policy.measured_use import NodeMetrics
from stowplan.kube.config import Declarations
from stowplan.kube.klog.setup import LogSettings, set_up
from stowplan.kube.kubernetes_versions import KubernetesVersion
from stowplan.kube.structs import PlainStruct
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.serving.requests.messages import Page
from stowplan.net.serving.serving_error import ServingError
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.scheduler.inspection.room import room_of
from stowplan.ui.cluster_inspection import ClusterInspection
from stowplan.ui.measured_use import UseRecord, use_pages, use_record
from stowplan.ui.page_routes import Streams
from stowplan.ui.plan import Plan, plan_of
from stowplan.ui.room_trend import RoomTrend
from stowplan.ui.saved_copy import save_copy
from stowplan.ui.source_records import Capability, ConfigurationRecord, Mode, SourceRecord, configuration_record
from stowplan.ui.timeline_routes import MomentCluster, MomentError, Moments, Timelines
from stowplan.ui.workbench import Workbench

if TYPE_CHECKING:
    from stowplan.app.sources.followed_cluster import FollowedCluster

_ANSWERED: tuple[Capability, ...] = (
    "plan",
    "explain",
    "pending",
    "nodes",
    "podgroups",
    "room",
    "devices",
    "configuration",
)


@click.command(short_help="The cluster as a stow plan in your browser.")
@cluster_options
@file_option(
    "--recording",
    "recordings",
    multiple=True,
    help="Show a recording (stowplan record, kube-scheduler --record): its end and timeline, or one moment with --at. "
    "Given twice, two of them side by side. With --config, next to what that configuration would have done.",
)
@file_option(
    "--simulation",
    "simulations",
    metavar="FOLDER",
    multiple=True,
    help="Show the results of `stowplan simulate`: end and timeline. Given twice, two of them side by side.",
)
@click.option("--at", metavar="TIME", help="Show this moment of the recording, such as 2026-11-20T12:03 (UTC).")
@config_option()
@file_option(
    "--prices", help="Show what nodes cost, by this CSV file: columns type, price (of an hour), perhaps capacityType."
)
@scheduler_options
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Serve the page on this port of 127.0.0.1. Default: a free one.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@click.option(
    "--export",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a copy that works without a server as one HTML file, and exit.",
)
def ui(**given: Any) -> None:
    """Show the cluster as a ship's stow plan: nodes as bays, pods as boxes in them, pending pods below them,
    and why each of them is pending.

    The page is served on 127.0.0.1 to anyone who has its URL, which contains a token. Nothing is written to any
    cluster, and the page loads nothing from elsewhere.

    \b
    Examples:
      stowplan ui
      stowplan ui -f cluster.json
      stowplan ui -f cluster.json --config packing.yaml --open
      stowplan ui --recording cluster.recording
      stowplan ui --recording cluster.recording --config packing.yaml     # then, and as it would have been
      stowplan ui --simulation results --simulation packed
      stowplan ui --from-scheduler https://10.0.0.7:10259 --certificate-authority scheduler-ca.crt
      stowplan ui -f cluster.json --export plan.html
    """
    options = _Options(**given)
    options.check()
    with reported(options.config):
        show = _Show(options.port, options.opens, options.price_list)
        if options.from_scheduler is not None:
            _from_scheduler(show, options, options.from_scheduler)
        elif options.follows:
            _live(show, options)
        elif options.recordings or options.simulations:
            _timeline(show, options)
        else:
            about = cluster_of(
                files=options.files,
                recursive=options.recursive,
                live=options.live,
                config=options.config,
                plugins=options.plugins,
                pod_groups=options.pod_groups,
                emulated_version=options.emulated_version,
            )
            mode: Mode = "files" if options.files else "static"
            _static_cluster(about, mode, options.title, known_plugins(options.plugins), {}).show(show, options.export)


class _Options(PlainStruct, frozen=True, kw_only=True):
    """The option values, under click's names."""

    files: tuple[str, ...]
    recursive: bool
    recordings: tuple[str, ...]
    simulations: tuple[str, ...]
    at: str | None
    live: ClusterFlags
    config: str | None
    prices: str | None
    plugins: tuple[str, ...]
    pod_groups: bool
    emulated_version: str | None
    from_scheduler: str | None
    token_file: str | None
    port: int
    opens: bool
    export: Path | None

    @property
    def follows(self) -> bool:
        """Whether a live cluster is followed."""
        return not (self.files or self.recordings or self.simulations or self.export)

    @property
    def title(self) -> str:
        """The title for a cluster that is read once."""
        if not self.files:
            return self.live.context or "a live cluster"
        if len(self.files) > 1:
            return count(len(self.files), "file")
        return "stdin" if self.files[0] == "-" else self.files[0]

    @property
    def price_list(self) -> dict[str, dict[str, float]]:
        """By type and capacity type; raises InputError."""
        found: dict[str, dict[str, float]] = {}
        try:
            for (type_, capacity_type), priced in (read_prices(Path(self.prices)) if self.prices else {}).items():
                found.setdefault(type_, {})[capacity_type] = priced.price
        except PriceListError as error:
            raise InputError(str(error)) from error
        return found

    def check(self) -> None:
        """Check for mutually exclusive options; raises click.UsageError."""
        self._check_clusters()
        check_recursive(self.files, recursive=self.recursive)
        if self.export is not None and (self.port or self.opens):
            raise click.UsageError("--export writes a file and serves nothing: give neither --port nor --open.")
        check_token_file(self.token_file, self.from_scheduler)
        of_its_own = (
            self.files
            or self.recordings
            or self.simulations
            or self.config
            or self.prices
            or self.plugins
            or self.pod_groups
            or self.emulated_version
        )
        if self.from_scheduler is not None and (of_its_own or self.export):
            raise click.UsageError("--from-scheduler shows a scheduler that has its own cluster and configuration.")

    def _check_clusters(self) -> None:
        recorded = self.recordings or self.simulations
        if sum(map(bool, (self.files, recorded, self.live.given))) > 1:
            raise click.UsageError(
                "give one cluster: with -f, with --recording or --simulation, or with --kubeconfig, --context and --as."
            )
        timelines = len(self.recordings) + len(self.simulations)
        if timelines > 2:
            raise click.UsageError("--recording and --simulation: two are shown side by side, no more.")
        one_recording = timelines == 1 and bool(self.recordings)
        if self.at is not None and not one_recording:
            raise click.UsageError("--at is for a moment of a recording: give one --recording FILE.")
        if self.emulated_version is not None and self.simulations:
            raise click.UsageError("--simulation shows what was simulated: give --emulated-version to simulate.")
        if self.config is not None and timelines and not one_recording:
            raise click.UsageError("--config is another configuration for one recording: give one --recording FILE.")


def _timeline(show: _Show, options: _Options) -> None:
    """Show a recording or simulation."""
    recordings, config, plugins = options.recordings, options.config, options.plugins
    moment, version = moment_from_option(options.at), chosen_version(options.emulated_version)
    timelines = {} if moment is not None else _timeline_sources(options, version)
    if not recordings:
        _show_simulation(show, options.export, options.simulations[0], timelines)
        return
    about = ClusterSource.of_recording(recordings[0], moment, config, plugins, version)
    _static_cluster(about, "recording", recordings[0], known_plugins(plugins), timelines).show(show, options.export)


def _timeline_sources(options: _Options, version: KubernetesVersion | None) -> dict[str, TimelineSource]:
    """The timelines to show, by unique names."""
    recordings, simulations = options.recordings, options.simulations
    config, plugins = options.config, options.plugins
    if len(recordings) == 1 and not simulations:
        (path,) = recordings
        found = {"recorded": recorded_source(path, plugins, version)}
        if config is not None:
            found[f"with {Path(config).name}"] = rerun_source(path, config, plugins, version)
        return found
    all_ = [(path, recorded_source(path, plugins, version)) for path in recordings]
    all_ += [(folder, simulated_source(folder)) for folder in simulations]
    names = [Path(path).name or path for path, _ in all_]
    return {
        name if names.count(name) == 1 else f"{path} ({i})": source
        for i, (name, (path, source)) in enumerate(zip(names, all_, strict=True), 1)
    }


class _Show(PlainStruct, frozen=True):
    """How the page is served."""

    port: int
    opens: bool
    #: As the source has them.
    prices: dict[str, dict[str, float]]

    async def until(
        self,
        stopped: asyncio.Event,
        pages: Mapping[str, Page],
        streams: Streams,
        size: str,
        *others: Awaitable[object],
    ) -> None:
        """Serve until stopped, or until one of the other tasks ends."""
        from stowplan.ui.page_routes import page_served

        try:
            async with page_served(pages, streams, port=self.port) as address:
                click.echo(f"{size}: {address}\nCtrl-C ends it.")
                if self.opens:
                    webbrowser.open(address)
                await first_of(stopped.wait(), *others)
        except ServingError as error:
            raise InputError(f"{error}; --port 0 takes a free one") from error


class _StaticCluster(PlainStruct, frozen=True, kw_only=True):
    """A cluster that does not change, and the timelines that led to it."""

    plan: Plan
    source: SourceRecord
    configuration: ConfigurationRecord
    timelines: Mapping[str, TimelineSource]
    #: None for a simulation, which is built on demand.
    about: ClusterSource | None = None
    use: UseRecord | None = None

    def show(self, show: _Show, export: Path | None) -> None:
        cluster = replace(self, source=replace(self.source, prices=show.prices or self.source.prices))
        if export is None:
            with stop_signals() as stop:
                event_loop.run(cluster._serve(show, stop))
        else:
            cluster._save(export)

    @property
    def _timelines(self) -> Timelines:
        return Timelines({name: source.timeline for name, source in self.timelines.items()})

    async def _measured(self) -> UseRecord:
        return self.use or UseRecord(nodes={})

    def _moments(self) -> Moments:
        return Moments({name: source.moment for name, source in self.timelines.items()}, self.about)

    def _save(self, file: Path) -> None:
        asked: MomentCluster | None = self.about
        if asked is None and "explain" in self.source.can:
            try:
                asked = self._moments().end()
            except MomentError as error:
                raise InputError(str(error)) from error
        source = replace(self.source, mode="static", can=tuple(one for one in self.source.can if one != "moments"))
        try:
            save_copy(
                file,
                self.plan,
                source=source,
                configuration=self.configuration,
                answers=None if asked is None else ClusterInspection(asked),
                timelines=self._timelines,
                use=self.use,
            )
        except OSError as error:
            raise InputError(f"--export {file}: {error.strerror}: {error.filename}") from error
        click.echo(f"wrote {file}: {_size(self.plan)}")

    async def _serve(self, show: _Show, stop: StopSignals) -> None:
        from stowplan.ui.event_stream import PlanStreams
        from stowplan.ui.page_routes import PREFIX, page_routes

        stopped, streams, about, source = stop.event(), PlanStreams(self.plan.copy()), self.about, self.source
        answers: dict[str, Page] = {**self._timelines.pages(PREFIX)}
        moments = self._moments()
        if self.timelines:
            answers |= moments.pages(PREFIX)
        elif about is not None:
            answers |= {**ClusterInspection(about).pages(PREFIX), **Workbench(lambda: about.cluster).pages(PREFIX)}
        if self.use is not None:
            answers |= use_pages(PREFIX, self._measured)
        if "explain" in source.can:
            source = replace(source, can=(*source.can, "whatIf"))
        pages = page_routes(lambda: source, streams=streams, configuration=lambda: self.configuration, answers=answers)
        try:
            await show.until(stopped, pages, streams, _size(self.plan))
        finally:
            moments.close()


def _static_cluster(
    about: ClusterSource, mode: Mode, title: str, known: Declarations, timelines: Mapping[str, TimelineSource]
) -> _StaticCluster:
    configuration = about.cluster.config
    source = _source(mode, title, configuration.profiles[0].scheduler_name, tuple(timelines))
    measured = [one for one in about.others if one["kind"] == "NodeMetrics"]
    return _StaticCluster(
        plan=plan_of(about.engine.state),
        source=replace(source, can=(*source.can, "use")) if measured else source,
        use=use_record(measured) if measured else None,
        configuration=configuration_record(configuration, known, about.engine.features),
        timelines=timelines,
        about=about,
    )


def _show_simulation(show: _Show, export: Path | None, folder: str, timelines: Mapping[str, TimelineSource]) -> None:
    header, timeline = simulated_timeline(folder)
    source = _source("simulation", header.title or Path(folder).name, header.scheduler_name, tuple(timelines))
    if header.rerun is None:
        can = tuple(one for one in source.can if one in ("plan", "configuration", "time", "moments"))
        source = replace(source, can=can, why_not=dict.fromkeys(("explain", "pending", "whatIf"), NO_RERUN))
    source = replace(source, prices=header.prices)
    cluster = _StaticCluster(
        plan=timeline.end(), source=source, configuration=header.configuration, timelines=timelines
    )
    cluster.show(show, export)


# -- a live cluster ---------------------------------------------------------------------------------------------------


def _live(show: _Show, options: _Options) -> None:
    followed = followed_cluster(
        options.live,
        options.config,
        options.plugins,
        options.emulated_version,
        groups=options.pod_groups,
        command="ui",
    )
    # Whoever stops it has waited too long.
    followed.patience = None
    logs = set_up(LogSettings(verbosity=0, format="text"))
    try:
        with stop_signals(logs.flush) as stop:
            event_loop.run(_follow(show, followed, known_plugins(options.plugins), stop))
    finally:
        logs.close()


async def _follow(show: _Show, followed: FollowedCluster, known: Declarations, stop: StopSignals) -> None:
    """Show the cluster as it changes; questions of the page are asked about it, and undone."""
    from stowplan.app.sources.followed_cluster import Reads
    from stowplan.ui.event_stream import PlanStreams
    from stowplan.ui.page_routes import PREFIX, page_routes
    from stowplan.ui.plan_follower import stream_plan

    stopped, streams = stop.event(), PlanStreams()
    async with readable(followed.connection, command="ui") as api, running(followed.run()) as following:
        reading = asyncio.ensure_future(followed.about(Reads()))
        await first_of(stopped.wait(), reading)
        if stopped.is_set():
            reading.cancel()
            return
        about = reading.result()
        about.extenders = False
        state, configuration = about.engine.state, about.cluster.config
        trend = RoomTrend(lambda: room_of(state))
        inspection, workbench = ClusterInspection(about, trend), Workbench(lambda: about.cluster)
        source = _source("live", followed.connection.server, configuration.profiles[0].scheduler_name)
        source = replace(source, can=(*source.can, "use", "whatIf"), prices=show.prices)

        async def use() -> UseRecord:
            return use_record(one.content for one in (await api.list(NodeMetrics)).items)

        pages = page_routes(
            lambda: source,
            streams=streams,
            configuration=lambda: configuration_record(configuration, known, about.engine.features),
            answers=inspection.pages(PREFIX) | use_pages(PREFIX, use) | workbench.pages(PREFIX),
        )
        async with running(stream_plan(state, streams)) as looking, running(trend.keep()) as keeping:
            await show.until(stopped, pages, streams, _size(plan_of(state)), following, looking, keeping)


# -- a running scheduler ----------------------------------------------------------------------------------------------


def _from_scheduler(show: _Show, options: _Options, url: str) -> None:
    with stop_signals() as stop:
        event_loop.run(_proxy_page(show, options, url, stop))


async def _proxy_page(show: _Show, options: _Options, url: str, stop: StopSignals) -> None:
    from stowplan.app.sources.forwarded_page import forwarded_page
    from stowplan.app.sources.running_scheduler import SchedulerEndpoint, check_scheduler

    stopped = stop.event()
    endpoint = SchedulerEndpoint.of(url, options.live, options.token_file)
    await check_scheduler(endpoint)
    async with forwarded_page(endpoint) as passed:
        await show.until(stopped, passed.pages(), passed, f"the scheduler at {passed.server}")


# -- shared ------------------------------------------------------------------------------------------------------------


def _source(mode: Mode, title: str, scheduler_name: str, timelines: tuple[str, ...] = ()) -> SourceRecord:
    return SourceRecord(
        mode=mode,
        title=title,
        scheduler_name=scheduler_name,
        version=f"stowplan {__version__}",
        can=(*_ANSWERED, "time", "moments") if timelines else _ANSWERED,
        timelines=timelines,
    )


def _size(plan: Plan) -> str:
    waiting = sum(1 for pod in plan.pods.values() if not pod.node)
    return f"{count(len(plan.nodes), 'node')}, {count(len(plan.pods), 'pod')}, {waiting} of them pending"
