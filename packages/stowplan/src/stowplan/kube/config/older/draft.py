"""A configuration being converted to v1, with a log of the conversions.

Each step of the conversion changes the data in place, and records an explanation at the field's path in the result.
Plugins are identified by name in paths, as their positions may still change. `stowplan config convert` writes the
explanations as comments. Lost settings are also warnings, which are shown when the file is loaded.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stowplan.kube.config.config_errors import ConfigError
from stowplan.kube.config.declaration import Declarations
from stowplan.kube.config.walk import json_kind

Json = dict[str, Any]


@dataclass(kw_only=True)
class Draft:
    fields: Json
    #: The version of the file, e.g. `v1beta2`; `Policy` for a policy.
    origin: str
    plugins: Declarations
    #: Path of a field -> what happened to it.
    comments: dict[str, list[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    #: Whether the default plugins of the file's release have been merged into its profiles.
    has_explicit_plugins: bool = False
    #: (path of a profile, extension point) -> what the file disables there.
    disabled: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    provider: str = "DefaultProvider"
    #: Paths of plugins that run by default in the file's release.
    defaults: set[str] = field(default_factory=set)

    def explain(self, path: str, text: str) -> None:
        comments = self.comments.setdefault(path, [])
        if text not in comments:
            comments.append(text)

    def move(self, old: str, new: str) -> None:
        """Keep the comments of a field that is moved."""
        for text in self.comments.pop(old, ()) if old != new else ():
            self.explain(new, text)
        if old in self.defaults:
            self.defaults.discard(old)
            self.defaults.add(new)

    def warn(self, path: str, text: str) -> None:
        """Explain a change that loses something."""
        self.explain(path, text)
        warning = f"{path}: {text}" if path else text
        if warning not in self.warnings:
            self.warnings.append(warning)

    def profiles(self) -> Iterator[tuple[str, Json]]:
        """Yield each profile with its path."""
        for i, profile in enumerate(self.fields.get("profiles") or []):
            yield f"profiles[{i}]", profile


def config_of(profile: Json, plugin: str) -> Json | None:
    """A plugin's first entry in pluginConfig."""
    return next((entry for entry in profile.get("pluginConfig", ()) if entry.get("name") == plugin), None)


def args_of(profile: Json, plugin: str) -> Json:
    """The arguments of a plugin, to be modified; created if there are none."""
    entry = config_of(profile, plugin)
    if entry is None:
        entry = {"name": plugin}
        profile.setdefault("pluginConfig", []).append(entry)
    entry["args"] = given_args(profile, plugin)
    found: Json = entry["args"]
    return found


def given_args(profile: Json, plugin: str) -> Json:
    """The arguments of a plugin, to be read; raises ConfigError if they are no object."""
    args = (config_of(profile, plugin) or {}).get("args")
    if args is not None and not isinstance(args, dict):
        raise ConfigError(f"args of plugin {plugin}: expected an object, got {json_kind(args)}")
    return args or {}


def config_path(path: str, plugin: str) -> str:
    return f"{path}.pluginConfig[{plugin}]"


def plugin_path(path: str, point: str, plugin: str) -> str:
    return f"{path}.plugins.{point}.enabled[{plugin}]"


def enabled_at(profile: Json, point: str) -> list[Json]:
    found: list[Json] = profile.get("plugins", {}).get(point, {}).get("enabled", [])
    return found
