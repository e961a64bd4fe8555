"""JSON and YAML output."""

from __future__ import annotations

import json
from typing import Any

import click


def write_data(data: dict[str, Any], output: str) -> None:
    if output == "json":
        click.echo(json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False))
        return
    from stowplan.api.yaml_text import to_yaml

    # Through JSON: shared objects would be written as YAML aliases.
    apart = json.loads(json.dumps(data))
    click.echo(to_yaml(apart, sort_keys=True, width=1000), nl=False)
