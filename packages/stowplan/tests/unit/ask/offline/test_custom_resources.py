"""Custom resources in files: those that plugins read are there, and others are skipped with a note."""

import json

import stowplan
from stowplan.plugins import Action, EnqueueExtensions, PreFilterPlugin, custom_resource, on, unresolvable
from stowplan.testing import a_node, a_pod

Licence = custom_resource("licences.v1.shop.example.com")


class Licensed(PreFilterPlugin, EnqueueExtensions):
    name = "Licensed"

    def pre_filter(self, state, pod, nodes):
        found = self.handle.cluster.objects.get(Licence, f"{pod.namespace}/cad")
        return None if found is not None else unresolvable("no licence")

    def events_to_register(self):
        return (on(Licence.resource, Action.Add),)


CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Licensed"}]}}}],
}


def custom(kind, name):
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "shop.example.com/v1", "kind": kind, "metadata": metadata, "spec": {"seats": 1}}


def loaded(tmp_path, *objects):
    path = tmp_path / "cluster.json"
    items = [a_node("n1").obj(), a_pod("draw").obj(), *objects]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return stowplan.Cluster.from_files(path, config=CONFIG, plugins=[Licensed])


def test_a_custom_resource_that_a_plugin_reads(tmp_path):
    cluster = loaded(tmp_path, custom("Licence", "cad"), custom("Receipt", "old"))
    assert cluster.explain("draw").node_name == "n1"
    assert cluster.notes == (
        "skipped 1 object of kind Receipt (shop.example.com/v1), which the scheduler does not read",
    )


def test_without_it(tmp_path):
    assert "no licence" in loaded(tmp_path, custom("Receipt", "old")).explain("draw").message
