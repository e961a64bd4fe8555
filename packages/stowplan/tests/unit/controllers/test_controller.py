"""Patches of statuses, and controllers of installed packages."""

import pytest

from stowplan.controllers import Controller, installed_controllers, status_patch
from stowplan.controllers import controller as module
from stowplan.kube.api.merge_patches import merge_patched
from stowplan.kube.api.types import ObjectMeta
from stowplan.plugins import custom_resource

Queue = custom_resource("queues.v1.example.com")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"used": {"cpu": "1"}}),
        ({"used": {"cpu": "1", "gpu": "2"}}, {"used": {"cpu": "3"}}),
        ({"phase": "Pending", "running": 1}, {"phase": "Running"}),
        ({"used": "text"}, {"used": {"cpu": "1"}}),
    ],
)
def test_a_status_patch_replaces_the_status_of_this_version(before, after):
    queue = Queue(metadata=ObjectMeta(name="q", namespace="a", resource_version="7"), content={"status": before})
    patch = status_patch(queue, after)
    assert patch.body["metadata"] == {"resourceVersion": "7"}
    assert merge_patched(before, patch.body["status"]) == after


class Point:
    name, value = "mine", "mine:Mine"

    def __init__(self, load):
        self.load = load


def test_what_is_no_controller_is_named(monkeypatch):
    monkeypatch.setattr(module, "entry_points", lambda group: [Point(lambda: dict)])
    with pytest.raises(module.ControllerLoadError, match=r"controller mine \(mine:Mine\) is not a"):
        installed_controllers()

    def fails():
        raise ImportError("no module")

    monkeypatch.setattr(module, "entry_points", lambda group: [Point(fails)])
    with pytest.raises(module.ControllerLoadError, match="no module"):
        installed_controllers()


def test_installed_controllers_are_made(monkeypatch):
    class Mine(Controller):
        name, reads_kinds = "mine", ()

        def keys_of(self, change):
            return ()

        def reconcile(self, key, objects, now):
            raise NotImplementedError

    monkeypatch.setattr(module, "entry_points", lambda group: [Point(lambda: Mine)])
    assert [one.name for one in installed_controllers()] == ["mine"]
