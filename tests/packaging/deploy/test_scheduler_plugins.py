"""The manifests for scheduler-plugins: valid, and permitted what the programs do."""

import pytest
import yaml

from stowplan.controllers import installed_controllers
from stowplan.kube.api.custom_objects import CustomObject
from stowplan.kube.api.resources import resource_of
from support.processes.deployments import DEPLOY, named, objects, rights

FOLDER = DEPLOY / "manifests" / "scheduler-plugins"
DEFINITIONS = objects(*sorted((FOLDER / "crds").glob("*.yaml")))
CONTROLLER = objects(FOLDER / "controller.yaml")
SCHEDULER = objects(FOLDER / "scheduler-rbac.yaml")


def test_a_server_accepts_them(api_server):
    if api_server.kubectl("get", "namespace", "scheduler-plugins", check=False).returncode:
        api_server.kubectl("create", "namespace", "scheduler-plugins")
    everything = [*DEFINITIONS, *CONTROLLER, *SCHEDULER]
    dry = api_server.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", stdin=everything
    )
    assert dry.stdout.count("serverside-applied (server dry run)") == len(everything)


def test_the_controller_may_do_what_it_does():
    granted = rights(named(CONTROLLER, "ClusterRole", "scheduler-plugins-controller"))
    for controller in installed_controllers():
        for kind in controller.reads_kinds:
            resource = resource_of(kind)
            verbs = {(resource.group, resource.plural, "", verb) for verb in ("list", "watch")}
            if issubclass(kind, CustomObject):
                verbs.add((resource.group, f"{resource.plural}/status", "", "patch"))
            assert verbs <= granted
    assert {("", "events", "", "create"), ("coordination.k8s.io", "leases", "", "update")} <= granted


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one["metadata"]["name"])
def test_the_scheduler_may_watch_each_kind(definition):
    spec = definition["spec"]
    granted = rights(named(SCHEDULER, "ClusterRole", "system:kube-scheduler:plugins"))
    assert {(spec["group"], spec["names"]["plural"], "", verb) for verb in ("list", "watch")} <= granted


def test_the_values_are_images():
    values = yaml.safe_load((FOLDER / "values.yaml").read_text())
    assert {part: set(of_part) for part, of_part in values.items()} == {"scheduler": {"image"}, "controller": {"image"}}
