"""Read a file with one YAML or JSON document; report problems with line and field."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from stowplan.kube.api.yaml_text import HostileYamlError, StrictLoader, composed
from stowplan.kube.structs import PlainStruct
from stowplan_lab.simulation.definition.decode import converted, path_text
from stowplan_lab.simulation.definition.schema import Spec
from stowplan_lab.simulation.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stowplan_lab.simulation.definition.decode import Path as FieldPath
    from stowplan_lab.simulation.definition.decode import Problem

T = TypeVar("T", bound=Spec)


class Document(PlainStruct, frozen=True):
    """A document, with the information to locate problems."""

    value: Any
    #: Its name in messages.
    name: str
    root: yaml.Node | None
    #: The base of its relative paths.
    folder: Path

    def read(self, type_: type[T], want: str) -> T:
        """The document as a struct; raises ScenarioError.

        `want`: what is expected, for a document that is no object.
        """
        if not isinstance(self.value, dict):
            raise ScenarioError(f"{self.name}: want {want}")
        found, problems = converted(self.value, type_)
        if found is None:
            raise self.error(problems)
        return found

    def error(self, problems: Iterable[Problem]) -> ScenarioError:
        return ScenarioError(*_error_lines(problems, self.name, self.root))


def read_document(source: str | os.PathLike[str] | Mapping[str, Any], what: str) -> Document:
    """Read a file, or a mapping with the content of one; raises ScenarioError."""
    if not isinstance(source, (str, os.PathLike)):
        return Document(dict(source), what, None, Path())
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    value, root = _read(text, str(path))
    return Document(value, str(path), root, path.parent)


def _read(text: str, name: str) -> tuple[Any, yaml.Node]:
    try:
        documents = [(loader.value(node), node) for loader, node in _documents(text)]
    except HostileYamlError as error:
        raise ScenarioError(f"{name}: {error}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ScenarioError(f"{name}: line {line}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ScenarioError(f"{name}: {error}") from None
    if len(documents) != 1:
        raise ScenarioError(f"{name}: want one YAML document, got {len(documents)}")
    return documents[0]


def _documents(text: str) -> Iterator[tuple[Any, yaml.Node]]:
    return composed(text, StrictLoader)


def _error_lines(problems: Iterable[Problem], name: str, root: yaml.Node | None) -> Iterator[str]:
    for path, message in problems:
        line = f"line {_line(root, path)}: " if root is not None else ""
        where = path_text(path)
        yield f"{name}: {line}{where}: {message}" if where else f"{name}: {line}{message}"


def _line(node: yaml.Node, path: FieldPath) -> int:
    """The line of the field, or of the innermost parent that exists."""
    line = node.start_mark.line + 1
    for step in path:
        if isinstance(step, int) and isinstance(node, yaml.SequenceNode) and step < len(node.value):
            node = node.value[step]
        elif isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == step), None)
            if found is None:
                return line
            line, node = found[0].start_mark.line + 1, found[1]
            continue
        else:
            return line
        line = node.start_mark.line + 1
    return line
