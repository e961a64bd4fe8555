"""`stowplan config diff`: compare the effect of two configurations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.cli.config.config_options import file_argument, known_plugins, load, plugin_options, shown
from stowplan.app.cli.data_output import output_option, write_data
from stowplan.app.command_line.feature_gates import features_of
from stowplan.kube.config.load import load_document
from stowplan.kube.config.reports.differences import differences

if TYPE_CHECKING:
    from stowplan.kube.config.reports.differences import Difference

_DIFFERENT = 1


@click.command(short_help="Compare what two files mean, not their text.")
@file_argument("left")
@file_argument("right", required=False)
@plugin_options
@output_option("text", "json", "yaml")
@click.pass_context
def diff(
    ctx: click.Context,
    *,
    left: str,
    right: str | None,
    plugins: tuple[str, ...],
    gates: tuple[str, ...],
    output: str,
) -> None:
    """Show differences in effect between LEFT and RIGHT: which plugins run where and with which weight, their
    arguments, extenders, settings. The files may have different versions. A single file is compared with the defaults.

    The order of plugins matters where they run one after the other, not where scores are added up. Fields that another
    field overrides are ignored.

    Exit codes: 0: equal; 1: different; 2: a file is invalid.
    """
    known, features = known_plugins(plugins), features_of(gates)
    names = ("defaults", shown(left)) if right is None else (shown(left), shown(right))
    given = load(left, known, features)
    if right is None:
        sides = (load_document(None, plugins=known, features=features), given)
    else:
        sides = (given, load(right, known, features))
    found = differences(sides[0].configuration, sides[1].configuration)
    if output == "text":
        _print_report(names, found)
    else:
        record = {"left": names[0], "right": names[1], "differences": [one.to_dict() for one in found]}
        write_data(record, output)
    ctx.exit(_DIFFERENT if found else 0)


def _print_report(names: tuple[str, str], found: list[Difference]) -> None:
    if not found:
        return
    click.echo(f"--- {names[0]}")
    click.echo(f"+++ {names[1]}")
    for one in found:
        click.echo(one.path)
        for sign, value in (("-", one.left), ("+", one.right)):
            if value is not None:
                click.echo(f"  {sign} {_shown(value)}")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
