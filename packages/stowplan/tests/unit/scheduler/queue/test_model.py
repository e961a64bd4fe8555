"""The queue compared with a plain model: after any operations both behave the same.

So no pod is lost, stored twice or left unschedulable when a hint returned Queue, and timers are set in time.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.plugins import QueueSortPlugin
from stowplan.scheduler.framework.events import (
    FORCE_ACTIVATE,
    NODE,
    POD,
    PVC,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    Hint,
    NamedObjects,
    events_of_change,
    on,
)
from stowplan.scheduler.framework.status import Code, Status
from stowplan.testing import a_node, a_pod
from support.examples import times
from support.scheduling.plain_queue import PLACES, PlainQueue, by_priority
from support.scheduling.queues import DEFAULT, QueueHarness, plugin_waiting_for
from support.scheduling.worlds import struct

OTHER = "other"
NAMES = ("a", "b", "c", "d", "e", "f")
SHAPES = ("x", "y")
NODES = (
    (None, a_node("n")),
    (a_node("n"), a_node("n").labels(a="b")),
    (a_node("n"), a_node("n").tainted("t")),
    (a_node("n"), None),
)


class Shortest(QueueSortPlugin):
    """By a label; many pods are equal."""

    name = "Shortest"

    def less(self, a, b):
        return _rank(a.pod) < _rank(b.pod)


def _rank(info):
    return info.labels.get("rank", "")


def shortest(a, b):
    return _rank(a["info"]) < _rank(b["info"])


class World:
    """The state that hints and gates read, apart from the pod."""

    def __init__(self):
        #: (plugin, shape label or name) -> whether the hint returns Queue.
        self.queues = set()
        #: (plugin, label or name) that a gate keeps out.
        self.closed = set()

    def by_shape(self, pod, old, new):
        changed = old if new is None else new
        if changed.metadata.uid == pod.uid:
            return Hint.QUEUE
        return Hint.QUEUE if ("Shared", pod.labels["shape"]) in self.queues else Hint.SKIP

    def by_name(self, pod, old, new):
        if ("Picky", pod.pod.metadata.name) in self.queues:
            return Hint.QUEUE
        return Hint.SKIP

    def by_claim(self, pod, old, new):
        if was_freed(old, new) or f"default/{new.metadata.name}" in claims_of(pod):
            return Hint.QUEUE
        return Hint.SKIP

    def broken(self, pod, old, new):
        if ("Broken", pod.labels["shape"]) in self.queues:
            return 1 // 0
        return Hint.SKIP

    def passes(self, plugin):
        return lambda info: (plugin, info.labels["shape"]) not in self.closed

    def gate(self, plugin):
        def pre_enqueue(info):
            if self.passes(plugin)(info):
                return None
            return Status(Code.Error if plugin == "Door" else Code.UnschedulableAndUnresolvable, ("closed",))

        return pre_enqueue


def claims_of(pod):
    """By an annotation, and by the status, which may change while the pod is unschedulable."""
    names = (*pod.pod.metadata.annotations["other"], pod.pod.status.nominated_node_name)
    return [f"default/{name}" for name in names]


def was_freed(old, new):
    """Concerns all pods."""
    return old is not None and new.metadata.labels.get("freed") == "yes"


def plugins_of(world):
    shared = [
        on(NODE, Action.Add | Action.UpdateNodeLabel, world.by_shape, by_shape=True),
        on(POD, Action.Add | Action.UpdatePodLabel | Action.Delete, world.by_shape, by_shape=True),
    ]
    return {
        "Shared": (shared, None),
        "Picky": (
            [
                on(NODE, Action.Add | Action.Delete, world.by_name),
                on(POD, Action.All, world.by_name),
                on(PVC, Action.Update, world.by_name),
            ],
            None,
        ),
        "Claims": (
            [on(PVC, Action.Add | Action.Update, world.by_claim, named=NamedObjects(claims_of, was_freed))],
            None,
        ),
        "Broken": ([on(NODE, Action.Add, world.broken), on(NODE, Action.Add, lambda p, o, n: Hint.SKIP)], None),
        "Always": ([on(NODE, Action.Add)], None),
        "Deaf": ([], None),
        "Door": ([on(NODE, Action.UpdateNodeTaint), on(POD, Action.UpdatePodLabel)], "Door"),
        "Lock": ([on(NODE, Action.Add, world.by_shape, by_shape=True), on(POD, Action.Delete)], "Lock"),
    }


#: Profile -> its plugins; Always hears less in the second one, where nobody has a Lock.
PROFILES = {
    DEFAULT: ("Shared", "Picky", "Claims", "Broken", "Always", "Deaf", "Door", "Lock"),
    OTHER: ("Shared", "Picky", "Claims", "Deaf", "Door"),
}
REJECTORS = st.sets(
    st.sampled_from(("Shared", "Picky", "Claims", "Claims", "Broken", "Always", "Deaf", "Door")), max_size=2
)


class Machine(RuleBasedStateMachine):
    """Both queues, and the pods of a cluster."""

    @initialize(
        pop=st.booleans(),
        sort=st.sampled_from((None, Shortest)),
        longest=st.sampled_from((10.0, 10.0, 3.5, 0.0)),
        start=st.sampled_from((1000.0, 1000.25)),
        in_a_row=st.sampled_from((0, 1, 2)),
        version=st.sampled_from((V1_36, V1_37)),
    )
    def begin(self, pop, sort, longest, start, in_a_row, version):
        self.version = version
        self.world = World()
        self.off = set()
        known = plugins_of(self.world)
        classes = {
            profile: [
                plugin_waiting_for(
                    n, *known[n][0], **({"pre_enqueue": self.world.gate(n)} if known[n][1] else {"filter": None})
                )
                for n in names
            ]
            for profile, names in PROFILES.items()
        }
        settings_ = {
            "initial_backoff": 1.0, "max_backoff": longest, "max_in_unschedulable": 100.0, "pop_from_backoff": pop,
            "rejected_in_a_row": in_a_row,
        }  # fmt: skip
        self.harness = QueueHarness(profiles=classes, sort=sort, start=start, version=version, **settings_)
        self.queue = self.harness.queue
        #: "namespace/name" -> pod without a node.
        self.store = {}
        self.plain = PlainQueue(
            self._profiles(), now=lambda: self.harness.now, store=self.store, settings=settings_,
            version=version, first=shortest if sort else by_priority,
        )  # fmt: skip
        self.flying = {}
        #: UIDs of pods that were added while known.
        self.heard_twice = set()
        self.uids = 0

    def _profiles(self):
        known = plugins_of(self.world)
        return {
            profile: {
                "gates": [(n, self.world.passes(n)) for n in names if known[n][1] and n not in self.off],
                "events": {
                    n: [(r.event, r.hint) for r in self._registered(known[n][0])] for n in names if n not in self.off
                },
            }
            for profile, names in PROFILES.items()
        }

    def _registered(self, own):
        """Until 1.36, plugins registered for nodes but not for taints get taint updates, too."""
        nodes = [int(r.event.action) for r in own if r.event.resource == NODE]
        if self.version < V1_37 and any(a & 1 for a in nodes) and not any(a & 16 for a in nodes):
            return [*own, on(NODE, Action.UpdateNodeTaint)]
        return own

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _build(self, name, uid, traits):
        pod = a_pod(name).uid(uid).labels(shape=traits["shape"], rank=traits["rank"]).priority(traits["priority"])
        pod.annotations(other=traits["other"])
        pod.scheduler(OTHER if name in ("e", "f") else DEFAULT)
        if traits["nominated"]:
            pod.status(nominatedNodeName=traits["nominated"])
        return pod

    TRAITS = st.fixed_dictionaries(
        {
            "shape": st.sampled_from(SHAPES),
            "rank": st.sampled_from(("1", "2")),
            "priority": st.sampled_from((0, 0, 5)),
            "nominated": st.sampled_from(("", "", "n1", "n2")),
            "other": st.sampled_from(("1", "2", "12", "22")),
        }
    )

    @rule(name=st.sampled_from(NAMES), traits=TRAITS)
    def comes_or_changes(self, name, traits):
        key = f"default/{name}"
        known = self.store.get(key)
        if known is None:
            self.uids += 1
            info = self.harness.add(self._build(name, f"{name}{self.uids}", traits))
            self.store[key] = info.pod
            self.plain.add(info)
        else:
            info = self.harness.update(known, self._build(name, known.metadata.uid, traits))
            self.store[key] = info.pod
            self.plain.update(known, info)

    @rule(name=st.sampled_from(NAMES))
    def goes(self, name):
        pod = self.store.pop(f"default/{name}", None)
        if pod is not None:
            info = self.harness.delete(pod)
            self.plain.delete(info)

    @rule(name=st.sampled_from(NAMES), traits=TRAITS)
    def is_heard_of_twice(self, name, traits):
        """A broken watch may deliver a known pod again."""
        known = self.store.get(f"default/{name}")
        if known is not None:
            self.heard_twice.add(known.metadata.uid)
            info = self.harness.add(self._build(name, known.metadata.uid, traits))
            self.store[info.key] = info.pod
            self.plain.add(info)

    # -- attempts -----------------------------------------------------------------------------------------------------

    @rule(times=st.integers(1, 3))
    def pops(self, times):
        for _ in range(times):
            queued, plain = self.queue.pop(), self.plain.pop()
            assert (queued and queued.pod.uid) == (plain and plain["info"].uid)
            if queued is not None:
                self.flying[queued.pod.uid] = (queued, plain)

    @rule(name=st.sampled_from(NAMES))
    def pops_one(self, name):
        pod = self.store.get(f"default/{name}")
        known = pod and self.plain.find(f"default/{name}")
        if known is None or self.plain.flying(known["info"].uid) is not None:
            return
        self.plain.activate([known["info"]], FORCE_ACTIVATE)
        queued = self.queue.pop_specific(self.harness.info(pod))
        assert (queued is not None) == (known["place"] == "ACTIVE")
        if queued is not None:
            others = [p for p in self.plain.pods if p is not known]
            self.plain.pods = [known]
            assert self.plain.pop() is known
            self.plain.pods = others
            self.flying[queued.pod.uid] = (queued, known)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), how=st.sampled_from(("placed", "rejected", "rejected", "rejected", "error", "late error")))
    def attempt_ends(self, data, how):
        uid = data.draw(st.sampled_from(sorted(self.flying)))
        queued, plain = self.flying.pop(uid)
        pod = self.store.get(queued.pod.key)
        if how != "placed" and (pod is None or pod.metadata.uid != uid):
            how = "placed"
        if how in ("placed", "late error"):
            self.queue.done(uid)
            self.plain.done(uid)
        if how == "placed":
            return
        rejected, pending = (data.draw(REJECTORS), data.draw(REJECTORS)) if how == "rejected" else (set(), set())
        if plain["profile"] == OTHER:
            rejected, pending = rejected - {"Broken", "Always"}, pending - {"Broken", "Always"}
        if not data.draw(st.booleans()):
            pending = set()
        queued.pod = plain["info"] = self.harness.state.pending.get(queued.pod.key)
        queued.unschedulable_plugins, queued.pending_plugins, queued.gating_plugin = set(rejected), set(pending), ""
        plain.update(no=set(rejected), pending=set(pending), gate="")
        if self.plain.returns(plain):
            self.queue.add_unschedulable_if_not_present(queued)
        else:
            with pytest.raises(ValueError, match=rf"Pod {queued.key} is already present in .* queue"):
                self.queue.add_unschedulable_if_not_present(queued)
        node = data.draw(st.sampled_from((None, "", "n3")))
        self.queue.nominate(queued.pod, node)
        self.plain.nominate(queued.pod, node)

    # -- events -------------------------------------------------------------------------------------------------------

    @rule(change=st.sampled_from(NODES), only_low=st.booleans())
    def node_changes(self, change, only_low):
        old, new = (struct(obj) for obj in change)
        check = (lambda info: info.priority <= 0) if only_low else None
        for event in events_of_change(old, new, self.version):
            self.queue.move_all(event, old, new, pre_check=check)
            self.plain.move_all(event, old, new, check)

    @rule(claim=st.sampled_from(("1", "2", "3", "n1", "n2")), how=st.sampled_from(("add", "update", "update", "free")))
    def claim_changes(self, claim, how):
        old, new = ({"metadata": {"name": claim, "namespace": "default", "labels": {}}} for _ in range(2))
        new["metadata"]["labels"] = {"freed": "yes"} if how == "free" else {}
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        old, new = None if how == "add" else struct(old | kind), struct(new | kind)
        for event in events_of_change(old, new, self.version):
            self.queue.move_all(event, old, new)
            self.plain.move_all(event, old, new)

    @rule(how=st.sampled_from(("add", "delete", "label", "other")), name=st.sampled_from(("bound", *NAMES)))
    def other_pod_changes(self, how, name):
        """The pod may have the name of a queued one, and may or may not be the same."""
        known = self.store.get(f"default/{name}")
        uid = known.metadata.uid if known is not None else "elsewhere"
        pod = a_pod(name).uid(uid).on("n")
        changes = {
            "add": (None, pod),
            "delete": (pod, None),
            "label": (pod, a_pod(name).uid(uid).on("n").labels(a="b")),
            "other": (pod, a_pod(name).uid(uid).on("n").annotations(a="b")),
        }
        old, new = (struct(obj) for obj in changes[how])
        for event in events_of_change(old, new, self.version):
            self.queue.move_all(event, old, new)
            self.plain.move_all(event, old, new)

    @rule(names=st.lists(st.sampled_from((*NAMES, "nobody")), max_size=3))
    def are_activated(self, names):
        pods = [self.store.get(f"default/{name}") or a_pod(name).uid("none") for name in names]
        infos = [self.harness.info(pod) for pod in pods]
        self.queue.activate(infos)
        self.plain.activate(infos, FORCE_ACTIVATE)

    # -- state of plugins ----------------------------------------------------------------------------------------------

    @rule(
        plugin=st.sampled_from(("Shared", "Picky", "Broken")),
        whom=st.sampled_from((*SHAPES, *NAMES)),
        yes=st.booleans(),
    )
    def hint_changes(self, plugin, whom, yes):
        (self.world.queues.add if yes else self.world.queues.discard)((plugin, whom))

    @rule(plugin=st.sampled_from(("Door", "Lock")), shape=st.sampled_from(SHAPES), shut=st.booleans())
    def gate_changes(self, plugin, shape, shut):
        (self.world.closed.add if shut else self.world.closed.discard)((plugin, shape))

    @rule(plugin=st.sampled_from(("Always", "Shared", "Lock")), off=st.booleans())
    def plugin_is_switched(self, plugin, off):
        (self.off.add if off else self.off.discard)(plugin)
        for framework in self.harness.frameworks.values():
            (framework.switch_off if off else framework.switch_on)([plugin])
        self.queue.register()
        self.plain.plugins_change(self._profiles())

    @rule(name=st.sampled_from(NAMES), node=st.sampled_from((None, "", "n1", "n2")))
    def is_nominated(self, name, node):
        info = self.harness.info(self.store.get(f"default/{name}") or a_pod(name).uid("none"))
        self.queue.nominate(info, node)
        self.plain.nominate(info, node)

    # -- time ---------------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from((0.0, 0.25, 0.5, 1.0, 1.75, 5.0, 12.0, 30.0, 101.0)))
    def time_passes(self, seconds):
        self.harness.advance(seconds)
        self.plain.flush(UNSCHEDULABLE_TIMEOUT)

    @rule(seconds=st.sampled_from((0.25, 1.0, 12.0)))
    def time_passes_unnoticed(self, seconds):
        self.harness.now += seconds

    @rule()
    def what_is_due_comes(self):
        """Before the next timer nothing is due; at its time something is."""
        due = self.queue.next_flush()
        if due is None or due < self.harness.now:
            return
        if due - 0.125 > self.harness.now:
            self.harness.now = due - 0.125
            before = self._places()
            self.queue.flush()
            self.plain.flush(UNSCHEDULABLE_TIMEOUT)
            assert self._places() == before
            assert {p["info"].key: p["place"] for p in self.plain.pods} == before, "the timer is too late"
        self.harness.now = due
        self.queue.flush()
        self.plain.flush(UNSCHEDULABLE_TIMEOUT)
        later = self.queue.next_flush()
        assert later is None or later > due

    # -- comparison ----------------------------------------------------------------------------------------------------

    def _places(self):
        return {queued.key: queued.place.name for queued in self.queue.pending()}

    @invariant()
    def same_pods(self):
        pending = {queued.key: queued for queued in self.queue.pending()}
        assert len(pending) == len(list(self.queue.pending())), "a pod is stored twice"
        assert pending.keys() == {p["info"].key for p in self.plain.pods}
        for plain in self.plain.pods:
            assert _seen(pending[plain["info"].key]) == _expected(plain)
            assert self.queue.get(plain["info"].key) is pending[plain["info"].key]

    @invariant()
    def pending_pods_are_known_once(self):
        """The queue has the state's pending pods, and no others."""
        pending = self.harness.state.pending
        assert {info.key: info.pod for info in pending.values()} == self.store
        for info in pending.values():
            assert pending.by_uid(info.uid) is pending.get(info.key) is info
        for queued in self.queue.pending():
            newest = pending.by_uid(queued.pod.uid)
            # Parity: of a pod that is added again and then gated, the queued version stays.
            assert queued.pod is newest or (newest is not None and queued.pod.uid in self.heard_twice)

    @invariant()
    def indexes_agree(self):
        if not self.heard_twice:
            assert self.queue.problems() == []

    @invariant()
    def no_pod_is_lost(self):
        for key, pod in self.store.items():
            waits = self.queue.get(key)
            placed = (waits is None or waits.pod.uid != pod.metadata.uid) and pod.metadata.uid not in self.flying
            if placed:
                # Only bound pods may be in no place.
                assert any(move == (pod.metadata.name, "GONE", "Done") for move in self.harness.moves)

    @invariant()
    def same_counts(self):
        gated = sum(bool(p["gate"]) for p in self.plain.of("UNSCHEDULABLE"))
        backoff = len(self.plain.of("BACKOFF", "ERROR_BACKOFF"))
        asleep = len(self.plain.of("UNSCHEDULABLE"))
        active = len(self.plain.of("ACTIVE"))
        assert self.queue.counts() == {
            "active": active, "backoff": backoff, "unschedulable": asleep - gated, "gated": gated
        }  # fmt: skip
        what = "unschedulableEntities" if self.version >= V1_37 else "unschedulablePods"
        assert self.queue.summary() == f"activeQ:{active}; backoffQ:{backoff}; {what}:{asleep}"
        assert +self.queue.incoming == +self.plain.incoming
        assert {k: n for k, n in self.queue.rejected_by.items() if n} == {
            k: n for k, n in self.plain.rejected_by.items() if n
        }
        assert self.queue.scheduling_cycle == self.plain.cycle

    @invariant()
    def same_flights(self):
        events = [what for what in self.plain.flight if what[0] == "event"]
        assert [q.pod.uid for q in self.queue.in_flight()] == [w[1] for w in self.plain.flight if w[0] == "pod"]
        counted = {}
        for _, event, *_ in events:
            label = event.custom_label or event.label
            counted[label] = counted.get(label, 0) + 1
        if flying := len(self.plain.flight) - len(events):
            counted["PodPopped"] = flying
        assert self.queue.in_flight_events() == counted

    @invariant()
    def same_nominations(self):
        nominator = self.harness.state.nominator
        found = {node: [info.uid for info in nominator.on(node)] for node in nominator.nodes()}
        expected = {}
        for uid, node in self.plain.nominated:
            expected.setdefault(node, []).append(uid)
        assert found == expected

    @invariant()
    def told_places_are_true(self):
        told = {name: place for name, place, _ in self.harness.moves}
        for name in told:
            queued = self.queue.get(f"default/{name}")
            if queued is not None and told[name] in PLACES:
                assert told[name] == queued.place.name


def _seen(queued):
    return {
        "uid": queued.pod.uid, "pod": queued.pod.pod, "place": queued.place.name, "timestamp": queued.timestamp,
        "attempts": queued.attempts, "rejections": queued.unschedulable_count,
        "errors": queued.consecutive_errors_count,
        "flushed": queued.was_flushed, "initial": queued.initial_attempt_timestamp,
        "no": queued.unschedulable_plugins, "pending": queued.pending_plugins, "gate": queued.gating_plugin,
        "arrival order": None,
    }  # fmt: skip


def _expected(plain):
    kept = ("place", "timestamp", "attempts", "rejections", "errors", "flushed", "initial", "no", "pending", "gate")
    return {
        "uid": plain["info"].uid, "pod": plain["info"].pod, **{k: plain[k] for k in kept}, "arrival order": None
    }  # fmt: skip


def test_the_queue_agrees_with_the_model():
    run_state_machine_as_test(Machine, settings=settings(max_examples=times(60), stateful_step_count=60, deadline=None))
