"""Parse the `*.types` files, which declare the API's types.

    package io.k8s.api.core.v1 serves v1       OpenAPI package and apiVersion of the following declarations
    kind Pod -- Containers that run together.  a struct with apiVersion, kind, metadata; declares PodList, too
    kind Binding unlisted                      a kind without a list kind
      spec!  PodSpec -- What is wanted.        a field, required; its description follows the dashes
      size?  int32 @7                          a field whose zero differs from unset; protobuf field number 7
    struct Volume                              a struct; options: atomic, retainKeys, open (keeps unknown fields)
      ...VolumeSource                          includes the fields of another struct
      ports  [Port] by port, protocol=TCP      a list (options: see below); protocol defaults to TCP
      mode   string since 1.37                 servers of older versions of Kubernetes drop it
      quota  {quantity} atomic                 a map with string keys

A type is the name of a scalar (see `Scalar`) or struct, or `[T]` or `{T}` of one. An unqualified struct is looked up in
this package, then meta/v1, then core/v1. Lists are atomic, and strategic merge replaces them, unless an option follows:

    by a, b      elements are identified by keys a and b; in strategic merge by a alone
    keyed a, b   the same for server-side apply only
    merge a      the same for strategic merge only
    set          scalars, each at most once; `set merged`: strategic merge unites them, too
    retainKeys   strategic merge keeps only the keys of an element that the patch lists

Fields of a struct type take: `granular` (not atomic here), `replace` (strategic merge replaces it).

Protobuf field numbers increase by one from field to field, unless set by `@`; a field with `@-` is not part of the
message. Included fields (`...`) are one message, which counts as one field.

A mark after the name (and `!`) sets how a zero value is encoded: `?` kept as it is, `=` always present, `-` omitted.
Without a mark, required fields are always present and others are omitted if zero, except structs (and what Go keeps in
structs), which are kept.

Upstream: the markers and tags in staging/src/k8s.io/api/*/types.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files

from msgspec import field

from stowplan.kube.kubernetes_versions import KubernetesVersion, emulated_version_of
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.schema.type_model import (
    MAP,
    SET,
    ListType,
    MapType,
    Scalar,
    Struct,
    Type,
    WireField,
    Zero,
)

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
CORE = "io.k8s.api.core.v1"

_SCALARS: Mapping[str, Scalar] = {scalar.value: scalar for scalar in Scalar}
_NOT_ON_WIRE = "@-"
_TYPE_META = (
    f"  apiVersion string {_NOT_ON_WIRE} -- Group and version of the object.",
    f"  kind string {_NOT_ON_WIRE} -- Kind of the object.",
)
#: Scalars whose zero value can be omitted.
_PLAIN = (Scalar.STRING, Scalar.BOOL, Scalar.INT32, Scalar.INT64, Scalar.NUMBER, Scalar.BYTES)
_OPTIONS = {"struct": {"atomic", "retainKeys", "open"}, "kind": {"unlisted", "open"}}


class TypesError(ValueError):
    """An error in a types file; the message names file and line."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")


class Schemas(PlainStruct, frozen=True):
    #: By OpenAPI name.
    structs: dict[str, Struct] = field(default_factory=dict)
    #: By apiVersion and kind.
    kinds: dict[tuple[str, str], Struct] = field(default_factory=dict)


class _Field(PlainStruct, kw_only=True):
    where: str
    package: str
    name: str
    required: bool = False
    #: The mark: a value of `Zero`, or "".
    zero: str = ""
    #: `@7`, `@-` or "".
    number: str = ""
    type: str = ""
    options: list[str] = field(default_factory=list)
    description: str = ""
    since: KubernetesVersion | None = None
    #: `...Other`: includes the fields of the struct named `type`.
    included: bool = False


class _Declared(PlainStruct, kw_only=True):
    where: str
    package: str
    name: str
    options: list[str]
    description: str
    fields: list[_Field]
    #: The apiVersion if it is a kind, else "".
    serves: str = ""

    @property
    def full_name(self) -> str:
        return f"{self.package}.{self.name}"


@cache
def built_in() -> Schemas:
    """The built-in types."""
    here = files(__package__)
    names = sorted(entry.name for entry in here.iterdir() if entry.name.endswith(".types"))
    return parse({name: (here / name).read_text("utf-8") for name in names})


def parse(texts: Mapping[str, str]) -> Schemas:
    """Parse files, given by name; they may refer to each other's types. Raise TypesError."""
    declared: dict[str, _Declared] = {}
    for found in _read_all(texts):
        if found.full_name in declared:
            raise TypesError(found.where, f"{found.full_name} is already at {declared[found.full_name].where}")
        declared[found.full_name] = found
    return _Linker(declared).link()


