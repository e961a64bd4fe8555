"""Records for the page besides the plan: the source of its data, and the current configuration."""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.inspection.records import Record


class SourceRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The source of the data, and which questions it can answer."""

    kind: str = "Source"
    #: live, files, recording, simulation or static.
    mode: str
    title: str
    scheduler_name: str = ""
    version: str = ""
    #: Available routes.
    can: tuple[str, ...]
    #: Route -> why it is not available, for users.
    why_not: dict[str, str] = msgspec.field(default_factory=dict)
    tracks: tuple[str, ...] = ()


class PluginRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    #: 0 at points without weights.
    weight: int = 0
    #: explicit, multiPoint or default.
    from_: str = msgspec.field(name="from")


class PointRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The plugins of an extension point in call order."""

    point: str
    plugins: tuple[PluginRecord, ...]


class LeftOutRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A default plugin that does not run at all or some points."""

    name: str
    why: str


class ArgsRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    value: Any


class ProfileRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    scheduler_name: str
    #: 0: the reference's adaptive default.
    percentage_of_nodes_to_score: int = 0
    points: tuple[PointRecord, ...]
    left_out: tuple[LeftOutRecord, ...] = ()
    args: tuple[ArgsRecord, ...] = ()


class ConfigurationRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: str = "Configuration"
    profiles: tuple[ProfileRecord, ...]
    extenders: tuple[dict[str, Any], ...] = ()
    #: The whole configuration as a v1 file, without secrets.
    yaml: str = ""
    #: URLs of the extenders whose password or key is missing from it.
    without_secrets: tuple[str, ...] = ()
    #: Feature gates that differ from kube-scheduler's defaults.
    gates: dict[str, bool] = msgspec.field(default_factory=dict)
