"""Extended resources and their DeviceClasses."""

import pytest

from stowplan.scheduler.in_tree.common.device_classes import device_class_of
from stowplan.scheduler.in_tree.dynamic_resources.plugin import DynamicResources


def device_class(name, resource=None, created=None):
    metadata = {"name": name} | ({"creationTimestamp": created} if created else {})
    spec = {"extendedResourceName": resource} if resource else {}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": spec}


def name_of(world, resource):
    found = device_class_of(resource, world.state)
    return found and found.metadata.name


OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


@pytest.mark.parametrize(
    ("classes", "resource", "expected"),
    [
        pytest.param([], "x.com/gpu", None, id="no classes"),
        pytest.param([device_class("gpu")], "deviceclass.resource.kubernetes.io/gpu", "gpu", id="by class name"),
        pytest.param([device_class("gpu", "x.com/gpu")], "x.com/gpu", "gpu", id="by resource"),
        pytest.param([device_class("gpu", "x.com/gpu")], "x.com/tpu", None, id="unmapped"),
        pytest.param([device_class("gpu", "cpu")], "cpu", None, id="no extended resource"),
        pytest.param(
            [device_class("b", "x.com/gpu", NEW), device_class("a", "x.com/gpu", OLD)], "x.com/gpu", "b", id="newest"
        ),
        pytest.param(
            [device_class("b", "x.com/gpu", OLD), device_class("a", "x.com/gpu", OLD)],
            "x.com/gpu",
            "a",
            id="lower name",
        ),
    ],
)
def test_mapping(bench, classes, resource, expected):
    assert name_of(bench(DynamicResources, *classes), resource) == expected


def test_the_mapping_follows_changes(bench):
    world = bench(DynamicResources, device_class("gpu", "x.com/gpu"))
    assert name_of(world, "x.com/gpu") == "gpu"
    world.put(device_class("gpu", "x.com/other"))
    assert (name_of(world, "x.com/gpu"), name_of(world, "x.com/other")) == (None, "gpu")
