"""Devices of a node as described by an annotation: for clusters without drivers, and for files.

The annotation is a JSON list; each entry has the driver (`driver`), the number of devices (`count`), their name
(`name`), `attributes` and `capacity` in short form, and under `device` any other field of a device in a slice:

    [{"driver": "gpu.example.com", "count": 4, "attributes": {"model": "A100"}, "capacity": {"memory": "40Gi"}}]

`partitions` lists the parts into which each of these devices can be divided: a name, the number of parts, and what each
has. A part has the attributes of the whole in addition to its own, with the whole's name in `parent`. The whole and its
parts share counters, one for each capacity of the whole:

    "partitions": [{"name": "half", "count": 2, "capacity": {"memory": "20Gi"}}]

The devices of one driver on one node form a pool with the node's name.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

#: On a node: its devices; on a slice: the node whose annotation it is made from.
DEVICES = "stowplan.io/devices"
DEVICES_OF = "stowplan.io/devices-of"

#: Sizes that fit into a slice whatever the devices have.
_PER_SLICE, _COUNTER_SETS_PER_SLICE = 64, 8
_MAX_COUNT = 1024
#: Characters that are allowed in the name of a capacity, but not of a counter.
_NO_COUNTER_NAME = re.compile("[^a-z0-9]+")


class InvalidDevices(ValueError):
    """An invalid annotation; says what is wrong, and where."""


class _Part(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    capacity: dict[str, int | str | dict[str, Any]]
    count: int = 1
    attributes: dict[str, bool | int | str | dict[str, Any]] = {}
    device: dict[str, Any] = {}


class _Group(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    driver: str
    count: int = 1
    name: str = "device"
    attributes: dict[str, bool | int | str | dict[str, Any]] = {}
    capacity: dict[str, int | str | dict[str, Any]] = {}
    device: dict[str, Any] = {}
    partitions: list[_Part] = []


class Devices(NamedTuple):
    """The devices of a pool, and their shared counters, as they are stored."""

    devices: list[dict[str, Any]]
    shared_counters: list[dict[str, Any]]


_DECODER = msgspec.json.Decoder(list[_Group])


def pools_of(annotation: str) -> dict[str, Devices]:
    """Driver -> its devices; raises InvalidDevices."""
    try:
        groups = _DECODER.decode(annotation)
    except msgspec.DecodeError as error:
        raise InvalidDevices(f"annotation {DEVICES}: {error}; it is a JSON list of devices") from None
    found: dict[str, Devices] = {}
    counted: dict[tuple[str, str], int] = {}
    for i, group in enumerate(groups):
        _check(group, f"[{i}]")
        first = counted.get((group.driver, group.name), 0)
        counted[group.driver, group.name] = first + group.count
        pool = found.setdefault(group.driver, Devices([], []))
        for number in range(first, first + group.count):
            whole = {"name": f"{group.name}-{number}", **group.device, **_content(group.attributes, group.capacity)}
            if group.partitions:
                pool.shared_counters.append({"name": whole["name"], "counters": _counters(group.capacity)})
                whole["consumesCounters"] = [{"counterSet": whole["name"], "counters": _counters(group.capacity)}]
            pool.devices.append(whole)
            pool.devices.extend(_parts(group, whole["name"]))
    return found


def _check(group: _Group, path: str) -> None:
    _check_count(group.count, path)
    for i, part in enumerate(group.partitions):
        at = f"{path}.partitions[{i}]"
        _check_count(part.count, at)
        unknown = sorted(part.capacity.keys() - group.capacity.keys())
        if unknown or not part.capacity:
            problem = f"the whole has no {unknown[0]!r}" if unknown else "a part has some of the capacity of the whole"
            raise InvalidDevices(f"annotation {DEVICES}: {at}.capacity: {problem}")


def _check_count(count: int, path: str) -> None:
    if not 1 <= count <= _MAX_COUNT:
        raise InvalidDevices(f"annotation {DEVICES}: {path}.count: {count} is not from 1 to {_MAX_COUNT}")


def _parts(group: _Group, whole: str) -> Iterator[dict[str, Any]]:
    """All possible parts of a device, of which not all fit at the same time."""
    for part in group.partitions:
        content = _content({**group.attributes, "parent": whole, **part.attributes}, part.capacity)
        consumed = [{"counterSet": whole, "counters": _counters(part.capacity)}]
        for number in range(part.count):
            name = f"{whole}-{part.name}-{number}"
            yield {"name": name, **group.device, **part.device, **content, "consumesCounters": consumed}


def _counters(capacity: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        _NO_COUNTER_NAME.sub("-", name.lower()): {"value": amount["value"]}
        for name, amount in _amounts(capacity).items()
    }


def _content(attributes: dict[str, Any], capacity: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if attributes:
        content["attributes"] = {name: _attribute(value) for name, value in attributes.items()}
    if capacity:
        content["capacity"] = _amounts(capacity)
    return content


def _amounts(capacity: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: value if isinstance(value, dict) else {"value": str(value)} for name, value in capacity.items()}


def _attribute(value: bool | int | str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": value}


def slices_of(node: str, driver: str, pool: Devices) -> dict[str, dict[str, Any]]:
    """The slices of a pool, by name, with their content: devices or counters."""
    found: dict[str, dict[str, Any]] = {}
    for field, suffix, entries, size in (
        ("devices", "", pool.devices, _PER_SLICE),
        ("sharedCounters", "counters-", pool.shared_counters, _COUNTER_SETS_PER_SLICE),
    ):
        for i, at in enumerate(range(0, len(entries), size)):
            found[f"{node}-{driver}-{suffix}{i}"] = {field: entries[at : at + size]}
    return found


def slice_spec(node: str, driver: str, part: dict[str, Any], *, generation: int, count: int) -> dict[str, Any]:
    """`count`: the number of the pool's slices."""
    pool = {"name": node, "generation": generation, "resourceSliceCount": count}
    return {"driver": driver, "nodeName": node, "pool": pool, **part}
