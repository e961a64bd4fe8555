"""`stowplan ui`: the cluster as a stow plan in the browser."""

from __future__ import annotations

import secrets
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stowplan import __version__
from stowplan.cli.about import POD_GROUPS
from stowplan.cli.config.about import known_plugins, read
from stowplan.cli.moment_option import moment_from_option
from stowplan.cli.shell_completion import complete_context, complete_file
from stowplan.command_line import event_loop
from stowplan.command_line.errors import InputError, reported
from stowplan.command_line.stop_signals import stop_signals
from stowplan.config import DEFAULT_FEATURES
from stowplan.config.features import with_chosen
from stowplan.config.load import Loaded, load_document
from stowplan.framework.explanations.formatting import count
from stowplan.page.answers import Answers
from stowplan.page.configuration import configuration_record
from stowplan.page.plan import plan_of
from stowplan.page.records import SourceRecord
from stowplan.page.saved_copy import save_copy
from stowplan.serving.errors import ServingError
from stowplan.sources.cluster_source import GROUP_GATES, ClusterSource

if TYPE_CHECKING:
    from stowplan.command_line.stop_signals import StopSignals
    from stowplan.config import Declarations
    from stowplan.page.plan import Plan
    from stowplan.page.records import ConfigurationRecord

_ANSWERED = ("plan", "explain", "pending", "nodes", "podgroups", "configuration")


@click.command(short_help="The cluster as a stow plan in your browser.")
@click.option(
    "-f",
    "--filename",
    "files",
    metavar="FILE",
    multiple=True,
    shell_complete=complete_file,
    help="File, directory or - for stdin. Repeatable. Without it, a live cluster is shown, reading only.",
)
@click.option("-R", "--recursive", is_flag=True, help="Of directories, read the folders in them, too.")
@click.option(
    "--recording",
    metavar="FILE",
    shell_complete=complete_file,
    help="Show a moment of a recording (stowplan record, kube-scheduler --record).",
)
@click.option("--at", metavar="TIME", help="The moment, as 2026-11-20T12:03 (UTC); without it, the recording's end.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    shell_complete=complete_file,
    help="Kubeconfig of the live cluster. Default: found as kubectl finds it.",
)
@click.option(
    "--context",
    metavar="NAME",
    shell_complete=complete_context,
    help="Context of the kubeconfig. Default: the current one.",
)
@click.option(
    "--config",
    metavar="FILE",
    shell_complete=complete_file,
    help="KubeSchedulerConfiguration. Default: kube-scheduler's defaults.",
)
@click.option("--plugin", "plugins", metavar="MODULE:CLASS", multiple=True, help="Plugin of your own. Repeatable.")
@POD_GROUPS
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. Default: a free one.")
@click.option("--open", "opens", is_flag=True, help="Open it in the browser.")
@click.option(
    "--export",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a copy into this folder that opens from a file, and end.",
)
def ui(
    *,
    files: tuple[str, ...],
    recursive: bool,
    recording: str | None,
    at: str | None,
    kubeconfig: str | None,
    context: str | None,
    config: str | None,
    plugins: tuple[str, ...],
    pod_groups: bool,
    port: int,
    opens: bool,
    export: Path | None,
) -> None:
    """Show the cluster as a ship's stow plan: nodes as bays, pods as boxes in them, pods that wait on the quay, and
    what keeps each of them there.

    It is served on 127.0.0.1 to whoever has the address, which holds a token. Nothing is written to any cluster, and
    the page loads nothing from elsewhere.

    \b
    Examples:
      stowplan ui
      stowplan ui -f cluster.json
      stowplan ui -f cluster.json --config packing.yaml --open
      stowplan ui --recording cluster.recording --at 2026-11-20T12:03
      stowplan ui -f cluster.json --export plan/     # then open plan/index.html
    """
    if sum(map(bool, (files, recording, kubeconfig or context))) > 1:
        raise click.UsageError("-f, --recording, and --kubeconfig or --context are three clusters: give one.")
    if recursive and not files:
        raise click.UsageError("-R is for the directories of -f.")
    if at is not None and recording is None:
        raise click.UsageError("--at is for a moment of a recording: give --recording FILE.")
    if export is not None and (port or opens):
        raise click.UsageError("--export writes files and serves nothing: give neither --port nor --open.")
    when = moment_from_option(at)
    with reported(config):
        if files:
            about, mode = ClusterSource.of_files(files, config, plugins, recursive=recursive), "files"
            title = files[0] if len(files) == 1 else count(len(files), "file")
        elif recording:
            about, mode, title = ClusterSource.of_recording(recording, when, config, plugins), "recording", recording
        else:
            reading = ClusterSource.of_live_cluster(
                kubeconfig=kubeconfig, context=context, config=config, plugins=plugins, pod="", groups=pod_groups
            )
            about, mode, title = event_loop.run(reading), "files", context or "the cluster as it was read"
        known = known_plugins(plugins)
        own = Loaded(configuration=about.cluster.config, fields=about.cluster.config.to_dict(), upgrade=None)
        loaded = own if recording and not config else load_document(read(config) if config else None, plugins=known)
        shown = _Shown(about, mode, title, loaded, known)
        if export is not None:
            shown.save(export)
        else:
            shown.serve(port, opens=opens)


