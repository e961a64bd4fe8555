"""Complete API objects, including the fields that the scheduler does not read, for extenders.

Structs contain what decisions need; objects that are passed on to extenders need the rest, too. Only the requested
kinds are stored. A stored object belongs to one incarnation, by UID, and may be newer than the scheduler's.

Upstream always stores whole objects; those that it sends have no kind and apiVersion, and pods have no managedFields.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple, cast

import msgspec

from stowplan.kube.api.decode import to_dict
from stowplan.kube.api.meta import ApiStruct, ObjectMeta
from stowplan.kube.api.types import Pod

_Key = tuple[type[Any], str, str]


class _Document(NamedTuple):
    uid: str
    data: bytes
    #: Whether `data` is in the form that is sent.
    tidy: bool = False
    #: For a pod: whether it contains its node. That of an assumed pod does not.
    says_node: bool = False


class Documents:
    def __init__(self, kinds: Collection[type[ApiStruct]]) -> None:
        self.kinds = frozenset(kinds)
        self._kept: dict[_Key, _Document] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def keep_also(self, kinds: Collection[type[ApiStruct]]) -> None:
        """Also store these kinds; objects that were read before are unknown until they are read again."""
        self.kinds |= frozenset(kinds)

    def keep(self, obj: ApiStruct, data: bytes) -> None:
        """Store the JSON that an object was decoded from; the newest wins."""
        if type(obj) in self.kinds:
            self._kept[_key(obj)] = _Document(_metadata(obj).uid, data)

    def kept(self, obj: ApiStruct) -> bytes | None:
        """The JSON of the object, as it was read or sent; None if it is not stored."""
        kept = self._kept.get(_key(obj))
        return kept.data if kept is not None and kept.uid == _metadata(obj).uid else None

    def forget(self, obj: ApiStruct) -> None:
        """Drop a deleted object, but not another one with the same name."""
        key = _key(obj)
        kept = self._kept.get(key)
        if kept is not None and kept.uid == _metadata(obj).uid:
            del self._kept[key]

    def json(self, obj: ApiStruct) -> bytes:
        """An object in the form that is sent; from the struct if nothing else is stored."""
        key = _key(obj)
        kept = self._kept.get(key)
        if kept is None or kept.uid != _metadata(obj).uid:
            return msgspec.json.encode(_tidied(type(obj), to_dict(obj)))
        if not kept.tidy:
            content = _tidied(type(obj), msgspec.json.decode(kept.data))
            says_node = bool(_spec(content).get("nodeName"))
            kept = _Document(kept.uid, msgspec.json.encode(content), tidy=True, says_node=says_node)
            self._kept[key] = kept
        if isinstance(obj, Pod) and obj.spec.node_name and not kept.says_node:
            placed: dict[str, Any] = msgspec.json.decode(kept.data)
            placed["spec"] = _spec(placed) | {"nodeName": obj.spec.node_name}
            return msgspec.json.encode(placed)
        return kept.data


def _spec(content: dict[str, Any]) -> dict[str, Any]:
    spec = content.get("spec")
    return spec if isinstance(spec, dict) else {}


def _key(obj: ApiStruct) -> _Key:
    metadata = _metadata(obj)
    return type(obj), metadata.namespace, metadata.name


def _metadata(obj: ApiStruct) -> ObjectMeta:
    return cast("ObjectMeta", cast("Any", obj).metadata)


def _tidied(kind: type[ApiStruct], content: dict[str, Any]) -> dict[str, Any]:
    content = {name: value for name, value in content.items() if name not in ("kind", "apiVersion")}
    metadata = content.get("metadata")
    if kind is Pod and isinstance(metadata, dict):
        content["metadata"] = {name: value for name, value in metadata.items() if name != "managedFields"}
    return content
