"""Builders of slices, classes and claims, for tests of device allocation."""

from typing import Any

from support.plugins.storage import of

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def a_device(name, *, capacity=None, consumes=None, **fields):
    """Attributes are keywords: strings, integers and booleans; other fields of a device are in `fields`, in camel
    case."""
    attributes = {key: value for key, value in fields.items() if isinstance(value, str | int)}
    rest = {key: value for key, value in fields.items() if key not in attributes}
    flags: dict[str, Any] = {
        key: attributes.pop(key)
        for key in ("allowMultipleAllocations", "allNodes", "bindsToNode", "nodeName")
        if key in attributes
    }
    typed = {key: {_KINDS[type(value)]: value} for key, value in attributes.items()}
    found: dict[str, Any] = {"name": name, "attributes": typed, **flags, **rest}
    if capacity:
        found["capacity"] = {
            key: value if isinstance(value, dict) else {"value": value} for key, value in capacity.items()
        }
    if consumes:
        found["consumesCounters"] = [
            {"counterSet": name, "counters": {key: {"value": value} for key, value in counters.items()}}
            for name, counters in consumes.items()
        ]
    return found


_KINDS = {str: "string", int: "int", bool: "bool"}


def a_slice(name, *devices, pool=None, generation=1, count=1, driver=DRIVER, counters=None, **where):
    spec = {
        "driver": driver,
        "pool": {"name": pool or name, "generation": generation, "resourceSliceCount": count},
        "devices": list(devices),
        **where,
    }
    if counters:
        spec["sharedCounters"] = [
            {"name": key, "counters": {counter: {"value": value} for counter, value in of_set.items()}}
            for key, of_set in counters.items()
        ]
    return of("ResourceSlice", name, API, spec=spec)


def a_class(name="gpu", *expressions, **spec):
    return of("DeviceClass", name, API, spec={"selectors": [{"cel": {"expression": e}} for e in expressions], **spec})


def exactly(name="r", *, count=1, class_name="gpu", selectors=(), **more):
    """A request for `count` devices; `first_available` combines such requests as alternatives."""
    return {"name": name, "exactly": asked(count=count, class_name=class_name, selectors=selectors, **more)}


def everything(name="r", **more):
    request = exactly(name, **more)
    request["exactly"]["allocationMode"] = "All"
    del request["exactly"]["count"]
    return request


def first_available(name, *alternatives):
    return {"name": name, "firstAvailable": [{"name": a["name"], **a["exactly"]} for a in alternatives]}


def asked(*, count, class_name, selectors, **more):
    return {
        "deviceClassName": class_name,
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": expression}} for expression in selectors],
        **more,
    }


def a_claim(name="c", *requests, constraints=(), config=(), status=None, **metadata):
    metadata = {"namespace": "default", "uid": f"{name}-uid", **metadata}
    devices = {"requests": list(requests), "constraints": list(constraints), "config": list(config)}
    return of("ResourceClaim", name, API, metadata=metadata, spec={"devices": devices}, status=status or {})


def allocation(*devices, pool="p", driver=DRIVER, **more):
    """A status with these devices."""
    results = [{"request": "r", "driver": driver, "pool": pool, "device": name, **more} for name in devices]
    return {"allocation": {"devices": {"results": results}}}


def a_taint_rule(name="rule", *, key="broken", effect="NoSchedule", **selector):
    """For all devices, or for those of a driver, pool or device."""
    spec = {"taint": {"key": key, "effect": effect}}
    if selector:
        spec["deviceSelector"] = selector
    return of("DeviceTaintRule", name, "resource.k8s.io/v1beta2", spec=spec)
