"""YAML in requests, which anybody may send: read as Kubernetes reads it, and bounded.

A few bytes of YAML can name the same list over and over and so stand for gigabytes. Anchors are
counted as what they expand to, before anything is made of them, and refused where that is out of
proportion to the body.

Upstream: sigs.k8s.io/yaml on go.yaml.in/yaml (excessive aliasing).
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from stowplan.api.yaml_text import LOADER, TooDeepError, check_depth, with_string_keys

#: Nodes that a body may expand to beyond those it spells out.
MAX_EXPANSION = 100_000
MAX_DEPTH = 200


def read_yaml(body: bytes) -> Any:
    """The first document of the body; UnreadableError if it is none."""
    if body[:1] == b"{":
        # Most of what is sent as YAML is JSON, which reads ten times as fast.
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    try:
        text = body.decode("utf-8")
        check_depth(text, limit=MAX_DEPTH)
        return _first_document(text)
    except UnicodeDecodeError:
        raise UnreadableError("yaml: invalid UTF-8") from None
    except yaml.YAMLError as error:
        raise UnreadableError(f"yaml: {_in_words(error)}") from None
    except TooDeepError:
        raise UnreadableError("yaml: exceeded max depth") from None
    except UnreadableError:
        raise
    except ValueError as error:
        raise UnreadableError(f"yaml: {error}") from None


class UnreadableError(ValueError):
    """A body that does not say anything; the text says why."""


def _in_words(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    return f"line {error.problem_mark.line + 1}: {error.problem}"


def _first_document(text: str) -> Any:
    loader = LOADER(text)
    try:
        node = loader.get_node() if loader.check_node() else None
        if node is None:
            return None
        _Bound().size(node)
        return with_string_keys(loader.construct_document(node))
    finally:
        loader.dispose()


class _Bound:
    """Counts what a document expands to."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._extra = 0

    def size(self, node: yaml.Node) -> int:
        known = self._sizes.get(id(node))
        if known is not None:
            if known == 0:
                raise UnreadableError("yaml: anchor contains itself")
            self._extra += known
            if self._extra > MAX_EXPANSION:
                raise UnreadableError("yaml: document contains excessive aliasing")
            return known
        self._sizes[id(node)] = 0
        total = 1 + sum(self.size(child) for child in _children(node))
        self._sizes[id(node)] = total
        return total


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
