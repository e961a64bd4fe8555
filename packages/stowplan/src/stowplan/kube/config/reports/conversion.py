"""Write a converted configuration with comments that explain the changes.

A comment precedes the field that it is about. Comments on fields that v1 does not have are at the top.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stowplan.kube.api.yaml_text import to_yaml
from stowplan.kube.config.config_documents import Document
from stowplan.kube.config.config_errors import ConfigError
from stowplan.kube.config.config_loading import load_upgraded
from stowplan.kube.config.configuration import Configuration
from stowplan.kube.config.declaration import Declarations
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.header import read_header
from stowplan.kube.config.older.upgrade import Upgrade
from stowplan.kube.config.schema import API_VERSION, CONFIGURATION_KIND
from stowplan.kube.kubernetes_versions import BINARY_VERSION

_WIDTH = 118
_INDENT = "  "
#: Fields to write first.
_FIRST = ("apiVersion", "kind", "name", "schedulerName")


def converted(upgrade: Upgrade) -> dict[str, Any]:
    """The configuration of v1 as data."""
    fields: dict[str, Any] = upgrade.document.value
    header = {"apiVersion": API_VERSION, "kind": CONFIGURATION_KIND}
    return {**header, **{name: value for name, value in fields.items() if name not in header}}


def converted_text(document: Document, upgrade: Upgrade) -> str:
    """The v1 configuration as YAML; a v1 file is unchanged."""
    if not upgrade.origin:
        return document.text
    writer = _Writer(upgrade.comments)
    lines = [f"# Converted from {upgrade.origin} by stowplan config convert."]
    lines += writer.comments("", "")
    lines += writer.mapping(converted(upgrade), "", "")
    # Explanations of fields that a later step removed.
    lines[1:1] = [line for path in writer.unwritten() for line in writer.comments(path, "", prefix=f"{path}: ")]
    return "".join(f"{line}\n" for line in lines)


class _Writer:
    def __init__(self, comments: Mapping[str, Sequence[str]]) -> None:
        self._comments = comments
        self._written: set[str] = set()

    def unwritten(self) -> list[str]:
        return [path for path in self._comments if path not in self._written]

    def comments(self, path: str, indent: str, prefix: str = "") -> Iterator[str]:
        self._written.add(path)
        for text in self._comments.get(path, ()):
            yield from _comment(f"{prefix}{text}", indent)

    def mapping(self, value: Mapping[str, Any], path: str, indent: str) -> Iterator[str]:
        for key in sorted(value, key=lambda key: _FIRST.index(key) if key in _FIRST else len(_FIRST)):
            element, inner = value[key], f"{path}.{key}" if path else key
            yield from self.comments(inner, indent)
            yield from self._member(f"{_scalar(key)}:", element, inner, indent)

    def _member(self, start: str, value: Any, path: str, indent: str) -> Iterator[str]:
        if isinstance(value, Mapping) and value:
            yield f"{indent}{start}"
            yield from self.mapping(value, path, indent + _INDENT)
        elif isinstance(value, list) and value:
            yield f"{indent}{start}"
            yield from self._list(value, path, indent)
        else:
            yield f"{indent}{start} {_scalar(value)}"

    def _list(self, value: list[Any], path: str, indent: str) -> Iterator[str]:
        for i, element in enumerate(value):
            inner = self._element_path(path, element, i)
            yield from self.comments(inner, indent)
            if isinstance(element, Mapping) and element:
                lines = list(self.mapping(element, inner, indent + _INDENT))
                # The dash belongs before the first field; comments on that field precede the dash.
                first = next(n for n, line in enumerate(lines) if not line.lstrip().startswith("#"))
                yield from (indent + line.lstrip() for line in lines[:first])
                yield f"{indent}- {lines[first].lstrip()}"
                yield from lines[first + 1 :]
            elif isinstance(element, list) and element:
                yield f"{indent}-"
                yield from self._list(element, inner, indent + _INDENT)
            else:
                yield f"{indent}- {_scalar(element)}"

    def _element_path(self, path: str, element: Any, position: int) -> str:
        """Plugins are identified by name in paths."""
        name = element.get("name") if isinstance(element, Mapping) else None
        by_name = f"{path}[{name}]"
        return by_name if self._has(by_name) else f"{path}[{position}]"

    def _has(self, path: str) -> bool:
        return any(key == path or key.startswith((f"{path}.", f"{path}[")) for key in self._comments)


def _comment(text: str, indent: str) -> Iterator[str]:
    line = f"{indent}#"
    for word in text.split():
        if len(line) + 1 + len(word) > _WIDTH and line != f"{indent}#":
            yield line
            line = f"{indent}#  "
        line += f" {word}"
    yield line


def _scalar(value: Any) -> str:
    """A value on one line, quoted if YAML would misread it."""
    if isinstance(value, str):
        if any(not character.isprintable() for character in value):
            return json.dumps(value)
        return to_yaml(value, width=2**31 - 1).removesuffix("\n").removesuffix("\n...")
    return json.dumps(value)


# Whether kube-scheduler itself would start with a configuration that works here.
#
# It reads v1 alone, and lacks the plugins that Kubernetes has removed and Stowplan keeps. Out-of-tree plugins count
# as present: a file that needs them says so.

_NAME = f"kube-scheduler {BINARY_VERSION}"


def refusals(
    what: str, document: Document, configuration: Configuration, plugins: Declarations, features: FeatureGates
) -> Iterator[str]:
    """A message with kube-scheduler's own error, unless it would start with this document, which is valid here."""
    its_own = {name: declaration for name, declaration in plugins.items() if declaration.in_kube_scheduler}
    try:
        load_upgraded(Upgrade(document=document), plugins=its_own, features=features)
    except ConfigError as error:
        running = {ref.name for profile in configuration.profiles for refs in profile.points.values() for ref in refs}
        extra = ", ".join(sorted(running - its_own.keys()))
        if read_header(document.value, document.text).api_version != API_VERSION:
            why = "it reads KubeSchedulerConfiguration v1 alone, which stowplan config convert writes"
        else:
            why = f"only Stowplan has {extra}"
        yield f"{_NAME} refuses {what} ({why}): {error}"
