"""With any latencies, requests and events of one object keep their order, and events arrive as written."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.drivers.virtual_time.driver import VirtualTime
from stowplan.drivers.virtual_time.latency import Latency
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import Pod
from stowplan.scheduler.engine.inputs import Started, Tick
from stowplan.scheduler.framework.requests import Bind, Create, Delete, Patch, Read
from stowplan.testing import a_pod
from support.examples import examples
from support.simulate.scripted_engine import ScriptedEngine


class Watched(ObjectStore):
    """Records the requests with their times, in order of arrival."""

    def __init__(self):
        super().__init__()
        self.arrived = []

    def write(self, request, now):
        self.arrived.append((now, request))
        return super().write(request, now)

    def delete(self, request, now, grace=0.0):
        self.arrived.append((now, request))
        return super().delete(request, now, grace)


def _create(name):
    return Create(obj=convert(a_pod(name, "default").obj(), Pod))


def _patch(name, number):
    body = {"metadata": {"labels": {"x": str(number)}}}
    return Patch(kind=Pod, namespace="default", name=name, body=body, type_="merge")


names = st.sampled_from("abc")
requests = st.one_of(
    st.builds(_create, names),
    st.builds(_patch, names, st.integers()),
    st.builds(_patch, names, st.integers()),
    st.builds(lambda name: Delete(kind=Pod, namespace="default", name=name), names),
    st.builds(lambda name: Bind(namespace="default", name=name, uid="", node="n"), names),
    st.builds(lambda name: Read(kind=Pod, namespace="default", name=name), names),
)
seconds = st.one_of(st.just(0.0), st.lists(st.sampled_from((0.0, 0.25, 1.0, 3.0)), min_size=1, max_size=9))


def drawn(table):
    """Repeat the seconds endlessly; no seconds mean a plain number, as callers write it."""
    if not table:
        return 0.0
    position = iter(range(1_000_000))
    return lambda about: table[next(position) % len(table)]


@examples(150)
@given(st.lists(st.lists(requests, max_size=4), max_size=12), seconds, seconds, seconds)
def test_requests_and_events_of_one_object_keep_their_order(steps, there, back, news):
    engine, store = ScriptedEngine(), Watched()
    latency = Latency(requests=drawn(there), answers=drawn(back), watches=drawn(news))
    time = VirtualTime(engine, store, latency=latency)
    engine.on(Started, *(steps[0] if steps else ()))
    for i, actions in enumerate(steps[1:], 1):
        engine.on(Tick, *actions)
        time.at(i / 2, Tick())
    time.run()
    sent = [action for actions in steps for action in actions]
    answered = {id(action): at for at, action, _ in engine.answers}
    assert len(engine.answers) == len(sent)
    assert time.under_way == 0
    for subject in {action.subject for action in sent}:
        about = [action for action in sent if action.subject == subject]
        # No request waits for a binding.
        others = [action for action in about if not isinstance(action, Bind)]
        assert _ids(one for _, one, _ in engine.answers if id(one) in _ids(others)) == _ids(others)
        for at, request in store.arrived:
            before = about[: _ids(about).index(id(request))] if id(request) in _ids(about) else []
            assert all(answered[id(one)] <= at for one in before if not isinstance(one, Bind))
    told = [new for _, _, changes in engine.news for _, new in changes if new is not None]
    versions = [int(new.metadata.resource_version) for new in told]
    assert versions == sorted(versions)
    assert sum(len(changes) for _, _, changes in engine.news) == store.version


def _ids(actions):
    return [id(one) for one in actions]
