"""Output as text, JSON or YAML, and the option for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable


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


def write_data(data: dict[str, Any], output: str) -> None:
    if output == "json":
        click.echo(json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False))
        return
    from stowplan.kube.api.yaml_text import to_yaml

    # Through JSON: shared objects would be written as YAML aliases.
    apart = json.loads(json.dumps(data))
    click.echo(to_yaml(apart, sort_keys=True, width=1000), nl=False)
