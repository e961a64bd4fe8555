"""Gangs on API servers that serve PodGroups: scheduled completely or not at all, whatever happens in between."""

import asyncio

import pytest

from stowplan.kube.api.api_errors import Forbidden
from stowplan.kube.api.types import PodGroup
from stowplan.kube.config.features import with_chosen
from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.scheduler.framework.interface import ReservePlugin
from stowplan.scheduler.framework.status import unschedulable
from support.api.manifests import node, pod
from support.api.tampered_api import Held, Tampered, raising
from support.live.http_scheduler import Objects, scheduled
from support.plugins.answering_plugins import configuration, profile
from support.processes.servers import SERVER_KINDS, assets, embedded_server, real_server
from support.scheduling.attempts import sized
from support.scheduling.preempting import CLASSES

GATES = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
FEATURES = with_chosen(GATES, V1_36)
#: For groups that preempt as a whole; the API servers serve the fields in any case.
WHOLE = GATES | {"WorkloadAwarePreemption": True}
RACK = "example.com/rack"


@pytest.fixture(scope="module")
def real_with_groups(tmp_path_factory):
    gates = ",".join(f"{name}=true" for name in WHOLE)
    with real_server(tmp_path_factory.mktemp("groups"), assets(), f"--feature-gates={gates}") as server:
        yield server


@pytest.fixture(scope="module")
def embedded_of_1_36(tmp_path_factory):
    with embedded_server(tmp_path_factory.mktemp("groups"), "--controllers=", "--kubernetes-version=1.36") as server:
        yield server


@pytest.fixture(params=SERVER_KINDS)
def api_server(request):
    servers = {"real": "real_with_groups", "embedded": "embedded_of_1_36", "1.37": "embedded"}
    return request.getfixturevalue(servers[request.param])


def group(name, gang, *, topology=None, **spec):
    spec |= {"schedulingPolicy": {"gang": {"minCount": gang}}}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def member(name, of, cpu="1", **spec):
    made = pod(name, schedulingGroup={"podGroupName": of}, **spec)
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu}
    return made


def a_node(name, cpu="4", **labels):
    made = sized(node(name), cpu=cpu, memory="64Gi")
    made["metadata"]["labels"] |= labels
    return made


def running(api_server, namespace, *before, **options):
    """A scheduler with the gates on and two nodes of four CPUs, or with the objects in `before`."""
    pairs = [(f"{obj['kind'].lower()}s", obj) if isinstance(obj, dict) else obj for obj in before]
    if not any(plural == "nodes" for plural, _ in pairs):
        pairs = [("nodes", a_node("n1")), ("nodes", a_node("n2")), *pairs]
    options = {"features": FEATURES, "wrap": Tampered, **options}
    return scheduled(api_server, namespace, before=pairs, **options)


async def placed(c, *names):
    return [bool(await c.node_of(name)) for name in names]


async def condition(c, name):
    found = (await c.objects.get("podgroups", name)).get("status", {}).get("conditions") or []
    return [(one["status"], one["reason"]) for one in found]


def names(of, count):
    return [f"{of}-{i}" for i in range(count)]


async def test_two_gangs_that_each_need_more_than_half(api_server, namespace):
    """One gang is scheduled completely; the other waits completely, and is scheduled later."""
    async with running(api_server, namespace, group("a", 5), group("b", 5)) as c:
        # Their pods are created alternately.
        for i in range(5):
            await c.objects.create("pods", member(f"a-{i}", "a"))
            await c.objects.create("pods", member(f"b-{i}", "b"))
        await c.settle()
        whole = {of: await placed(c, *names(of, 5)) for of in "ab"}
        assert sorted(whole.values()) == [[False] * 5, [True] * 5]
        first, second = sorted(whole, key=lambda of: not whole[of][0])
        assert await condition(c, first) == [("True", "Scheduled")]
        assert await condition(c, second) == [("False", "Unschedulable")]
        for name in names(first, 5):
            await c.objects.delete("pods", name)
        await c.advance(30)
        assert await placed(c, *names(second, 5)) == [True] * 5
        assert await condition(c, second) == [("True", "Scheduled")]
        c.scheduler.engine.validate()


