"""From a file, a mapping or nothing to a configuration that a scheduler can run with.

A file of an older version becomes one of v1 first (`older/`). The steps are then the reference's: decode strictly, fill
in defaults, validate, build. Each ends the load with a ConfigError that carries the reference's message. A
Configuration that exists is therefore one that kube-scheduler would start with.

Upstream: cmd/kube-scheduler/app/options/configfile.go, cmd/kube-scheduler/app/server.go.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stowplan.api.field_errors import aggregate
from stowplan.config.build import build
from stowplan.config.declaration import Declarations
from stowplan.config.decode import decode_configuration
from stowplan.config.defaults import default_configuration
from stowplan.config.documents import Document, parse_document
from stowplan.config.errors import ConfigError, ConfigFileError, os_error_text
from stowplan.config.features import DEFAULT_FEATURES, FeatureGates
from stowplan.config.older.upgrade import tell, upgrade
from stowplan.config.types import Configuration
from stowplan.config.validation import configuration_errors

Source = Mapping[str, Any] | str | os.PathLike[str] | None


def load_config(
    source: Source = None,
    *,
    plugins: Declarations,
    features: FeatureGates = DEFAULT_FEATURES,
    adjust: Callable[[Configuration], Configuration] | None = None,
) -> Configuration:
    """Load a KubeSchedulerConfiguration.

    `source` is the configuration as a mapping, the path of a YAML or JSON file, or None for the defaults. `plugins`
    are all that exist. `adjust` changes the defaulted configuration before it is validated, as the leader-election
    flags do.
    """
    fields = {} if source is None else decode_configuration(_upgraded(source, plugins), plugins)
    configuration = default_configuration(fields, plugins, features)
    if adjust is not None:
        configuration = adjust(configuration)
    # Parity: without a file, flags change the defaults after these were validated.
    problems = [] if source is None else list(configuration_errors(configuration, plugins, features))
    if problems:
        raise ConfigError(aggregate(problems))
    return build(configuration, plugins, features)


def _upgraded(source: Mapping[str, Any] | str | os.PathLike[str], plugins: Declarations) -> Document:
    upgraded = upgrade(parse_document(_read(source)), plugins)
    tell(upgraded)
    return upgraded.document


def _read(source: Mapping[str, Any] | str | os.PathLike[str]) -> str:
    if isinstance(source, Mapping):
        return _as_json(source)
    path = os.fspath(source)
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigFileError(f"read {path}: not UTF-8 text") from None
    except IsADirectoryError as error:
        # One can be opened.
        raise ConfigFileError(os_error_text("read", path, error)) from None
    except OSError as error:
        raise ConfigFileError(os_error_text("open", path, error)) from None


def _as_json(source: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(source), separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the configuration cannot be written as JSON: {error}") from None
