"""Kinds in a cluster in memory: built-in ones, and those added by definitions."""

import pytest

from stowplan.plugins import Action, EnqueueExtensions, PreFilterPlugin, custom_resource, on, unresolvable
from stowplan.testing import a_node, a_pod
from stowplan.testing.live import live_cluster
from support.plugins.answering_plugins import configuration

NODE = a_node("n1").obj()
Licence = custom_resource("licences.v1.shop.example.com")


def definition(plural="licences", kind="Licence", scope="Namespaced", versions=("v1",), group="shop.example.com"):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": name, "served": True, "storage": name == versions[-1]} for name in versions],
        },
    }


def licence(name="cad", api_version="shop.example.com/v1", kind="Licence", **spec):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


class Licensed(PreFilterPlugin, EnqueueExtensions):
    """Requires a licence for every pod."""

    name = "Licensed"

    def pre_filter(self, state, pod, nodes):
        found = self.handle.cluster.objects.get(Licence, f"{pod.namespace}/cad")
        return None if found is not None and found.content["spec"].get("seats") else unresolvable("no licence")

    def events_to_register(self):
        return (on(Licence.resource, Action.Add | Action.Update),)


CONFIG = configuration({"plugins": {"multiPoint": {"enabled": [{"name": "Licensed"}]}}})


def licensed(*objects):
    return live_cluster(NODE, *objects, config=CONFIG, plugins=[Licensed])


def test_the_plugin_is_disabled_until_its_kind_is_defined():
    with licensed() as cluster:
        cluster.create(a_pod("early").obj())
        assert cluster.node_of("early") == "n1"
        cluster.create(definition())
        cluster.create(a_pod("late").obj())
        assert "no licence" in cluster.why_pending("late")


def test_objects_of_a_definition_wake_pods():
    with licensed(definition()) as cluster:
        cluster.create(a_pod("a").obj())
        cluster.create(licence(seats=0))
        cluster.advance(2)
        assert cluster.node_of("a") == ""
        cluster.patch("licences.shop.example.com", "cad", {"spec": {"seats": 1}})
        cluster.advance(5)
        assert cluster.node_of("a") == "n1"
        assert cluster.get("licences.shop.example.com", "cad")["spec"] == {"seats": 1}
        cluster.delete("licences.shop.example.com", "cad")
        cluster.create(a_pod("b").obj())
        assert "no licence" in cluster.why_pending("b")


def test_created_objects_are_not_aliased():
    with licensed(definition()) as cluster:
        mine = licence(seats=1)
        cluster.create(mine)
        mine["spec"]["seats"] = 0
        assert cluster.get("licences.shop.example.com", "cad")["spec"] == {"seats": 1}


def test_an_undefined_kind_is_refused_with_a_message():
    with live_cluster() as cluster, pytest.raises(ValueError, match="create its CustomResourceDefinition first"):
        cluster.create(licence())


def test_cluster_scoped_kinds_and_versions():
    with live_cluster(definition("tapes", "Tape", "Cluster", ("v1beta1", "v1"))) as cluster:
        cluster.create(licence("a", "shop.example.com/v1", "Tape", length=1))
        assert cluster.get("tapes.shop.example.com", "a")["spec"] == {"length": 1}
        with pytest.raises(ValueError, match=r"no kind 'Tape' of 'shop\.example\.com/v2'"):
            cluster.create(licence("b", "shop.example.com/v2", "Tape"))


def test_built_in_kinds_that_the_scheduler_does_not_read_can_be_defined_too():
    with live_cluster(definition("deployments", "Deployment", group="apps")) as cluster:
        cluster.create(licence("web", "apps/v1", "Deployment", replicas=3))
        assert cluster.get("deployments.apps", "web")["spec"] == {"replicas": 3}


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"priority": "x"}}, "spec.priority"),
        (a_pod("a").requests(cpu="much").obj(), "is not a quantity"),
    ],
    ids=["type", "quantity"],
)
def test_invalid_objects_are_refused_with_their_names(obj, why):
    with live_cluster() as cluster, pytest.raises(ValueError, match=f'Pod "a": .*{why}'):
        cluster.create(obj)


def test_default_namespaces_exist():
    with live_cluster() as cluster:
        labels = cluster.get("namespaces", "kube-system")["metadata"]["labels"]
        assert labels == {"kubernetes.io/metadata.name": "kube-system"}