async def test_a_member_is_deleted_between_permit_and_bind(api_server, namespace):
    async with running(api_server, namespace, group("a", 3)) as c:
        held = c.api.instead["bind"] = Held()
        for name in names("a", 3):
            await c.objects.create("pods", member(name, "a"))
        await held.waiting.wait()
        await c.objects.delete("pods", "a-1")
        held.let_go()
        await c.settle()
        # The other members were allowed together, and are bound.
        assert await placed(c, "a-0", "a-2") == [True] * 2
        # Its replacement belongs to a gang that already has two of three pods on nodes.
        await c.pods(member("a-3", "a"))
        await c.advance(30)
        assert await c.node_of("a-3")
        c.scheduler.engine.validate()


class FailsLate(ReservePlugin):
    """Passes a member on the gang's first trial, then refuses it until told otherwise."""

    name = "FailsLate"

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.calls, self.is_open = 0, False

    def reserve(self, state, pod, node_name):
        if pod.pod.metadata.name != "a-2":
            return None
        self.calls += 1
        return None if self.is_open or self.calls == 1 else unschedulable("not yet")

    def unreserve(self, state, pod, node_name):
        pass


async def test_a_node_dies_while_a_gang_waits_on_permit(api_server, namespace):
    """The gang is bound when complete; members bound to the dead node are replaced on other nodes."""
    options = {"config": configuration(profile(reserve=[FailsLate])), "plugins": [FailsLate]}
    async with running(api_server, namespace, ("podgroups", group("a", 3)), **options) as c:
        for name in names("a", 3):
            await c.objects.create("pods", member(name, "a"))
        await c.settle()
        waiting = {info.uid: info.node_name for info in c.scheduler.state.pod_groups.placed(f"{namespace}/a")}
        assert len(waiting) == len(list(c.scheduler.waiting_pods)) == 2
        assert await placed(c, *names("a", 3)) == [False] * 3
        dead = next(iter(waiting.values()))
        await c.objects.delete("nodes", dead)
        await c.settle()
        # Parity: pods that wait on Permit are not affected by that.
        assert len(list(c.scheduler.waiting_pods)) == 2
        assert await placed(c, *names("a", 3)) == [False] * 3
        c.scheduler.frameworks["default-scheduler"].plugins["FailsLate"].is_open = True
        await c.advance(30)
        assert await placed(c, *names("a", 3)) == [True] * 3
        lost = [name for name in names("a", 3) if await c.node_of(name) == dead]
        assert len(lost) == list(waiting.values()).count(dead)
        for name in lost:
            # As the pod garbage collector and the pods' controller do.
            await c.objects.delete("pods", name)
            await c.pods(member(f"{name}-again", "a"))
        await c.advance(30)
        assert {await c.node_of(f"{name}-again") for name in lost} == {"n1", "n2"} - {dead}
        c.scheduler.engine.validate()


async def test_a_restart_in_the_middle(api_server, namespace):
    """The scheduler ends with half of a gang bound; its successor binds the rest."""
    objects = Objects(api_server.kubeconfig, namespace)
    try:
        for name in ("n1", "n2"):
            await objects.create("nodes", a_node(name))
        await objects.create("podgroups", group("a", 4))
        for name in names("a", 4):
            await objects.create("pods", member(name, "a"))
        refuse = raising(Forbidden("not now"), times=2)
        async with scheduled(
            api_server, namespace, features=FEATURES, wrap=lambda api: refusing_binds(api, refuse)
        ) as c:
            await c.settle()
            assert sum(await placed(c, *names("a", 4))) == 2
        async with scheduled(api_server, namespace, features=FEATURES, wrap=Tampered) as c:
            await c.settle()
            assert await placed(c, *names("a", 4)) == [True] * 4
            assert c.api.verbs("a-0").count("bind") + c.api.verbs("a-3").count("bind") <= 2
            c.scheduler.engine.validate()
    finally:
        await objects.close()


def refusing_binds(api, refuse):
    tampered = Tampered(api)
    tampered.instead["bind"] = refuse
    return tampered


