"""Convert between JSON-shaped data and structs; errors name the field.

Decoding follows the API server: unknown fields are dropped, `null` means absent. Nulls are rare, so they are only
stripped after a first attempt failed. Types are strict: a number is not a valid label value. Quantities and operators
stay strings; `validate_object` checks them for input that no API server has validated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, TypeVar, cast, get_args, get_type_hints

import msgspec

from stowplan.kube.api import types as api
from stowplan.kube.api.custom_objects import CustomObject, UntypedObject, on_the_wire
from stowplan.kube.api.label_selectors import LABEL_SELECTOR_OPERATORS, NODE_SELECTOR_OPERATORS
from stowplan.kube.api.meta import ApiStruct, ObjectMeta, QuantityValue, ResourceList
from stowplan.kube.api.quantity import QuantityError, parse_quantity
from stowplan.kube.api.users import ConfigMap

T = TypeVar("T")

_CLUSTER_SCOPED = (
    api.Node,
    api.Namespace,
    api.PersistentVolume,
    api.StorageClass,
    api.CSINode,
    api.CSIDriver,
    api.VolumeAttachment,
    api.PriorityClass,
    api.ResourceSlice,
    api.DeviceClass,
    api.DeviceTaintRule,
)
_NAMESPACED = (
    api.Pod,
    api.Service,
    api.ReplicationController,
    api.ReplicaSet,
    api.StatefulSet,
    api.PersistentVolumeClaim,
    api.CSIStorageCapacity,
    api.PodDisruptionBudget,
    api.PodGroup,
    api.CompositePodGroup,
    api.ResourceClaim,
    api.Lease,
    api.LeaseCandidate,
    api.Event,
    api.CoreEvent,
)
#: Namespaced as well, but only requested from an API; ignored in files.
_ONLY_ASKED_FOR = (ConfigMap,)


def group_of(api_version: str) -> str:
    """The API group of an apiVersion; "" for the core group."""
    return api_version.rpartition("/")[0]


def _kind_of(struct: type[ApiStruct]) -> tuple[str, str]:
    example = cast("Any", struct())
    return group_of(example.api_version), example.kind


#: (API group, kind) -> struct. Versions of a group decode the same, except for `_VERSIONS`.
KINDS: dict[tuple[str, str], type[ApiStruct]] = {
    _kind_of(struct): struct for struct in (*_CLUSTER_SCOPED, *_NAMESPACED)
}
#: Versions that our structs can decode; older ones have a different layout of requests and devices.
_VERSIONS = {"resource.k8s.io": ("v1", "v1beta2")}
#: For kinds whose versions differ from their group's.
_VERSIONS_OF_KIND = {
    "DeviceTaintRule": ("v1", "v1beta2", "v1alpha3"),
    "PodGroup": ("v1beta1", "v1alpha3", "v1alpha2"),
    "CompositePodGroup": ("v1alpha3",),
}

_OPERATORS: dict[type[ApiStruct], tuple[str, ...]] = {
    api.LabelSelectorRequirement: LABEL_SELECTOR_OPERATORS,
    api.NodeSelectorRequirement: NODE_SELECTOR_OPERATORS,
    api.Toleration: ("", "Equal", "Exists", "Lt", "Gt"),
}

_CONVERT_RE = re.compile(
    r"(?:Expected `(?P<expected>[^`]*)`, got `(?P<got>[^`]*)`|(?P<other>.*?))(?: - at `(?P<at>.*)`)?"
)
_STEP_RE = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>[0-9]+)\]|(?P<any>\[\.\.\.\])")
_BOUND_RE = re.compile(r"Expected `int` (?P<side>[<>]=) (?P<limit>-?[0-9]+)")
_SIDES = {"<=": "most", ">=": "least"}
_WORDS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class DecodeError(ValueError):
    """Data that does not decode; names the field, in Kubernetes' notation, and the problem."""

    def __init__(self, *, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


class UnknownKindError(ValueError):
    """An object of a kind, or in a version, that the scheduler does not read."""

    def __init__(self, *, api_version: str, kind: str) -> None:
        super().__init__(f"unknown kind {kind!r} in apiVersion {api_version!r}")
        self.api_version = api_version
        self.kind = kind


def struct_for(api_version: str, kind: str) -> type[ApiStruct]:
    group, _, version = api_version.rpartition("/")
    struct = KINDS.get((group, kind))
    if struct is None or version not in _VERSIONS_OF_KIND.get(kind, _VERSIONS.get(group, (version,))):
        raise UnknownKindError(api_version=api_version, kind=kind)
    return struct


def decode_object(obj: Mapping[str, Any]) -> ApiStruct:
    """Decode by the object's own apiVersion and kind."""
    return convert(obj, struct_for(_text(obj, "apiVersion"), _text(obj, "kind")))


def _text(obj: Mapping[str, Any], field: str) -> str:
    value = obj.get(field)
    if not isinstance(value, str) or not value:
        raise DecodeError(field=field, message="missing" if value in (None, "") else "expected a string")
    return value


def convert(obj: object, type_: type[T]) -> T:
    wanted = expected(type_)
    try:
        return cast("T", msgspec.convert(obj, wanted, dec_hook=decode_custom))
    except msgspec.ValidationError:
        stripped = without_nulls(obj)
    try:
        return cast("T", msgspec.convert(stripped, wanted, dec_hook=decode_custom))
    except msgspec.ValidationError as error:
        raise _decode_error(str(error), stripped) from None


def decode_json(data: bytes | str, type_: type[T]) -> T:
    try:
        return cast("T", _decoder(cast("Any", type_)).decode(data))
    except msgspec.ValidationError:
        return convert(msgspec.json.decode(data), type_)
    except msgspec.DecodeError as error:
        raise DecodeError(field="", message=f"invalid JSON: {error}") from None


@lru_cache(maxsize=256)
def _decoder(type_: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(expected(type_), dec_hook=decode_custom)


def expected(type_: Any) -> Any:
    """The type for msgspec, with `decode_custom` as its hook."""
    return on_the_wire(type_) if isinstance(type_, type) and issubclass(type_, CustomObject) else type_


class _Head(ApiStruct, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


def decode_custom(type_: type[Any], content: Any) -> CustomObject:
    """Create a custom object from its JSON."""
    if not issubclass(type_, UntypedObject):
        raise NotImplementedError(f"{type_} cannot be decoded")
    head = convert(content, _Head)
    # managedFields may be the larger part, and no reader needs them.
    metadata = content.get("metadata") or {}
    metadata.pop("managedFields", None)
    return type_.kind(api_version=head.api_version, kind=head.kind, metadata=head.metadata, content=content)


def without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(item) for item in value]
    return value


def to_dict(obj: ApiStruct) -> dict[str, Any]:
    """The object as Kubernetes serializes it: without defaults, except for apiVersion and kind."""
    if isinstance(obj, CustomObject):
        return obj.content
    # Through JSON, so that tuples become lists.
    fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(obj))
    if "kind" not in obj.__struct_fields__:
        return fields
    top = cast("Any", obj)
    return {"apiVersion": top.api_version, "kind": top.kind, **fields}


def encode_json(obj: ApiStruct) -> bytes:
    return msgspec.json.encode(to_dict(obj))


def is_namespaced(obj: ApiStruct) -> bool:
    return obj.namespaced if isinstance(obj, CustomObject) else isinstance(obj, (*_NAMESPACED, *_ONLY_ASKED_FOR))


def namespace_of(obj: ApiStruct) -> str:
    """The object's namespace: "default" if a namespaced one has none, "" if it is cluster-scoped."""
    return cast("Any", obj).metadata.namespace or "default" if is_namespaced(obj) else ""


def _decode_error(text: str, obj: object) -> DecodeError:
    match = _CONVERT_RE.fullmatch(text)
    if match is None:
        return DecodeError(field="", message=text)
    expected, got = match["expected"], match["got"]
    message = f"expected {_in_words(expected)}, got {_WORDS.get(got, got)}" if expected else _bound(match["other"])
    return DecodeError(field=_locate(match["at"] or "$", obj, got), message=message)


def _bound(message: str) -> str:
    """A number out of range, in the format of other messages."""
    found = _BOUND_RE.fullmatch(message)
    return message if found is None else f"expected an integer of at {_SIDES[found['side']]} {found['limit']}"


def _in_words(expected: str) -> str:
    if {"int", "float", "str"} <= set(expected.split(" | ")):
        return "a quantity"
    return " or ".join(_WORDS.get(name, name) for name in expected.split(" | ") if name != "null")


def _locate(at: str, obj: object, got: str | None) -> str:
    """Convert msgspec's path to Kubernetes' notation, including map keys, which it lacks."""
    steps = [match.groupdict() for match in _STEP_RE.finditer(at)]
    found = next(_walk(steps, obj, "", got), None)
    return found if found is not None else at.removeprefix("$").removeprefix(".")


def _walk(steps: list[dict[str, Any]], obj: Any, path: str, got: str | None) -> Iterator[str]:
    if not steps:
        if got is None or _json_type(obj) == got:
            yield path
        return
    step, rest = steps[0], steps[1:]
    if step["any"] and isinstance(obj, Mapping):
        for key, item in obj.items():
            yield from _walk(rest, item, f"{path}[{key}]", got)
    elif step["name"] and isinstance(obj, Mapping) and step["name"] in obj:
        yield from _walk(rest, obj[step["name"]], f"{path}.{step['name']}".removeprefix("."), got)
    elif step["index"] and isinstance(obj, list) and int(step["index"]) < len(obj):
        yield from _walk(rest, obj[int(step["index"])], f"{path}[{step['index']}]", got)


def _json_type(value: object) -> str:
    if isinstance(value, Mapping):
        return "object"
    if isinstance(value, list | tuple):
        return "array"
    return "null" if value is None else type(value).__name__


def validate_object(obj: ApiStruct) -> None:
    """Raise the first of `validation_errors`."""
    for error in validation_errors(obj):
        raise error


def validation_errors(obj: ApiStruct) -> list[DecodeError]:
    """Quantities that do not parse and unknown operators."""
    return list(_struct_errors(obj, ""))


def _struct_errors(obj: ApiStruct, path: str) -> Iterator[DecodeError]:
    operators = _OPERATORS.get(type(obj))
    if operators is not None:
        yield from _operator_errors(cast("Any", obj).operator, operators, path)
    for attribute, name, check in _checks(type(obj)):
        value = getattr(obj, attribute)
        if value:
            yield from check(value, f"{path}.{name}" if path else name)


def _operator_errors(operator: str, known: tuple[str, ...], path: str) -> Iterator[DecodeError]:
    if operator not in known:
        listed = ", ".join(name for name in known if name)
        yield DecodeError(field=f"{path}.operator", message=f'"{operator}" is none of {listed}')


def _quantity_errors(value: QuantityValue, path: str) -> Iterator[DecodeError]:
    try:
        parse_quantity(value)
    except QuantityError as error:
        yield DecodeError(field=path, message=f'"{value}" is not a quantity: {error}')


def _resource_list_errors(resources: ResourceList, path: str) -> Iterator[DecodeError]:
    for name, value in resources.items():
        yield from _quantity_errors(value, f"{path}[{name}]")


def _mapping_errors(items: dict[str, ApiStruct], path: str) -> Iterator[DecodeError]:
    for key, item in items.items():
        yield from _struct_errors(item, f"{path}[{key}]")


def _quantities_errors(values: tuple[QuantityValue, ...], path: str) -> Iterator[DecodeError]:
    for index, value in enumerate(values):
        yield from _quantity_errors(value, f"{path}[{index}]")


def _tuple_errors(items: tuple[ApiStruct, ...], path: str) -> Iterator[DecodeError]:
    for index, item in enumerate(items):
        yield from _struct_errors(item, f"{path}[{index}]")


#: By the container type of structs.
_ERRORS_OF: dict[Any, Any] = {tuple: _tuple_errors, dict: _mapping_errors}


@cache
def _checks(struct: type[ApiStruct]) -> tuple[tuple[str, str, Any], ...]:
    """Attribute, JSON name and check of each field that contains quantities or structs."""
    hints = get_type_hints(struct)
    names = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    checks = ((attribute, name, _check_for(hints[attribute])) for attribute, name in names)
    return tuple((attribute, name, check) for attribute, name, check in checks if check is not None)


def _check_for(hint: Any) -> Any:
    if hint == ResourceList:
        return _resource_list_errors
    if set(get_args(hint)) - {type(None)} == set(get_args(QuantityValue)):
        return _quantity_errors
    if hint == tuple[QuantityValue, ...]:
        return _quantities_errors
    if ResourceList in get_args(hint):
        return _resource_list_errors
    parts = get_args(hint) or (hint,)
    if any(isinstance(part, type) and issubclass(part, ApiStruct) for part in parts):
        return _ERRORS_OF.get(getattr(hint, "__origin__", None), _struct_errors)
    optional_tuple = next((part for part in parts if getattr(part, "__origin__", None) is tuple), None)
    return _check_for(optional_tuple) if optional_tuple is not None else None
