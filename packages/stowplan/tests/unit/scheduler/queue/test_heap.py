"""The heap of pods compared with a sorted list; the list of events in flight compared with one that is
never trimmed."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.framework.events import ASSIGNED_POD_ADD
from stowplan.scheduler.queue.active import PodHeap
from stowplan.scheduler.queue.in_flight import InFlight, InFlightEvent
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.testing import a_pod
from support.examples import examples
from support.scheduling.queues import QueueHarness

ROOM = QueueHarness()
INFOS = [ROOM.info(a_pod(f"p{i}")) for i in range(8)]
PODS = [QueuedPod(pod=info, key=info.key, timestamp=0.0, arrival=i) for i, info in enumerate(INFOS)]
ACTION = st.tuples(st.sampled_from(("put", "put", "discard", "pop")), st.integers(0, 7), st.integers(0, 3))


@examples(100)
@given(st.lists(ACTION, max_size=100), st.integers(0, 40))
def test_heap(actions, churn):
    ranks = {}
    heap, plain = PodHeap(lambda queued: ranks[queued.key]), {}
    for _ in range(churn):
        # So many removed entries that the heap is rebuilt.
        for queued in PODS:
            ranks[queued.key] = len(ranks)
            heap.put(queued)
            heap.discard(queued.key)
    for what, i, rank in actions:
        queued = PODS[i]
        if what == "put":
            ranks[queued.key] = rank
            heap.put(queued)
            plain[queued.key] = (rank, queued.arrival, queued)
        elif what == "discard":
            heap.discard(queued.key)
            plain.pop(queued.key, None)
        else:
            first = min(plain.values(), key=lambda entry: entry[:2], default=(0, 0, None))[2]
            assert heap.peek() is first
            assert heap.pop() is first
            if first is not None:
                del plain[first.key]
        assert len(heap) == len(plain)
        assert {queued.key for queued in heap} == plain.keys()


def test_a_pod_goes_back_to_a_rank_that_it_had():
    ranks = [1, 2, 1, 2, 1]
    heap = PodHeap(lambda queued: ranks.pop())
    while ranks:
        heap.put(PODS[0])
    assert heap.pop() is PODS[0]
    assert heap.pop() is None


@examples(50)
@given(st.lists(st.tuples(st.sampled_from(("begin", "end", "events")), st.integers(0, 7), st.integers(0, 700))))
def test_events_in_flight(actions):
    flight, told, begun = InFlight(), [], {}
    for what, i, number in actions:
        uid = PODS[i].pod.uid
        if what == "events":
            # As in the queue: without pods in flight, nothing is recorded.
            for _ in range(number if begun else 0):
                told.append(InFlightEvent(ASSIGNED_POD_ADD, None, len(told)))
                flight.record(told[-1])
        elif what == "begin" and uid not in begun:
            begun[uid] = len(told)
            flight.begin(PODS[i])
        elif what == "end":
            assert (flight.end(uid) is PODS[i]) == (uid in begun)
            begun.pop(uid, None)
        assert bool(flight) == bool(begun)
        for pod in PODS:
            since = flight.since(pod.pod.uid)
            assert since == (told[begun[pod.pod.uid] :] if pod.pod.uid in begun else None)
        kept = len(told) - min(begun.values(), default=len(told))
        counts = dict(flight.counts())
        assert counts.pop("PodPopped", 0) == len(begun)
        if begun:
            assert counts == ({"AssignedPodAdd": kept} if kept else {})
