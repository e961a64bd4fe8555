"""Parse YAML as Kubernetes does, with bounds against hostile input; write it so that Kubernetes reads the same.

It is parsed as version 1.1 (a bare `yes` is true), like in kubectl, but timestamps stay strings and `1:30` is not a
number. Map keys become strings.

A few hundred bytes can expand to gigabytes, or exhaust the stack. Both are rejected: libyaml's composer recurses on the
C stack, so the loader counts levels while composing, and aliases are counted with their expansion before anything is
built. A value that its tag does not allow is a YAML error with its line, like any other.

Manifests are long, and almost all of them are nested maps of strings: those are built in one pass
(`JsonValueLoader.value`), everything else by PyYAML's constructors.

Upstream: sigs.k8s.io/yaml on go.yaml.in/yaml (excessive aliasing).
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import yaml

from stowplan.kube.structs import PlainStruct

MAX_DEPTH = 200
#: Limit for what a document's aliases may add: nodes, and text in units of a hundred characters.
MAX_EXPANSION = 100_000
_CHARACTERS_OF_A_NODE = 100
#: Possible aliases and anchors: `*` and `&` also occur in other texts, but seldom before the same word.
_ALIAS, _ANCHOR = re.compile(r"\*([\w-]+)"), re.compile(r"&([\w-]+)")
#: Newer versions of libyaml have a separate limit, far above ours, which is checked ahead of the events.
_SCANNERS_LIMIT = "exceeded maximum nesting depth"


class HostileYamlError(ValueError):
    """A document that expands beyond any reasonable size."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.reason = reason


class TooDeepError(HostileYamlError):
    def __init__(self, line: int) -> None:
        super().__init__(line, f"nested deeper than {MAX_DEPTH} levels")


def _line(marked: yaml.Event | yaml.Node) -> int:
    mark = marked.start_mark
    return mark.line + 1 if mark is not None else 1


# --- documents


def composed(text: str, loader_class: Any = None) -> Iterator[tuple[Any, yaml.Node]]:
    """Yield each document's root with the loader that can construct it.

    Raises HostileYamlError or a YAMLError.
    """
    loader = (loader_class or KubernetesLoader)(text)
    has_aliases = bool(set(_ALIAS.findall(text)).intersection(_ANCHOR.findall(text)))
    try:
        while loader.check_node():
            with _uncollected():
                node = loader.get_node()
            if has_aliases:
                _Aliases().measured(node)
            yield loader, node
    except yaml.MarkedYAMLError as error:
        if error.problem == _SCANNERS_LIMIT and error.problem_mark is not None:
            raise TooDeepError(error.problem_mark.line + 1) from None
        raise
    finally:
        loader.dispose()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Disable garbage collection: there are many nodes and values but no cycles, and collecting is slow."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def first_value(text: str, loader_class: Any = None) -> Any:
    """Construct the first document; None if there is none."""
    for loader, node in composed(text, loader_class):
        return loader.value(node)
    return None


class _Measure(PlainStruct, frozen=True):
    size: int
    depth: int


class _Aliases:
    """Measures a document with aliases expanded; a node that is visited again is one."""

    def __init__(self) -> None:
        self._known: dict[int, _Measure | None] = {}
        self._added = 0

    def measured(self, node: yaml.Node) -> _Measure:
        if id(node) in self._known:
            return self._again(node)
        self._known[id(node)] = None
        if isinstance(node, yaml.ScalarNode):
            measure = _Measure(1 + len(node.value) // _CHARACTERS_OF_A_NODE, 0)
        else:
            parts = [self.measured(child) for child in _children(node)]
            measure = _Measure(1 + sum(part.size for part in parts), 1 + max((part.depth for part in parts), default=0))
        if measure.depth > MAX_DEPTH:
            raise TooDeepError(_line(node))
        self._known[id(node)] = measure
        return measure

    def _again(self, node: yaml.Node) -> _Measure:
        known = self._known[id(node)]
        if known is None:
            raise HostileYamlError(_line(node), "anchor contains itself")
        self._added += known.size
        if self._added > MAX_EXPANSION:
            raise HostileYamlError(_line(node), "document contains excessive aliasing")
        return known


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value)