def _read_all(texts: Mapping[str, str]) -> Iterator[_Declared]:
    for file, text in texts.items():
        for declared in _read(file, text):
            yield declared
            if declared.serves and "unlisted" not in declared.options:
                yield _list_of(declared)


def _read(file: str, text: str) -> list[_Declared]:
    found: list[_Declared] = []
    package = serves = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        where = f"{file}:{number}"
        if line.startswith("  "):
            if not found:
                raise TypesError(where, "a field before the first struct or kind")
            _add(found[-1], _read_field(where, package, line))
        elif line.startswith("package "):
            package, serves = _read_package(where, line)
        else:
            found.append(_read_header(where, package, serves, line))
    return found


def _read_package(where: str, line: str) -> tuple[str, str]:
    match line.split():
        case ["package", package, "serves", serves]:
            return package, serves
        case ["package", package]:
            return package, ""
    raise TypesError(where, f"expected `package NAME [serves APIVERSION]`, got {line!r}")


def _read_header(where: str, package: str, serves: str, line: str) -> _Declared:
    text, _, description = line.partition(" -- ")
    word, *rest = text.split()
    if word not in ("struct", "kind") or not rest:
        raise TypesError(where, f"expected package, struct or kind, got {line!r}")
    if not package or (word == "kind" and not serves):
        raise TypesError(where, f"{word} {rest[0]} before a package line that tells where it belongs")
    name, *options = rest
    if unknown := set(options) - _OPTIONS[word]:
        raise TypesError(where, f"unknown option {min(unknown)!r} of a {word}")
    declared = _Declared(
        where=where, package=package, name=name, options=options, description=description.strip(), fields=[]
    )
    if word == "kind":
        declared.serves = serves
        declared.fields = [_read_field(where, package, text) for text in _TYPE_META]
        declared.fields.append(
            _read_field(where, package, "  metadata= ObjectMeta -- What identifies the object, and its bookkeeping.")
        )
    return declared


def _list_of(kind: _Declared) -> _Declared:
    texts = (*_TYPE_META, "  metadata= ListMeta", f"  items! [{kind.name}] -- The objects.")
    return _Declared(
        where=kind.where,
        package=kind.package,
        name=f"{kind.name}List",
        options=[],
        description=f"A list of objects of kind {kind.name}.",
        fields=[_read_field(kind.where, kind.package, text) for text in texts],
    )


def _read_field(where: str, package: str, line: str) -> _Field:
    text, _, description = line.partition(" -- ")
    name, *words = text.split()
    number = _read_number(where, [word for word in words if word.startswith("@")])
    words = [word for word in words if not word.startswith("@")]
    if name.startswith("..."):
        if words:
            raise TypesError(where, f"{name} takes nothing more")
        return _Field(where=where, package=package, name=name, number=number, type=name[3:], included=True)
    if not words:
        raise TypesError(where, f"field {name} has no type")
    plain = name.rstrip("!?=-")
    marks = name.removeprefix(plain)
    zero = marks.removeprefix("!")
    if zero not in ("", *Zero):
        raise TypesError(where, f"unknown marks {marks!r} after the name of field {plain}")
    since = None
    if words[-2:-1] == ["since"]:
        since, words = emulated_version_of(words[-1]), words[:-2]
    return _Field(
        where=where,
        package=package,
        name=plain,
        since=since,
        required=marks.startswith("!"),
        zero=zero,
        number=number,
        type=words[0],
        options=words[1:],
        description=description.strip(),
    )


def _read_number(where: str, words: list[str]) -> str:
    if not words:
        return ""
    if len(words) > 1 or (words[0] != _NOT_ON_WIRE and not words[0][1:].isdecimal()):
        raise TypesError(where, f"expected one field number such as @7, or @-, got {' '.join(words)!r}")
    return words[0]


def _add(declared: _Declared, new: _Field) -> None:
    known = next((known for known in declared.fields if known.name == new.name), None)
    if known is None:
        declared.fields.append(new)
    elif known.where == declared.where:
        # An explicit metadata field overrides the implied one (to make it required).
        declared.fields[declared.fields.index(known)] = new
    else:
        raise TypesError(new.where, f"field {new.name} of {declared.name} is already at {known.where}")


