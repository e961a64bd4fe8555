"""Plans of moves, carried out on the embedded cluster in virtual time: controllers, scheduler, kubelet in process."""

import asyncio

import pytest

from answers.living import Living
from stowplan import Cluster
from stowplan.ask.rebalance import FreeNodes, Mend, rebalance
from stowplan.ask.rebalance.applying.apply_record import NAME, ApplyRecord, Identities, RecordStore, record_of
from stowplan.ask.rebalance.applying.applying import Applying, StoppedError, Waits, under_lease
from stowplan.ask.rebalance.moves import Limits
from stowplan.kube.api.api_errors import Conflict, Forbidden
from stowplan.kube.api.meta import controller_of
from stowplan.kube.config import LeaderElection
from stowplan.net.client.election.leader_election import LeaderElector, LeadershipLost
from support.what_if.objects import node

KINDS = ("nodes", "pods", "poddisruptionbudgets.policy", "replicasets.apps", "persistentvolumeclaims")
TAINT = {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}


def a_deployment(name="web", replicas=3, cpu="1"):
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def a_budget(**spec):
    metadata = {"name": "web", "namespace": "default"}
    selector = {"matchLabels": {"app": "web"}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {"selector": selector, **spec},
    }


class World:
    """A living cluster, and plans for it."""

    def __init__(self, *objects, goal=None, at_once=1):
        self.living = Living(objects, seed=1)
        self.goal, self.limits = goal or Mend(), Limits(at_once=at_once)
        self.living.rest(2, quiet=2)
        self.plans = 0
        self.lines = []

    @property
    def nodes(self):
        """The nodes of the pods, sorted."""
        return sorted(one["spec"].get("nodeName", "") for one in self.living.all("pods"))

    @property
    def unschedulable(self):
        return [one["metadata"]["name"] for one in self.living.all("nodes") if one["spec"].get("unschedulable")]

    async def plan(self, cordoned):
        self.plans += 1
        objects = [one for kind in KINDS for one in self.living.all(kind)]
        for one in objects:
            if one["kind"] == "Node" and one["metadata"]["name"] in cordoned:
                one["spec"].pop("unschedulable")
                one["spec"]["taints"] = []
        cluster = Cluster(objects)
        found = rebalance(cluster, self.goal, limits=self.limits)
        infos = [cluster.pod(move.pod).pod.metadata for move in found.moves]
        keys = [move.pod for move in found.moves]
        owners = {key: controller_of(one).uid for key, one in zip(keys, infos, strict=True)}
        return record_of(found, Identities({key: one.uid for key, one in zip(keys, infos, strict=True)}, owners))

    def applying(self, api=None, **options):
        api = api or self.living.api
        store = RecordStore(api, "default")
        return Applying(api, store, self.plan, times=self.living.time, report=self.lines.append, **options)

    def start(self, **options):
        return self.living.loop.create_task(self.applying(**options).run())

    def finish(self, task):
        for _ in range(30):
            if task.done():
                return task.result()
            self.living.rest(20, quiet=1)
        raise AssertionError("it does not end")

    def close(self):
        loop = self.living.loop
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()


@pytest.fixture
def world():
    made = []

    def make(*objects, **options):
        made.append(World(*objects, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def a_tainted_world(world, *more, replicas=3, nodes=2, **options):
    found = world(node("a", "10"), a_deployment(replicas=replicas), *more, **options)
    found.living.create(*(node(name, "10") for name in "bcdef"[: nodes - 1]))
    found.living.patch("nodes", "a", TAINT)
    found.living.rest(quiet=1)
    return found


def test_pods_move_step_by_step(world):
    here = a_tainted_world(world)
    done = here.finish(here.start())
    assert (done.state, done.moved, done.plans) == ("finished", 3, 1)
    assert here.nodes == ["b", "b", "b"]
    assert here.lines == [f"step {number}: 1 pod moved" for number in (1, 2, 3)]


def test_a_budget_holds_all_the_time(world):
    here = a_tainted_world(world, a_budget(minAvailable=2), at_once=3)
    here.living.rest(5)
    fewest = []
    here.living.store.on_change(lambda event: fewest.append(running(here)) if "pods" in event.stored.resource else None)
    done = here.finish(here.start())
    assert (done.state, here.nodes) == ("finished", ["b", "b", "b"])
    assert min(fewest) >= 2


def running(here):
    return sum(
        any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))
        for pod in here.living.all("pods")
        if "deletionTimestamp" not in pod["metadata"]
    )


