"""The command-line options of an embedded cluster, which `stowplan up` and `stowplan apiserver` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from stowplan.app.command_line.commands import Section
from stowplan.kube.api.durations import parse_duration
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, V1_36, V1_37
from stowplan.kube.structs import PlainStruct

CommandT = TypeVar("CommandT", bound="Callable[..., Any]")

_FILE = click.Path(dir_okay=False, path_type=Path)


class _Seconds(click.ParamType[float]):
    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = parse_duration(str(value)).seconds
        except ValueError as error:
            self.fail(f"{error}; write it as 30s or 1m30s", param, ctx)
        if seconds < 0:
            self.fail(f"{value!r} is negative", param, ctx)
        return seconds


_OPTIONS = (
    click.option(
        "--node-template",
        type=click.Path(exists=True, dir_okay=False),
        help="File with a Node; {n} in it is the node's number, {zone} one of a, b, c.",
    ),
    click.option(
        "-f",
        "--filename",
        "filenames",
        multiple=True,
        type=click.Path(exists=True, allow_dash=True),
        help="Manifests to create at startup, unless they exist. Repeatable; - is stdin.",
    ),
    click.option("-R", "--recursive", is_flag=True, help="Also read subdirectories."),
    click.option("--state", type=_FILE, help="File to keep the cluster in. Default: the cluster is lost at exit."),
    click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on; 0 picks a free one."),
    click.option("--bind-address", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option(
        "--kubeconfig-out",
        type=_FILE,
        default=Path("stowplan.kubeconfig"),
        show_default=True,
        help="Where to write the kubeconfig. Created when the server is ready, removed at exit.",
    ),
    click.option(
        "--controllers",
        default="*",
        show_default=True,
        metavar="LIST",
        help="Controllers to run: '*' all, 'NAME' one, '*,-NAME' all but one, '' none.",
    ),
    click.option(
        "--kubernetes-version",
        type=click.Choice([str(V1_36), str(V1_37)]),
        help=f"The version of Kubernetes that the cluster, with its scheduler, is of. Default: {DEFAULT_VERSION}.",
    ),
    click.option(
        "--start-after",
        type=_Seconds(),
        default="0s",
        help="How long containers take to start, for pods without an annotation. Default: 0s.",
    ),
    click.option(
        "--stop-after",
        type=_Seconds(),
        default="0s",
        help="How long they take to stop, at most their pod's grace period. Default: 0s.",
    ),
    click.option(
        "--disable-admission-plugins",
        default="",
        metavar="LIST",
        help="Admission plugins to switch off, by their upstream names.",
    ),
    click.option(
        "--without",
        default="",
        metavar="LIST",
        help="Stages of a write to skip, for speed: 'admission' (pods get no priority of their class and no "
        "default tolerations, claims no default class), 'managed-fields' (not recorded until somebody applies), "
        "'validation' (what is wrong is stored).",
    ),
)


def cluster_options(command: CommandT) -> CommandT:
    """Add the options of `ClusterOptions` to a command, except --nodes, whose default differs between commands."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class ClusterOptions(PlainStruct, frozen=True, kw_only=True):
    port: int
    bind_address: str
    kubeconfig_out: Path
    state: Path | None
    #: None for a default number if the cluster would have no nodes.
    nodes: int | None
    node_template: str | None
    #: None where nobody schedules.
    node_groups: str | None = None
    filenames: Sequence[str]
    recursive: bool = False
    controllers: str
    disable_admission_plugins: str
    without: str = ""
    kubernetes_version: str | None = None
    #: Seconds.
    start_after: float = 0.0
    stop_after: float = 0.0


# The section of `stowplan --help` that lists these commands.

WITHOUT_A_CLUSTER = Section(
    "Without a cluster at hand:",
    (
        ("stowplan demo", ""),
        ("stowplan up", "a cluster that schedules, for kubectl"),
        ("stowplan apiserver --nodes 100", "the same without a scheduler, to bring your own"),
    ),
)