class _Shown:
    """A cluster that does not change while it is looked at."""

    def __init__(self, about: ClusterSource, mode: str, title: str, configuration: Loaded, known: Declarations) -> None:
        self._about = about
        self._mode = mode
        self._title = "stdin" if title == "-" else title
        self._answers = Answers(about)
        self._loaded = configuration
        self._known = known

    def _source(self, mode: str) -> SourceRecord:
        return SourceRecord(
            mode=mode,
            title=self._title,
            scheduler_name=self._about.cluster.config.profiles[0].scheduler_name,
            version=f"stowplan {__version__}",
            can=_ANSWERED,
        )

    def _configuration(self) -> ConfigurationRecord:
        features = with_chosen(GROUP_GATES) if self._about.engine.schedules_groups else DEFAULT_FEATURES
        return configuration_record(self._loaded, self._known, features)

    def save(self, folder: Path) -> None:
        plan, configuration = plan_of(self._about.engine.state), self._configuration()
        try:
            save_copy(folder, plan, source=self._source("static"), configuration=configuration, answers=self._answers)
        except OSError as error:
            raise InputError(f"--export {folder}: {error.strerror}: {error.filename}") from error
        click.echo(f"wrote {folder / 'index.html'}: {_size(plan)}")

    def serve(self, port: int, *, opens: bool) -> None:
        with stop_signals() as stop:
            event_loop.run(self._serve(port, stop, opens=opens))

    async def _serve(self, port: int, stop: StopSignals, *, opens: bool) -> None:
        from stowplan.page.feed import Feed
        from stowplan.page.site import PREFIX, is_public, site
        from stowplan.serving.loopback import LoopbackServer

        stopped = stop.event()
        plan, token = plan_of(self._about.engine.state), secrets.token_urlsafe(24)
        feed = Feed(plan)
        pages = site(
            self._source(self._mode),
            feed=feed,
            configuration=self._configuration,
            answers=self._answers.pages(PREFIX),
        )
        server = LoopbackServer(pages, token=token, public=is_public, port=port)
        try:
            await server.start()
        except ServingError as error:
            raise InputError(f"{error}; --port 0 takes a free one") from error
        try:
            address = f"{server.url}{PREFIX}#token={token}"
            click.echo(f"{_size(plan)}: {address}\nCtrl-C ends it.")
            if opens:
                webbrowser.open(address)
            await stopped.wait()
        finally:
            feed.close()
            await server.stop()


def _size(plan: Plan) -> str:
    waiting = sum(1 for pod in plan.pods.values() if not pod.node)
    return f"{count(len(plan.nodes), 'node')}, {count(len(plan.pods), 'pod')}, {waiting} of them pending"