@pytest.mark.parametrize("writes", [3, 4, 5])
def test_killed_in_the_middle_and_resumed(world, writes):
    here = a_tainted_world(world)
    api = Dying(here.living.api, writes)
    task = here.start(api=api)
    while not task.done():
        here.living.rest(20, quiet=1)
    assert isinstance(task.exception(), ConnectionError)
    done = here.finish(here.start())
    assert (done.state, here.nodes) == ("finished", ["b", "b", "b"])
    assert done.moved == 3
    assert here.plans == 1


class Wrapped:
    def __init__(self, api):
        self._api = api

    def __getattr__(self, name):
        return getattr(self._api, name)


class Dying(Wrapped):
    """The process ends after so many writes; the last one arrives."""

    def __init__(self, api, writes):
        super().__init__(api)
        self.left = writes

    async def _last(self):
        self.left -= 1
        if self.left <= 0:
            raise ConnectionError("killed")

    async def create(self, *args, **options):
        found = await self._api.create(*args, **options)
        await self._last()
        return found

    async def patch(self, *args, **options):
        found = await self._api.patch(*args, **options)
        await self._last()
        return found

    async def evict(self, *args, **options):
        await self._api.evict(*args, **options)
        await self._last()


def test_nodes_are_cordoned_and_given_back(world):
    here = world(node("a", "10"), node("b", "10"), a_deployment(replicas=2), goal=FreeNodes(1))
    done = here.finish(here.start())
    assert done.state == "finished"
    assert len(set(here.nodes)) == 1
    assert here.unschedulable == [name for name in "ab" if name not in here.nodes]


def test_the_room_is_taken_by_another_scheduler(world):
    here = a_tainted_world(world, replicas=2)
    here.living.patch("nodes", "b", {"status": {"allocatable": {"pods": "10"}}})
    api = Meddling(here.living.api, lambda: here.living.create(a_foreign_pod()))
    done = here.finish(here.start(api=api, waits=Waits(step=30.0)))
    assert done.state == "stopped"
    assert "no replacement of default/web-" in done.message
    assert "is pending: 0/2 nodes are available" in done.message
    assert len([one for one in here.nodes if one == "a"]) == 1