class _Linker:
    """Resolves type names in declarations to type objects."""

    def __init__(self, declared: dict[str, _Declared]) -> None:
        self._declared = declared
        self._fields = {name: list(self._expanded(each, ())) for name, each in declared.items()}
        self._structs = {name: self._struct(each) for name, each in declared.items()}

    def link(self) -> Schemas:
        for name, fields in self._fields.items():
            struct = self._structs[name]
            for each in fields:
                type = struct.fields[each.name] = self._field_type(each)
                struct.zeros[each.name] = _zero_of(each, type)
            struct.wire.update(self._wire(self._declared[name], struct))
        kinds = {(each.serves, each.name): self._structs[name] for name, each in self._declared.items() if each.serves}
        return Schemas(self._structs, kinds)

    def _wire(self, declared: _Declared, struct: Struct) -> Iterator[tuple[int, WireField]]:
        number = 0
        taken: dict[int, str] = {}
        for each in declared.fields:
            if each.number == _NOT_ON_WIRE:
                continue
            number = int(each.number[1:]) if each.number else number + 1
            if number in taken:
                raise TypesError(each.where, f"field {each.name} has number {number}, as {taken[number]} has")
            taken[number] = each.name
            if each.included:
                yield number, WireField("", self._structs[self._find(each, each.type).full_name])
            else:
                yield number, WireField(each.name, struct.fields[each.name])

    def _expanded(self, declared: _Declared, within: tuple[str, ...]) -> Iterator[_Field]:
        """The fields, with `...Other` replaced by the fields of Other."""
        for each in declared.fields:
            if not each.included:
                yield each
                continue
            other = self._find(each, each.type)
            if other.full_name in (*within, declared.full_name):
                raise TypesError(each.where, f"{other.name} includes itself")
            yield from self._expanded(other, (*within, declared.full_name))

    def _struct(self, declared: _Declared) -> Struct:
        fields = self._fields[declared.full_name]
        descriptions = {each.name: each.description for each in fields if each.description}
        if declared.description:
            descriptions[""] = declared.description
        return Struct(
            declared.full_name,
            atomic="atomic" in declared.options,
            retain_keys="retainKeys" in declared.options,
            preserve_unknown="open" in declared.options,
            required=frozenset(each.name for each in fields if each.required),
            since={each.name: each.since for each in fields if each.since is not None},
            descriptions=descriptions,
        )

    def _find(self, at: _Field, name: str) -> _Declared:
        for package in (at.package, META, CORE):
            found = self._declared.get(f"{package}.{name}")
            if found is not None:
                return found
        raise TypesError(at.where, f"unknown type {name!r}")

    def _field_type(self, at: _Field) -> Type:
        found = self._type(at, at.type)
        if not at.options:
            return found
        if isinstance(found, ListType):
            return _list_with_options(at, found)
        if isinstance(found, MapType) and at.options == ["atomic"]:
            found.atomic = True
            return found
        if isinstance(found, Struct) and at.options == ["granular"]:
            return replace(found, fields=found.fields, atomic=False)
        if isinstance(found, Struct) and at.options == ["replace"]:
            return replace(found, fields=found.fields, replaced=True)
        raise TypesError(at.where, f"{at.type} cannot be {' '.join(at.options)!r}")

    def _type(self, at: _Field, text: str) -> Type:
        scalar = _SCALARS.get(text)
        if scalar is not None:
            return scalar
        if text.startswith("[") and text.endswith("]"):
            return ListType(self._type(at, text[1:-1]))
        if text.startswith("{") and text.endswith("}"):
            return MapType(self._type(at, text[1:-1]))
        return self._structs[self._find(at, text).full_name]


def _zero_of(at: _Field, type: Type) -> Zero:
    if at.zero:
        return Zero(at.zero)
    if at.required:
        return Zero.ALWAYS
    return Zero.DROPPED if isinstance(type, ListType | MapType) or type in _PLAIN else Zero.KEPT


def _list_with_options(at: _Field, found: ListType) -> ListType:
    words = iter(at.options)
    for word in words:
        match word:
            case "set":
                found.kind = SET
            case "merged":
                found.merge_values = True
            case "retainKeys":
                found.retain_keys = True
            case "by" | "keyed":
                found.kind = MAP
                found.keys, found.key_defaults = _keys(at, words)
                found.merge_key = found.keys[0] if word == "by" else ""
            case "merge":
                (found.merge_key, *_), _ = _keys(at, words)
            case _:
                raise TypesError(at.where, f"unknown option {word!r} of a list")
    return found


def _keys(at: _Field, words: Iterable[str]) -> tuple[tuple[str, ...], dict[str, object]]:
    """Parse keys and their defaults (`a, b=TCP`), up to the first word without a comma."""
    keys: list[str] = []
    defaults: dict[str, object] = {}
    for word in words:
        key, equals, default = word.removesuffix(",").partition("=")
        keys.append(key)
        if equals:
            defaults[key] = default
        if not word.endswith(","):
            return tuple(keys), defaults
    raise TypesError(at.where, "expected the name of a key")
