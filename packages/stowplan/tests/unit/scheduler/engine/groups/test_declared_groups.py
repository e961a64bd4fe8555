"""Groups of a custom resource that a plugin declares, beside those of the API."""

import pytest

import stowplan
from stowplan.plugins import GroupKind, PreEnqueuePlugin, custom_resource
from stowplan.scheduler.engine.inputs import Offered
from stowplan.scheduler.framework.runtime.profile_plugins import PluginInitError
from stowplan.testing import a_node, a_pod
from stowplan.testing.live import live_cluster
from support.live.live_scheduler import live
from support.live.recorded import Recorded
from support.plugins.answering_plugins import configuration
from support.scheduling.groups import a_group, member

CREW = custom_resource("crews.v1.example.com")
SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "crews.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Crew", "plural": "crews"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}


class Crews(PreEnqueuePlugin):
    name = "Crews"
    needs_kinds = (CREW,)

    @classmethod
    def group_kind(cls, args):
        return None if args == {"off": True} else KIND

    def pre_enqueue(self, pod):
        return None


def size_of(crew):
    return crew.content["spec"]["size"]


KIND = GroupKind(kind=CREW, label="crew", min_count=size_of)
PROFILE = {"plugins": {"multiPoint": {"enabled": [{"name": "Crews"}]}}}
CONFIG = configuration(PROFILE)


def crew(size, name="g"):
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "example.com/v1", "kind": "Crew", "metadata": metadata, "spec": {"size": size}}


def node(cpu):
    return a_node(f"n{cpu}").allocatable(cpu=str(cpu), memory="8Gi", pods="110").obj()


def sailor(name, cpu="1", priority=0, of="g"):
    return a_pod(name).labels(crew=of).requests(cpu=cpu).spec(priority=priority).obj()


def clusters(*objects, **options):
    return live_cluster(DEFINITION, *objects, config=CONFIG, plugins=[Crews], **options)


def nodes(cluster, *names):
    return [cluster.node_of(name) for name in names]


def test_all_or_none_are_scheduled():
    with clusters(node(2), crew(3), sailor("a"), sailor("b"), a_pod("single").requests(cpu="1").obj()) as cluster:
        assert not cluster.events("a"), "pods of a group that is not complete are not tried"
        cluster.create(sailor("c"))
        assert nodes(cluster, "a", "b", "c", "single") == ["", "", "", "n2"]
        assert "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining" in cluster.why_pending("a")
        cluster.create(node(4))
        cluster.advance(20)
        assert "" not in nodes(cluster, "a", "b", "c")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)], ids=["group first", "group last", "between"])
def test_objects_may_come_in_any_order(order):
    objects = crew(2), sailor("a"), sailor("b")
    with clusters(node(4)) as cluster:
        for i in order:
            cluster.create(objects[i])
        assert nodes(cluster, "a", "b") == ["n4", "n4"]


def test_the_size_may_change_and_the_group_may_leave():
    with clusters(node(4), crew(3), sailor("a"), sailor("b")) as cluster:
        cluster.delete("crews.example.com", "g")
        cluster.create(crew(2))
        assert nodes(cluster, "a", "b") == ["n4", "n4"]
        cluster.create(crew(9, "h"), sailor("x", of="h"))
        cluster.patch("crews.example.com", "h", {"spec": {"size": 1}})
        assert cluster.node_of("x") == "n4"


def test_pods_of_different_priorities_preempt_with_the_lowest():
    running = [
        a_pod(name).requests(cpu="1").spec(priority=value, nodeName="n2").obj() for name, value in (("p", 1), ("q", 5))
    ]
    with clusters(node(2), *running, crew(2), sailor("a", priority=9), sailor("b", priority=3)) as cluster:
        cluster.advance(20)
        assert nodes(cluster, "a", "b") == ["", ""]
        cluster.delete("pods", "q")
        cluster.advance(40)
        assert nodes(cluster, "a", "b") == ["n2", "n2"]
        assert [event["regarding"]["name"] for event in cluster.events(reason="Preempted")] == ["p"]


def test_the_priority_follows_pods_that_leave():
    with clusters(node(1), crew(9), *(sailor(name, priority=priority) for name, priority in PRIORITIES)) as cluster:

        def priority_without(*gone):
            for name in gone:
                cluster.delete("pods", name)
            return cluster.engine.state.group_trees.get("default/g").spec.priority

        assert priority_without() == 1
        assert priority_without("a") == 1
        assert priority_without("d") == 1
        assert priority_without("b") == 5
        assert priority_without("c") is None


