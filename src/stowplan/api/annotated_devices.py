"""Devices of a node as an annotation describes them: for clusters without drivers, and for files.

The annotation is a JSON list; each entry says whose devices (`driver`), how many (`count`), what they are called
(`name`) and what they have: `attributes` and `capacity` in short, and under `device` whatever else a device of a slice
can have:

    [{"driver": "gpu.example.com", "count": 4, "attributes": {"model": "A100"}, "capacity": {"memory": "40Gi"}}]

The devices of one driver on one node are a pool named as the node.
"""

from typing import Any

import msgspec

#: Of a node: the devices it has; of a slice: the node whose annotation it comes from.
DEVICES = "stowplan.io/devices"
DEVICES_OF = "stowplan.io/devices-of"

#: As many as fit into a slice whatever the devices have.
_PER_SLICE = 64
_MAX_COUNT = 1024


class InvalidDevices(ValueError):
    """Says what is wrong with the annotation, and where."""


class _Group(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    driver: str
    count: int = 1
    name: str = "device"
    attributes: dict[str, bool | int | str | dict[str, Any]] = {}
    capacity: dict[str, int | str | dict[str, Any]] = {}
    device: dict[str, Any] = {}


_DECODER = msgspec.json.Decoder(list[_Group])


def pools_of(annotation: str) -> dict[str, list[dict[str, Any]]]:
    """Driver -> its devices, as they are stored; raises InvalidDevices."""
    try:
        groups = _DECODER.decode(annotation)
    except msgspec.DecodeError as error:
        raise InvalidDevices(f"annotation {DEVICES}: {error}; it is a JSON list of devices") from None
    found: dict[str, list[dict[str, Any]]] = {}
    counted: dict[tuple[str, str], int] = {}
    for i, group in enumerate(groups):
        if not 1 <= group.count <= _MAX_COUNT:
            raise InvalidDevices(f"annotation {DEVICES}: [{i}].count: {group.count} is not from 1 to {_MAX_COUNT}")
        first = counted.get((group.driver, group.name), 0)
        counted[group.driver, group.name] = first + group.count
        content = {**group.device, **_content(group)}
        names = (f"{group.name}-{number}" for number in range(first, first + group.count))
        found.setdefault(group.driver, []).extend({"name": name, **content} for name in names)
    return found


def _content(group: _Group) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if group.attributes:
        content["attributes"] = {name: _attribute(value) for name, value in group.attributes.items()}
    if group.capacity:
        content["capacity"] = {
            name: value if isinstance(value, dict) else {"value": str(value)} for name, value in group.capacity.items()
        }
    return content


def _attribute(value: bool | int | str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": value}


def slices_of(node: str, driver: str, devices: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The slices of a pool, by name, with their devices."""
    parts = [devices[at : at + _PER_SLICE] for at in range(0, len(devices), _PER_SLICE)]
    return {f"{node}-{driver}-{i}": part for i, part in enumerate(parts)}


def slice_spec(node: str, driver: str, devices: list[dict[str, Any]], *, generation: int, count: int) -> dict[str, Any]:
    """`count`: of the pool's slices."""
    pool = {"name": node, "generation": generation, "resourceSliceCount": count}
    return {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
