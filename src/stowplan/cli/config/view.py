"""`stowplan config view`: what a configuration comes to, and where each plugin comes from."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from stowplan.cli.config.about import features_of, file_argument, known_plugins, load, output_option, shown, what_exists
from stowplan.cli.data_output import write_data
from stowplan.config.load import load_document
from stowplan.config.reports.differences import differences
from stowplan.config.reports.effective import effective_profiles
from stowplan.config.schema import API_VERSION
from stowplan.explain.tables import Grid, Line, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.config import Configuration, Declarations, FeatureGates
    from stowplan.config.load import Loaded
    from stowplan.config.reports.effective import EffectiveProfile
    from stowplan.explain.tables import Block


@click.command(short_help="Which plugins run where, and where each comes from.")
@file_argument()
@what_exists
@output_option("text", "json", "yaml")
def view(*, file: str, plugins: tuple[str, ...], gates: tuple[str, ...], output: str) -> None:
    """Show what FILE comes to: for each profile, the plugins of each extension point in the order they run, and where
    each comes from.

    \b
      explicit    the file names it at the extension point
      multiPoint  the file names it at multiPoint
      default     it runs unless the file says otherwise; by the release of the file, if that is older

    Then the default plugins that do not run, and settings and arguments that are not the default ones.
    """
    known, features = known_plugins(plugins), features_of(gates)
    loaded = load(file, known, features)
    profiles = effective_profiles(loaded, known, features)
    version = loaded.upgrade.origin if loaded.upgrade is not None and loaded.upgrade.origin else API_VERSION
    if output == "text":
        write(list(_page(f"{shown(file)}: {version}", loaded, profiles, known, features)), sys.stdout)
        return
    write_data(
        {
            "file": shown(file),
            "version": version,
            "warnings": list(loaded.upgrade.warnings) if loaded.upgrade is not None else [],
            "profiles": [profile.to_dict() for profile in profiles],
            "configuration": loaded.configuration.to_dict(),
        },
        output,
    )


def _page(
    title: str, loaded: Loaded, profiles: list[EffectiveProfile], known: Declarations, features: FeatureGates
) -> Iterator[Block]:
    yield Line(((title, "head"),))
    for warning in loaded.upgrade.warnings if loaded.upgrade is not None else ():
        yield Line((("warning: ", "pending"), (warning, "")))
    for profile in profiles:
        yield Line()
        yield Line((("profile ", "head"), (profile.scheduler_name, "name")))
        yield Grid(list(_rows(profile)), header=("POINT", "PLUGIN", "WEIGHT", "FROM", ""), right=frozenset({2}))
        if profile.left_out:
            yield Line()
            yield Line((("default plugins that do not run", "head"),), indent=2)
            yield Grid([(name, why) for name, why in profile.left_out.items()], indent=4)
    changed = list(_changed(loaded.configuration, known, features))
    if changed:
        yield Line()
        yield Line((("other than by default", "head"),))
        yield Grid(changed)


def _rows(profile: EffectiveProfile) -> Iterator[tuple[str, ...]]:
    for point, plugins in profile.points.items():
        for i, plugin in enumerate(plugins):
            weight = "" if plugin.weight is None else str(plugin.weight)
            yield (point if i == 0 else "", plugin.name, weight, plugin.origin, plugin.note)


def _changed(configuration: Configuration, known: Declarations, features: FeatureGates) -> Iterator[tuple[str, str]]:
    """Settings, arguments and extenders; plugins are shown already."""
    default = load_document(None, plugins=known, features=features).configuration
    names = [profile.scheduler_name for profile in configuration.profiles]
    profiles = tuple(replace(default.profiles[0], scheduler_name=name) for name in names)
    for one in differences(replace(default, profiles=profiles), configuration):
        if not one.path.startswith("profile ") or ": arguments of " in one.path or "percentage" in one.path:
            yield one.path, _value(one.right)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