async def test_a_large_gang_in_the_only_rack_that_has_room(api_server, namespace):
    """The gang has 500 pods; the other racks have room for 400 each."""
    racks = {"a": 4, "b": 5, "c": 4}
    nodes = [a_node(f"{rack}-{i}", "10", **{RACK: rack}) for rack, count in racks.items() for i in range(count)]
    async with running(api_server, namespace, *nodes, group("big", 500, topology=RACK)) as c:
        pods = [member(name, "big", cpu="100m") for name in names("big", 500)]
        for start in range(0, 500, 50):
            await asyncio.gather(*(c.objects.create("pods", one) for one in pods[start : start + 50]))
        await c.settle(patience=120.0)
        hosts = [one["spec"].get("nodeName", "") for one in await c.objects.list("pods")]
        assert sorted(set(hosts)) == [f"b-{i}" for i in range(5)]
        assert len(hosts) == 500
        assert await condition(c, "big") == [("True", "Scheduled")]


async def test_a_gang_preempts_a_gang_as_a_whole(api_server, namespace):
    """Room for one pod evicts the other gang completely; nothing is evicted for a gang that fits nowhere."""
    groups = [
        group("low", 2, disruptionMode="PodGroup"),
        group("high", 1, priorityClassName="most"),
        group("vast", 3, priorityClassName="most"),
    ]
    async with running(
        api_server, namespace, *CLASSES, *groups, a_node("n1"), a_node("n2"), features=with_chosen(WHOLE, V1_36)
    ) as c:
        await c.pods(member("low-0", "low", "4"), member("low-1", "low", "4"))
        assert await placed(c, "low-0", "low-1") == [True] * 2
        most = {"priorityClassName": "most"}
        await c.pods(*(member(name, "vast", "4", **most) for name in names("vast", 3)))
        assert await c.events(reason="Preempted") == []
        message = (await c.objects.get("podgroups", "vast"))["status"]["conditions"][0]["message"]
        assert message == (
            "0/1 placements are available, first placement status: pod group is unschedulable, "
            "0/1 placements are available, first placement status: pod group is unschedulable"
        )
        await c.pods(member("high-0", "high", "4", **most))
        told = await c.events(reason="Preempted")
        uid = (await c.objects.get("podgroups", "high"))["metadata"]["uid"]
        assert sorted(event["regarding"]["name"] for event in told) == ["low-0", "low-1"]
        assert {event["note"] for event in told} == {f"Preempted by podgroup {uid} on node cluster"}
        for name in ("low-0", "low-1"):
            conditions = (await c.objects.get("pods", name))["status"]["conditions"]
            target = next(one for one in conditions if one["type"] == "DisruptionTarget")
            assert target["message"] == "default-scheduler: preempting to accommodate a higher priority podgroup"
            # No kubelet runs here that would finish the deletion.
            await c.objects.delete("pods", name)
        await c.advance(30)
        assert await placed(c, "high-0", *names("vast", 3)) == [True, False, False, False]
        assert await condition(c, "high") == [("True", "Scheduled")]
        c.scheduler.engine.validate()


@pytest.mark.parametrize("api_server", ["1.37"], indirect=True)
async def test_a_gang_since_1_37(api_server, namespace):
    """The scheduler reads v1beta1 where it is served, and writes the condition of that version to it."""
    features = with_chosen({"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}, V1_37)
    groups = [group("low", 2, disruptionMode={"all": {}}), group("high", 1, priorityClassName="most")]
    groups = [("podgroups since 1.37", {**one, "apiVersion": "scheduling.k8s.io/v1beta1"}) for one in groups]
    nodes = [a_node("n1"), a_node("n2")]
    async with running(api_server, namespace, *CLASSES, *groups, *nodes, features=features) as c:
        await c.pods(member("low-0", "low", "4"), member("low-1", "low", "4"))
        assert await placed(c, "low-0", "low-1") == [True] * 2
        known = c.scheduler.state.objects.get(PodGroup, f"{namespace}/low")
        assert (known.api_version, known.spec.disruption_mode) == ("scheduling.k8s.io/v1beta1", {"all": {}})
        (told,) = (await c.objects.get("podgroups since 1.37", "low"))["status"]["conditions"]
        assert (told["type"], told["status"]) == ("PodGroupInitiallyScheduled", "True")
        await c.pods(member("high-0", "high", "4", priorityClassName="most"))
        evicted = await c.events(reason="Preempted")
        assert sorted(event["regarding"]["name"] for event in evicted) == ["low-0", "low-1"]
        assert {event["related"]["apiVersion"] for event in evicted} == {"scheduling.k8s.io/v1beta1"}
        c.scheduler.engine.validate()
