"""Output of commands: as text, JSON or YAML, and progress of many equal steps."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from stowplan.kube.kubernetes_versions import KubernetesVersion


def output_option(*choices: str, more: str = "") -> Callable[[Callable[..., Any]], Any]:
    """`more`: what else the help says."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        help=f"Print the result in this format{more}.",
    )


OUTPUT = output_option("text", "json", "yaml")


def answered_as(version: KubernetesVersion) -> dict[str, str]:
    """What a document says about the version of kube-scheduler that answered."""
    return {"emulatedVersion": str(version)}


def write_data(data: dict[str, Any], output: str) -> None:
    if output == "json":
        click.echo(json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False))
        return
    from stowplan.kube.api.yaml_text import to_yaml

    # Through JSON: shared objects would be written as YAML aliases.
    apart = json.loads(json.dumps(data))
    click.echo(to_yaml(apart, sort_keys=True, width=1000), nl=False)


def on_one_line() -> bool:
    """Whether progress can replace itself: whether stderr is a terminal that can erase a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class Progress:
    def __init__(self, *, quiet: bool = False, unit: str = "runs") -> None:
        self._shown = on_one_line() and not quiet
        self._unit = unit

    def __call__(self, what: str, done: int, of: int) -> None:
        if self._shown:
            click.echo(f"\r\x1b[K{what}: {done} of {of} {self._unit}", err=True, nl=False)

    def close(self) -> None:
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)
