"""YAML as Kubernetes reads it, from people who need not be trusted.

It is read as version 1.1 (a bare `yes` is true), as kubectl does, but timestamps stay strings and
`1:30` is no number. Map keys become strings.

libyaml's composer recurses on the C stack: 100,000 opening brackets would end the process, not the
document. So what could be nested that deeply is measured on the parser's events first.
"""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

MAX_DEPTH = 1000


class TooDeepError(ValueError):
    """A document nested deeper than anything that makes sense."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}: nested deeper than {MAX_DEPTH} levels")


def check_depth(text: str, *, limit: int = MAX_DEPTH) -> None:
    """Raise TooDeepError, or a YAMLError if the text is no YAML at all."""
    # Each level takes a bracket or a column, so most documents need no second look.
    lines = text.splitlines()
    if text.count("[") + text.count("{") + max(map(len, lines), default=0) <= limit:
        return
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > limit:
                mark = event.start_mark
                raise TooDeepError(mark.line + 1 if mark is not None else 1)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def with_string_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): with_string_keys(item) for key, item in value.items()}
    return [with_string_keys(item) for item in value] if isinstance(value, list) else value


def _key(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key, default=str)


def _loader() -> Any:
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    replaced = ("timestamp", "int", "float")
    resolvers = {
        first: [(tag, pattern) for tag, pattern in entries if tag.rpartition(":")[2] not in replaced]
        for first, entries in base.yaml_implicit_resolvers.items()
    }
    loader: Any = type("KubernetesLoader", (base,), {"yaml_implicit_resolvers": resolvers})
    loader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER_RE, list("-+0123456789"))
    loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT_RE, list("-+0123456789."))
    return loader


_INTEGER_RE = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)\Z")
_FLOAT_RE = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?\Z"
    r"|[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z"
)
LOADER = _loader()
