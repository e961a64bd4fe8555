"""`stowplan.Cluster`, the public Python API: inputs, answers, and changes."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stowplan
from stowplan.scheduler.cluster.transaction import CopiedAtBeginning, TransactionError
from stowplan.scheduler.framework.interface import FilterPlugin, PermitPlugin, QueueSortPlugin, ReservePlugin
from stowplan.scheduler.framework.status import Code, Status
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.scheduling.dump import exact
from support.scheduling.worlds import PLACEABLE, clusters, pods

CPU_4 = {"cpu": "4"}


@pytest.fixture
def cluster():
    return stowplan.Cluster([a_node("a").allocatable(**CPU_4).obj(), a_node("b").allocatable(cpu="2").obj()])


def nodes_of(decisions):
    return [decision.node_name for decision in decisions]


def test_explain_changes_nothing(cluster):
    pod = a_pod("big").requests(cpu="3").obj()
    first = cluster.explain(pod).to_dict()
    assert first["feasible"] == ["a"]
    assert cluster.explain(pod).to_dict() == first
    assert cluster.pending() == []


def test_schedule_places_in_order_and_applies_each_placement(cluster):
    decisions = cluster.schedule([a_pod(name).requests(cpu="2").obj() for name in ("p", "q", "r", "s")])
    assert sorted(nodes_of(decisions)[:3]) == ["a", "a", "b"]
    assert nodes_of(decisions)[3] == ""
    assert decisions[3].message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_pending_pods_are_scheduled_by_priority_then_name(cluster):
    for name, priority in (("z", 5), ("b", 1), ("a", 1)):
        cluster.add(a_pod(name).requests(cpu="1").priority(priority).obj())
    assert [decision.pod.key for decision in cluster.schedule()] == ["default/z", "default/b", "default/a"]
    assert cluster.pending() == []
    again = stowplan.Cluster([a_pod(name).obj() for name in ("b", "c", "a")])
    assert again.pending() == ["default/a", "default/b", "default/c"], "an initial list has the order of an API server"


def test_a_placed_pod_is_evaluated_as_if_it_were_pending(cluster):
    cluster.add(a_pod("big").requests(cpu="3").on("a").obj())
    verdict = cluster.explain("default/big")
    assert (verdict.current_node, verdict.node_name) == ("a", "a")
    assert cluster.explain(a_pod("other").requests(cpu="3").obj()).node_name == ""


def test_pods_without_a_namespace_are_in_default(cluster):
    cluster.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare"}, "spec": {"containers": []}})
    assert cluster.explain("bare").key == cluster.explain("default/bare").key == "default/bare"


def test_a_finished_pod_uses_no_resources(cluster):
    cluster.add(a_pod("job").requests(cpu="4").on("a").obj())
    cluster.add(a_pod("job").requests(cpu="4").on("a").phase("Succeeded").obj())
    assert cluster.explain(a_pod("next").requests(cpu="4").obj()).node_name == "a"
    with pytest.raises(stowplan.ClusterError, match='pod "default/job" not found'):
        cluster.explain("job")


def test_a_pod_of_the_same_name_replaces_the_old_one(cluster):
    cluster.add(a_pod("web").uid("1").requests(cpu="4").on("a").obj())
    cluster.add(a_pod("web").uid("2").requests(cpu="1").obj())
    assert cluster.pending() == ["default/web"]
    assert cluster.explain(a_pod("next").requests(cpu="4").obj()).node_name == "a"


def test_removed_objects_are_gone(cluster):
    cluster.remove(a_node("a").obj())
    cluster.remove(a_node("never there").obj())
    assert cluster.explain(a_pod().requests(cpu="3").obj()).message == "0/1 nodes are available: 1 Insufficient cpu."


def test_unread_kinds_are_ignored(cluster):
    cluster.add({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}})
    assert cluster.explain(a_pod().obj()).feasible.sum() == 2


def test_an_invalid_object_is_reported_with_its_field_and_changes_nothing(cluster):
    with pytest.raises(stowplan.ClusterError, match=r'Pod "shop/web": spec.containers\[0\].resources.requests\[cpu\]'):
        cluster.add(a_pod("web", "shop").requests(cpu="1x").obj())
    assert cluster.pending() == []


def test_a_pod_of_another_scheduler_is_refused_by_name(cluster):
    with pytest.raises(stowplan.ClusterError, match='no profile for scheduler name "other"'):
        cluster.explain(a_pod().scheduler("other").obj())


def test_configuration_errors_match_the_reference():
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "parallelism": -1}
    with pytest.raises(
        stowplan.ConfigError, match="parallelism: Invalid value: -1: should be an integer value greater"
    ):
        stowplan.Cluster([], config=config)


def test_victims_are_removed_and_the_preemptor_is_placed():
    cluster = stowplan.Cluster(
        [a_node("n").allocatable(cpu="1").obj(), a_pod("low").requests(cpu="1").priority(1).on("n").obj()]
    )
    assert nodes_of(cluster.schedule([a_pod("high").requests(cpu="1").priority(9).obj()])) == ["n"]
    with pytest.raises(stowplan.ClusterError, match='pod "default/low" not found'):
        cluster.pod("low")
    (refused,) = cluster.schedule([a_pod("middle").requests(cpu="1").priority(5).obj()])
    assert refused.node_name == ""
    assert "1 Insufficient cpu" in refused.message


def test_victims_without_a_uid_leave_too():
    """As in manifests written by hand: they are known by their names."""
    low, high = (a_pod(name).requests(cpu="1").priority(priority) for name, priority in (("low", 1), ("high", 9)))
    objects = [a_node("n").allocatable(cpu="1").obj(), low.on("n").obj(), high.obj()]
    for one in objects[1:]:
        del one["metadata"]["uid"]
    cluster = stowplan.Cluster(objects)
    assert nodes_of(cluster.schedule()) == ["n"]
    assert [info.key for info in cluster.state.placed_pods()] == ["default/high"]


def test_a_pod_that_waits_on_permit_continues_when_another_allows_it():
    """Both are placed in one call, as the first one only waited for the second."""

    class Both(PermitPlugin):
        name = "Both"

        def permit(self, state, pod, node_name):
            waiting = list(self.handle.waiting_pods)
            for other in waiting:
                other.allow(self.name)
            return (None, 0.0) if waiting else (Status(Code.Wait, ()), 60.0)

    config = {**CONFIG, "profiles": [profile("default-scheduler", "Both")]}
    cluster = stowplan.Cluster([a_node("n").obj(), a_pod("a").obj(), a_pod("b").obj()], config, plugins=[Both])
    assert nodes_of(cluster.schedule()) == ["n", "n"]


def test_a_permit_plugin_that_never_settles_does_not_loop_forever():
    class Moody(PermitPlugin):
        name = "Moody"
        asked = 0

        def permit(self, state, pod, node_name):
            Moody.asked += 1
            return Status(Code.Unschedulable, (f"no, for the {Moody.asked}. time",)), 0.0

    config = {**CONFIG, "profiles": [profile("default-scheduler", "Moody")]}
    cluster = stowplan.Cluster([a_node("n").obj(), a_pod("a").obj()], config, plugins=[Moody])
    assert nodes_of(cluster.schedule()) == [""]


def test_a_random_source_breaks_ties():
    def chosen(seed):
        nodes = [a_node(f"n{i}").obj() for i in range(20)]
        return nodes_of(stowplan.Cluster(nodes, random=random.Random(seed)).schedule([a_pod().obj()]))

    assert chosen(1) == chosen(1)
    assert len({chosen(seed)[0] for seed in range(10)}) > 1
    assert nodes_of(stowplan.Cluster([a_node(f"n{i}").obj() for i in range(20)]).schedule([a_pod().obj()])) == ["n0"]


# -- transactions


def restored(cluster):
    """Everything that leaving a transaction restores."""
    return {
        **exact(cluster.state),
        "pending": cluster.pending(),
        "names": cluster.state.dump()["pod names"],
        "next node": cluster.algorithm.sampling.start,
    }


STEPS = ("schedule", "schedule all", "add", "bind", "remove", "evict", "place", "node", "remove node", "inner", "end")


def take_steps(cluster, steps, names):
    """Random steps; `inner` begins a transaction, which ends after some more, with `commit` for some of them."""
    while steps:
        what, which, pod = steps.pop(0)
        known = sorted(info.key for info in (*cluster.state.placed_pods(), *cluster.state.pending.values()))
        placed = sorted(info.key for info in cluster.state.placed_pods())
        node = names[which % len(names)]
        if what == "schedule":
            cluster.schedule([pod])
        elif what == "schedule all":
            cluster.schedule()
        elif what == "add":
            cluster.add(pod)
        elif what == "bind":
            cluster.add({**pod, "spec": {**pod["spec"], "nodeName": node}})
        elif what == "remove" and known:
            cluster.remove(cluster.pod(known[which % len(known)]).pod)
        elif what == "evict" and placed:
            cluster.evict(placed[which % len(placed)])
        elif what == "place" and cluster.pending() and node in cluster.state.table.row_of:
            cluster.place(cluster.pending()[0], node)
        elif what == "node":
            cluster.add(a_node(node).zone("new").allocatable(cpu=str(which)).obj())
        elif what == "remove node":
            cluster.remove(a_node(node).obj())
        elif what == "inner":
            with cluster.transaction() as inner:
                take_steps(cluster, steps, names)
                if which % 2:
                    inner.commit()
        elif what == "end":
            return


@examples(80)
@given(
    clusters(most_nodes=4, most_pods=8),
    st.lists(pods(names=[f"w{i}" for i in range(5)], special=PLACEABLE), max_size=4),
    st.lists(
        st.tuples(
            st.sampled_from(STEPS), st.integers(0, 9), pods(names=[f"w{i}" for i in range(6)], special=PLACEABLE)
        ),
        max_size=12,
    ),
)
def test_leaving_a_transaction_restores_everything(objects, waiting, steps):
    nodes, placed, others = objects

    def made():
        return stowplan.Cluster(
            [*nodes, *placed, *others, *waiting],
            {**CONFIG, "percentageOfNodesToScore": 1},
            random=random.Random(1),
        )

    cluster, fresh = made(), made()
    before = restored(cluster)
    with cluster.transaction():
        take_steps(cluster, list(steps), [f"n{i}" for i in range(5)])
    after = restored(cluster)
    for part in before.keys() - {"dump", "matches", "held"}:
        assert after[part] == before[part], part
    asked = a_pod("asked").requests(cpu="500m").priority(50).obj()
    assert cluster.explain(asked).to_dict() == fresh.explain(asked).to_dict()
    assert [(d.node_name, d.message) for d in cluster.schedule()] == [
        (d.node_name, d.message) for d in fresh.schedule()
    ]


@examples(60)
@given(clusters(most_nodes=4, most_pods=8), st.lists(st.integers(0, 7), max_size=4), st.data())
def test_a_dump_that_is_loaded_is_the_same_cluster(objects, gone, data):
    nodes, placed, others = objects
    cluster = stowplan.Cluster([*nodes, *placed, *others, *data.draw(st.lists(pods("waits"), max_size=1))])
    for which in gone:
        # So that there are free rows, and pods are listed in an order different from that of their creation.
        if which < 2:
            cluster.remove(a_node(f"n{which}").obj())
        elif cluster.state.placed_pods():
            cluster.evict(cluster.state.placed_pods()[which % len(cluster.state.placed_pods())].key)
    cluster.schedule()
    other = stowplan.Cluster([a_node("old").obj(), a_pod("old").on("old").obj(), a_pod("older").obj()])
    dumped = cluster.state.dump()
    other.state.load(dumped)
    assert other.state.dump() == dumped
    high = data.draw(pods("high", special=PLACEABLE))
    high["spec"]["priority"] = 1000
    assert other.explain(high).to_dict() == cluster.explain(high).to_dict(), "including victims"
    assert [d.node_name for d in other.schedule([high])] == [d.node_name for d in cluster.schedule([high])]


def test_a_committed_transaction_is_kept(cluster):
    with cluster.transaction() as transaction:
        cluster.schedule([a_pod("p").obj()])
        transaction.commit()
    assert cluster.pod("p").node_name == "a"


def test_misused_transactions_are_refused(cluster):
    transaction = cluster.transaction()
    with pytest.raises(TransactionError, match="has not begun: use it in a with statement"):
        transaction.commit()
    with transaction:
        inner = cluster.transaction()
        inner.__enter__()
        with pytest.raises(TransactionError, match="leave the inner one first"):
            transaction.commit()
        with pytest.raises(TransactionError, match="a dump cannot be loaded while a transaction is open"):
            cluster.state.load({})
        inner.rollback()
    with pytest.raises(TransactionError, match="has ended: begin another one"):
        transaction.changed_nodes()
    with pytest.raises(TransactionError, match="once only"), transaction:
        pass


@pytest.mark.parametrize(
    ("pod", "node", "message"),
    [
        pytest.param("waits", "c", 'pod "default/waits" cannot be placed: node "c" not found', id="unknown node"),
        pytest.param("runs", "b", 'pod "default/runs" .* is on node "a"; evict it first', id="placed already"),
    ],
)
def test_an_unschedulable_pod(cluster, pod, node, message):
    cluster.add(a_pod("waits").obj())
    cluster.add(a_pod("runs").on("a").obj())
    with pytest.raises(stowplan.ClusterError, match=message):
        cluster.place(pod, node)


def test_the_random_source_continues_after_loading():
    nodes = [a_node(f"n{i}").obj() for i in range(50)]
    asked, left = (stowplan.Cluster(nodes, random=random.Random(7)) for _ in range(2))
    with asked.transaction():
        asked.schedule([a_pod(f"p{i}").obj() for i in range(5)])
    pods_ = [a_pod(f"q{i}").obj() for i in range(5)]
    assert nodes_of(asked.schedule(pods_)) == nodes_of(left.schedule(pods_))


# -- QueueSort, Reserve and Permit

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def profile(name, *enabled, **points):
    enabled = {"multiPoint": {"enabled": [{"name": plugin} for plugin in enabled]}} if enabled else {}
    return {"schedulerName": name, "plugins": {**enabled, **points}}


class ByName(QueueSortPlugin):
    name = "ByName"

    def less(self, a, b):
        return a.key < b.key


def test_pending_pods_are_scheduled_in_queue_sort_order():
    only = {"queueSort": {"enabled": [{"name": "ByName"}], "disabled": [{"name": "*"}]}}
    config = {**CONFIG, "profiles": [profile("default-scheduler", **only), profile("other", **only)]}
    cluster = stowplan.Cluster([a_node("n").obj()], config, plugins=[ByName])
    for name, scheduler, priority in (("c", "other", 9), ("a", "other", 1), ("b", "default-scheduler", 5)):
        cluster.add(a_pod(name).scheduler(scheduler).priority(priority).obj())
    assert [decision.pod.key for decision in cluster.schedule()] == ["default/a", "default/b", "default/c"]


def test_a_failing_queue_sort_keeps_pods_in_creation_order():
    class Broken(QueueSortPlugin):
        name = "Broken"

        def less(self, a, b):
            raise ValueError("no idea")

    only = {"queueSort": {"enabled": [{"name": "Broken"}], "disabled": [{"name": "*"}]}}
    config = {**CONFIG, "profiles": [profile("default-scheduler", **only)]}
    cluster = stowplan.Cluster([a_node("n").obj()], config, plugins=[Broken])
    for name in ("c", "a", "b"):
        cluster.add(a_pod(name).obj())
    assert [decision.pod.key for decision in cluster.schedule()] == ["default/c", "default/a", "default/b"]


class Seats(FilterPlugin, ReservePlugin, PermitPlugin):
    """Counts the pods that it reserved a seat for, by node."""

    name = "Seats"

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.taken = {}
        self.unreserved = []
        Seats.built = self

    def filter(self, state, pod, nodes):
        return None

    def reserve(self, state, pod, node_name):
        self.taken[node_name] = self.taken.get(node_name, 0) + 1
        return Status(Code.Unschedulable, ("no seat left",)) if "standing" in pod.labels else None

    def unreserve(self, state, pod, node_name):
        self.unreserved.append(pod.pod.metadata.name)
        self.taken[node_name] = self.taken.get(node_name, 0) - 1

    def permit(self, state, pod, node_name):
        if "waits" in pod.labels:
            return Status(Code.Wait, ("not yet",)), 30
        return (Status(Code.Unschedulable, ("not today",)) if "unwanted" in pod.labels else None), 0


class RegisteredSeats(Seats):
    """The same, as a participant of transactions."""

    def __init__(self, args, handle):
        super().__init__(args, handle)
        handle.register_participant(self.name, CopiedAtBeginning(lambda: dict(self.taken), self.load))

    def load(self, taken):
        self.taken = dict(taken)


def seated(plugin=Seats):
    config = {**CONFIG, "profiles": [profile("default-scheduler", "Seats")]}
    return stowplan.Cluster([a_node("n").obj()], config, plugins=[plugin]), Seats.built


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("standing", "no seat left"),
        ("unwanted", "not today"),
        ("waits", "rejected due to timeout after waiting 30s at plugin Seats"),
    ],
)
def test_a_pod_refused_by_reserve_or_permit_is_not_placed(label, reason):
    cluster, seats = seated()
    cluster.add(a_pod("p").labels({label: "yes"}).obj())
    (decision,) = cluster.schedule()
    assert decision.node_name == ""
    assert decision.message == f"0/1 nodes are available: 1 {reason}."
    assert cluster.pending() == ["default/p"]
    assert cluster.pod("p").node_name == ""
    assert cluster.state.sizes() == {"nodes": 1, "pods": 0, "assumed_pods": 0}
    assert seats.taken == {"n": 0}
    # A plugin without registered events is called again when the pod's own status has changed.
    assert set(seats.unreserved) == {"p"}
    assert nodes_of(cluster.schedule([a_pod("q").obj()])) == ["n"]


@pytest.mark.parametrize("plugin", [Seats, RegisteredSeats])
def test_reservations_inside_a_transaction_are_undone(plugin):
    cluster, seats = seated(plugin)
    cluster.schedule([a_pod("p").obj()])
    with cluster.transaction():
        cluster.schedule([a_pod("q").obj()])
        with cluster.transaction() as inner:
            cluster.schedule([a_pod("r").obj()])
            inner.commit()
        assert seats.taken == {"n": 3}
    assert seats.taken == {"n": 1}
    assert seats.unreserved == ["r", "q"]


def test_a_registered_participant_is_dumped_and_loaded():
    cluster, seats = seated(RegisteredSeats)
    cluster.schedule([a_pod("p").obj()])
    dumped = cluster.state.dump()
    assert dumped["default-scheduler/Seats"] == {"n": 1}
    cluster.schedule([a_pod("q").obj()])
    cluster.state.load(dumped)
    assert seats.taken == {"n": 1}
    assert cluster.state.dump() == dumped
    with pytest.raises(
        TransactionError, match="load it into a cluster with the same profiles, plugins and source of randomness"
    ):
        stowplan.Cluster([]).state.load(dumped)


def test_a_new_pod_replaces_one_of_the_same_name_from_any_source():
    cluster = stowplan.Cluster([a_node("n1").obj(), a_node("n2").obj(), a_pod("a").uid("old").on("n1").obj()])
    cluster.place(a_pod("a").uid("new").obj(), "n2")
    assert [info.uid for info in cluster.state.placed_pods()] == ["new"]
    (decision,) = cluster.schedule([a_pod("a").uid("newest").obj()])
    assert decision.node_name
    assert [info.uid for info in cluster.state.placed_pods()] == ["newest"]


def test_another_configuration_keeps_the_order_of_nodes_and_pods():
    """Of nodes with equal scores the first one is taken, and pods are tried in the order in which they came."""
    cluster = stowplan.Cluster([a_node(name).obj() for name in ("b", "c")])
    cluster.add(a_node("a").obj())
    for name in ("z", "y"):
        cluster.add(a_pod(name).obj())
    cluster.add(a_pod("gone").on("nowhere").obj())
    copy = cluster.reconfigured(cluster.config)
    assert list(copy.state.table.row_of) == ["b", "c", "a"]
    assert copy.pending() == ["default/z", "default/y"]
    assert copy.pod("default/gone").node_name == "nowhere"
    cluster.place("default/z", "c")
    assert cluster.reconfigured(cluster.config).pod("default/z").node_name == "c"
