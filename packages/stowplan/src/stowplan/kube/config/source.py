"""Configuration text from a file or a mapping."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stowplan.kube.config.errors import ConfigError, ConfigFileError, os_error_text

GivenSource = Mapping[str, Any] | str | os.PathLike[str]


def read_source(source: GivenSource) -> str:
    if isinstance(source, Mapping):
        return _as_json(source)
    if not isinstance(source, str | os.PathLike):
        raise ConfigError(f"the configuration: want a mapping or a path, got {source!r}")
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
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"the configuration cannot be written as JSON: {error}") from None
