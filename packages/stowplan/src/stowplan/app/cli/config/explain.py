"""`stowplan config explain`: describe a field, like `kubectl explain`."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from stowplan.app.cli.config.config_options import known_plugins, plugin_options
from stowplan.app.cli.data_output import output_option, write_data
from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.feature_gates import features_of
from stowplan.kube.config.reports.fields import UnknownFieldError, explain_field, known_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.kube.config.reports.fields import ExplainedField

_WIDTH = 100


class _FieldPath(click.ParamType[str]):
    name = "field"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        depth = incomplete.count(".")
        paths = known_paths(known_plugins(()))
        found = dict.fromkeys(path for path in paths if path.startswith(incomplete) and path.count(".") == depth)
        return [CompletionItem(path) for path in found]


@click.command(short_help="Describe a field: type, default, versions.")
@click.argument("field", type=_FieldPath(), default="")
@plugin_options
@output_option("text", "json", "yaml")
def explain(*, field: str, plugins: tuple[str, ...], gates: tuple[str, ...], output: str) -> None:
    """Describe FIELD: its type, default and range, which versions have it and what it does. FIELD is a path in the
    configuration, a kind of plugin arguments (optionally with a path in it), a plugin, or Policy.

    \b
    Examples:
      stowplan config explain
      stowplan config explain profiles.plugins.score
      stowplan config explain NodeResourcesFitArgs.scoringStrategy
      stowplan config explain Policy.priorities
    """
    try:
        found = explain_field(field, known_plugins(plugins), features_of(gates))
    except UnknownFieldError as error:
        raise InputError(str(error), hints=error.hints) from error
    if output == "text":
        click.echo("\n".join(_lines(found)))
    else:
        write_data(found.to_dict(), output)


def _lines(found: ExplainedField) -> Iterator[str]:
    facts: dict[str, Any] = {
        "KIND": found.kind,
        "FIELD": f"{found.path} <{found.type}>" if found.path else "",
        "DEFAULT": found.default,
        "RANGE": found.range,
        "VALUES": ", ".join(found.choices),
        "VERSIONS": ", ".join(found.versions),
    }
    yield from (f"{f'{name}:':<12}{value}" for name, value in facts.items() if value)
    if found.text:
        yield ""
        yield from textwrap.wrap(found.text, _WIDTH)
    if found.notes:
        yield ""
        yield from found.notes
    if found.fields:
        yield ""
        yield "FIELDS"
        for name, type_, text in found.fields:
            yield f"  {name} <{type_}>"
            yield from textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")