def a_foreign_pod():
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": "9500m"}}}
    spec = {"nodeName": "b", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign", "namespace": "default"}, "spec": spec}


class Meddling(Wrapped):
    """Something happens just before the first eviction."""

    def __init__(self, api, happens):
        super().__init__(api)
        self.happens = [happens]

    async def evict(self, *args, **options):
        while self.happens:
            self.happens.pop()()
        await self._api.evict(*args, **options)


def test_a_budget_appears(world):
    here = a_tainted_world(world)
    api = Meddling(here.living.api, lambda: here.living.create(a_budget(minAvailable=3)))
    task = here.start(api=api, waits=Waits(budget=20.0))
    done = here.finish(task)
    # The first one leaves before the budget has a status; for the others there is a new plan, in which they stay.
    assert done.state == "finished"
    assert done.plans == 2
    assert "a" in here.nodes


def test_a_pod_that_has_gone_makes_a_new_plan(world):
    here = a_tainted_world(world)

    def gone():
        name = sorted(one["metadata"]["name"] for one in here.living.all("pods"))[0]
        here.living.delete("pods", name)

    here.finish(here.start(api=Meddling(here.living.api, gone)))
    assert here.plans == 2
    assert here.nodes == ["b", "b", "b"]


def test_missing_rights_stop_it_and_leave_no_node_cordoned(world):
    here = world(node("a", "10"), node("b", "10"), a_deployment(replicas=2), goal=FreeNodes(1))

    class Powerless(Wrapped):
        async def evict(self, *args, **options):
            raise Forbidden("pods is forbidden")

    done = here.finish(here.start(api=Powerless(here.living.api)))
    assert (done.state, done.message, done.moved) == ("stopped", "pods is forbidden", 0)
    assert here.unschedulable == []


def test_a_missing_right_to_watch_stops_it(world):
    here = a_tainted_world(world)

    class Blind(Wrapped):
        async def list(self, kind, **options):
            raise Forbidden("pods is forbidden")

    done = here.finish(here.start(api=Blind(here.living.api)))
    assert (done.state, done.message, done.moved) == ("stopped", "pods is forbidden", 0)


def test_a_budget_that_changes_all_the_time_is_not_waited_for_longer(world):
    here = a_tainted_world(world)
    api = Meddling(here.living.api, lambda: here.living.create(a_budget(minAvailable=3)))
    task = here.start(api=api, waits=Waits(budget=20.0))
    for number in range(30):
        here.living.rest(1, quiet=0)
        if here.plans == 1 and here.living.all("poddisruptionbudgets.policy"):
            here.living.patch("poddisruptionbudgets.policy", "web", {"metadata": {"labels": {"n": str(number)}}})
    assert here.plans == 2
    here.finish(task)


def test_a_second_run_begins_anew(world):
    here = a_tainted_world(world)
    here.finish(here.start())
    done = here.finish(here.start())
    assert (done.state, done.moves, here.plans) == ("finished", [], 2)


# -- one at a time ----------------------------------------------------------------------------------------------------


def an_elector(here, identity):
    config = LeaderElection(resource_name=NAME, resource_namespace="default")
    return LeaderElector(here.living.api, config, identity=identity, times=here.living.time)


def leading(here, identity, work):
    return here.living.loop.create_task(
        under_lease(an_elector(here, identity), work, times=here.living.time, patience=5.0)
    )


def test_never_two_at_once(world):
    here = world(node("a"))

    async def long():
        await here.living.time.sleep(60)
        return "the first"

    first = leading(here, "first", long)
    here.living.rest(1, quiet=0)
    second = leading(here, "second", long)
    here.living.rest(30, quiet=0)
    with pytest.raises(StoppedError, match="held by first"):
        second.result()
    here.living.rest(60, quiet=0)
    assert first.result() == "the first"
    third = leading(here, "third", long)
    here.living.rest(70, quiet=0)
    assert third.result() == "the first"


def test_nothing_is_written_without_the_lease(world):
    here = a_tainted_world(world)
    task = here.start(is_leader=lambda: False)
    with pytest.raises(LeadershipLost):
        here.finish(task)
    assert here.nodes == ["a", "a", "a"]


def test_a_lost_lease_ends_the_work(world):
    here = world(node("a"))

    async def losing():
        raise LeadershipLost("late")

    task = leading(here, "first", losing)
    with pytest.raises(StoppedError, match="the lease was lost: late; the next run goes on"):
        here.finish(task)


def test_the_record_is_not_overwritten_by_one_who_was_overtaken(world):
    here = world(node("a"))
    first, second = RecordStore(here.living.api, "default"), RecordStore(here.living.api, "default")

    async def write():
        await first.write(ApplyRecord(goal="x"))
        await second.read()
        await second.write(ApplyRecord(goal="y"))
        await first.write(ApplyRecord(goal="z"))

    with pytest.raises(Conflict, match="the object has been modified"):
        here.living.loop.run_until_complete(write())