PRIORITIES = (("a", 1), ("b", 1), ("c", 5), ("d", 9))


def test_groups_of_the_api_are_not_read():
    with clusters(node(4), a_group(gang=9), member("m")) as cluster:
        assert cluster.node_of("m") == "n4"


def test_a_group_of_the_api_takes_precedence_while_it_exists():
    with clusters(node(4), crew(3), sailor("a"), feature_gates={"GenericWorkload": True}) as cluster:
        cluster.create(a_group(gang=2))
        cluster.create(sailor("b"))
        assert nodes(cluster, "a", "b") == ["n4", "n4"]
        cluster.delete("podgroups.scheduling.k8s.io", "g")
        cluster.create(crew(3, "h"), sailor("x", of="h"))
        cluster.create(a_group(name="h", gang=9))
        cluster.create(sailor("y", of="h"), sailor("z", of="h", cpu="100m"))
        assert nodes(cluster, "x", "y", "z") == ["", "", ""]
        cluster.delete("podgroups.scheduling.k8s.io", "h")
        cluster.advance(20)
        assert "9" not in cluster.why_pending("x")


def test_nothing_is_written_to_it():
    with clusters(node(4), crew(1), sailor("a")) as cluster:
        assert "status" not in cluster.get("crews.example.com", "g")


def test_its_own_controllers_status_does_not_change_the_group():
    with clusters(node(4), crew(2), sailor("a", priority=3)) as cluster:
        before = cluster.engine.state.group_trees.get("default/g")
        assert before.spec.priority == 3
        cluster.patch("crews.example.com", "g", {"status": {"phase": "Pending"}})
        assert cluster.engine.state.group_trees.get("default/g") is before
        cluster.patch("crews.example.com", "g", {"spec": {"size": 1}})
        assert cluster.node_of("a") == "n4"


@pytest.mark.parametrize("from_the_middle", [False, True])
async def test_a_recording_is_replayed(from_the_middle):
    recorded = Recorded()
    recorder = {} if from_the_middle else {"recorder": recorded.recorder}
    async with live(DEFINITION, node(2), config=CONFIG, plugins=[Crews], **recorder) as cluster:
        await cluster.create(crew(3), *map(sailor, "ab"))
        await cluster.advance(3.0)
        if from_the_middle:
            cluster.scheduler.record(recorded.recorder)
        await cluster.create(sailor("c"), node(4))
        await cluster.advance(30.0)
        assert "" not in [cluster.node_of(name) for name in "abc"]
    recorded.check(Crews)


def test_it_can_only_be_changed_by_a_restart():
    with clusters(node(4)) as cluster:
        off = configuration(PROFILE | {"pluginConfig": [{"name": "Crews", "args": {"off": True}}]})
        engine = cluster.engine
        engine.step(Offered(off), engine.context.outbox.now)
        assert "can only be changed by a restart" in engine.profiles.refusal


def test_older_versions_cannot():
    with pytest.raises(PluginInitError, match=r"plugin Crews: groups of crews.v1.example.com need Kubernetes 1.37"):
        stowplan.Cluster([], config=CONFIG, plugins=[Crews], emulated_version="1.36")


def test_it_is_explained_as_a_group():
    cluster = stowplan.Cluster([node(2), crew(3), *map(sailor, "abc")], config=CONFIG, plugins=[Crews])
    assert "2 of 3 pods fit together" in repr(cluster.explain_group("g"))
    assert [found.node_name for found in cluster.schedule(["a", "b", "c"])] == ["", "", ""]
    cluster.add(node(1))
    assert {found.node_name for found in cluster.schedule(["a", "b", "c"])} == {"n1", "n2"}
    cluster.remove(crew(3))
    assert cluster.state.group_trees.get("default/g") is None


def test_a_plugin_that_raises_when_asked_is_named():
    class Broken(Crews):
        @classmethod
        def group_kind(cls, args):
            raise KeyError("kind")

    with pytest.raises(PluginInitError, match=r'asking plugin "Crews" for its group kind: .*kind'):
        stowplan.Cluster(config=CONFIG, plugins=[Broken])