def repeated_keys(node: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Yield the keys, with their values, that the mapping already has."""
    seen: set[str] = set()
    for key, value in node.value:
        if isinstance(key.value, str) and key.value in seen:
            yield key, value
        elif isinstance(key.value, str):
            seen.add(key.value)


def with_string_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): with_string_keys(item) for key, item in value.items()}
    return [with_string_keys(item) for item in value] if isinstance(value, list) else value


def _key(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key, default=str)


# --- loaders

_LoaderBase: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BOOLEANS = {**_LoaderBase.bool_values, "y": True, "n": False}
_UNREADABLE = (ValueError, KeyError, IndexError, AttributeError, TypeError, ArithmeticError)
_OCTAL = re.compile(r"([-+]?)0[oO]?([0-7]+)")
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_TEXT, _SEQUENCE, _MAPPING = (f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map"))
_USUAL_SCALARS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float"))
_UNKNOWN = object()


class _UnusualError(Exception):
    """A node that requires PyYAML's constructors."""


class JsonValueLoader(_LoaderBase):  # type: ignore[misc]  # the base depends on what PyYAML was built with
    """Constructs JSON values, like Go's library; base of loaders with their own resolvers."""

    max_depth: ClassVar[int] = MAX_DEPTH
    bool_values: ClassVar[dict[str, bool]] = _BOOLEANS

    def __init__(self, text: str) -> None:
        super().__init__(text)
        #: Depth of the node being composed, including itself.
        self._depth = 0
        #: Plain scalar -> its tag, and (tag, scalar) -> non-string value: both repeat.
        self._tags: dict[str, str] = {}
        self._scalars: dict[tuple[str, str], Any] = {}

    # -- depth: composers call these two around each node, and `resolve` for each node without a tag -------------------

    def descend_resolver(self, parent: yaml.Node | None, index: Any) -> None:
        self._depth += 1
        if self._depth > self.max_depth:
            if self._depth > self.max_depth + 1:
                raise TooDeepError(1 if parent is None else _line(parent))
            # A scalar may be below the last level, another level may not.
            self.resolve = partial(self._resolve_at_limit, parent)  # type: ignore[method-assign]

    def ascend_resolver(self) -> None:
        if self._depth > self.max_depth:
            del self.resolve
        self._depth -= 1

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        """The tag of a node without one; no loader here has resolvers by path."""
        if kind is not yaml.ScalarNode:
            return _SEQUENCE if kind is yaml.SequenceNode else _MAPPING
        if not implicit[0]:
            return _TEXT
        tag = self._tags.get(value)
        if tag is None:
            tag = self._tags[value] = super().resolve(kind, value, implicit)
        return tag

    def _resolve_at_limit(self, parent: yaml.Node | None, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is not yaml.ScalarNode:
            raise TooDeepError(1 if parent is None else _line(parent))
        return JsonValueLoader.resolve(self, kind, value, implicit)

    # -- values -------------------------------------------------------------------------------------------------------

    def value(self, node: yaml.Node) -> Any:
        """A document's value, with strings as keys."""
        try:
            with _uncollected():
                return self._usual(node)
        except _UnusualError:
            return with_string_keys(self.construct_document(node))

    def _usual(self, node: Any) -> Any:
        """The value of a common kind of node."""
        kind, tag = type(node), node.tag
        if kind is yaml.ScalarNode:
            return node.value if tag == _TEXT else self._scalar(node)
        if kind is yaml.SequenceNode and tag == _SEQUENCE:
            return [self._usual(item) for item in node.value]
        if kind is not yaml.MappingNode or tag != _MAPPING:
            raise _UnusualError
        found = {}
        for key, item in node.value:
            if key.tag != _TEXT or type(key) is not yaml.ScalarNode:
                raise _UnusualError
            found[key.value] = self._usual(item)
        if len(found) != len(node.value):
            # A duplicate key, which a subclass may reject.
            raise _UnusualError
        return found

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        known = self._scalars.get((node.tag, node.value), _UNKNOWN)
        if known is not _UNKNOWN:
            return known
        if node.tag not in _USUAL_SCALARS:
            raise _UnusualError
        try:
            value = self.yaml_constructors[node.tag](self, node)
        except (*_UNREADABLE, yaml.YAMLError):
            raise _UnusualError from None
        self._scalars[node.tag, node.value] = value
        return value

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except _UNREADABLE:
            # PyYAML's constructors may raise anything for invalid values.
            text = f" `{node.value:.40}`" if isinstance(node, yaml.ScalarNode) else ""
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            raise yaml.constructor.ConstructorError(
                None, None, f"cannot decode{text} as a {tag}", node.start_mark
            ) from None

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int | float | str:
        digits = node.value.replace("_", "")
        octal = _OCTAL.fullmatch(digits)
        if len(digits) > _LONGEST_INTEGER:
            return self._beyond_integers(digits, node)
        try:
            number = int(octal[1] + octal[2], 8) if octal else int(digits, 0)
        except ValueError:
            # Such as 09, which is not octal.
            return self._beyond_integers(digits, node)
        return number if -(2**63) <= number < 2**64 else self._beyond_integers(digits, node)

    def _beyond_integers(self, digits: str, node: yaml.ScalarNode) -> float | int | str:
        """Parity: Go parses as a float what is decimal and no integer of 64 bits, else as a string."""
        text: str = node.value
        return _whole(float(digits)) if _DECIMAL.fullmatch(digits) else text

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float | int:
        """Parity: written as JSON, a whole number has no decimal point."""
        return _whole(super().construct_yaml_float(node))

    def construct_yaml_binary(self, node: yaml.ScalarNode) -> str:
        data: bytes = super().construct_yaml_binary(node)
        return data.decode("utf-8", "replace")


#: Larger ones are written with an exponent.
_MAX_PLAIN_FLOAT = 1e21


def _whole(number: float) -> float | int:
    return int(number) if number.is_integer() and abs(number) < _MAX_PLAIN_FLOAT else number


#: 64 bits in binary, with a sign and its prefix.
_LONGEST_INTEGER = 67

for _tag, _constructor in (
    ("int", JsonValueLoader.construct_yaml_int),
    ("float", JsonValueLoader.construct_yaml_float),
    ("binary", JsonValueLoader.construct_yaml_binary),
    ("timestamp", JsonValueLoader.construct_yaml_str),
    ("set", JsonValueLoader.construct_yaml_map),
    ("omap", JsonValueLoader.construct_yaml_seq),
    ("pairs", JsonValueLoader.construct_yaml_seq),
):
    JsonValueLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _constructor)


#: A hint for messages.
QUOTE_BOOLEANS = "quote it, as y, n, yes, no, on and off are booleans in YAML"
#: Tag of a plain scalar, and the characters that it can begin with. A `=` is text, and so are timestamps. Numbers are
#: what Go parses once underscores are removed.
_RESOLVERS = (
    ("bool", r"y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0[bB][01_]+|0[xX][0-9a-fA-F_]+|0[oO]?[0-7_]+|[0-9][0-9_]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9][0-9_]*)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("merge", r"<<", "<"),
)


class KubernetesLoader(JsonValueLoader):
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


for _tag, _pattern, _first in _RESOLVERS:
    KubernetesLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})\\Z"), list(_first))


class StrictLoader(KubernetesLoader):
    """Rejects duplicate keys."""

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> Any:
        for key, _ in repeated_keys(node) if isinstance(node, yaml.MappingNode) else ():
            raise yaml.constructor.ConstructorError(
                None, None, f"key {json.dumps(key.value, ensure_ascii=False)} already set in map", key.start_mark
            )
        return super().construct_mapping(node, deep=deep)


# --- writing


class KubernetesDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # as for the loaders
    """Quotes text that Kubernetes or PyYAML would read as something else, such as `n`, `1e3` and dates."""


for _tag, _pattern, _first in _RESOLVERS:
    KubernetesDumper.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})\\Z"), list(_first))


def to_yaml(*documents: Any, sort_keys: bool = False, width: int = 80) -> str:
    """Documents of JSON values as YAML."""
    text: str = yaml.dump_all(
        documents,
        Dumper=KubernetesDumper,
        default_flow_style=False,
        allow_unicode=True,
        sort_keys=sort_keys,
        width=width,
    )
    return text
