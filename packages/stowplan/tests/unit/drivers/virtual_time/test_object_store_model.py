"""The store compared with a plain dict, and with the embedded API server, which is complete."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.api_errors import AlreadyExists, ApiError, Conflict, NotFound
from stowplan.kube.api.decode import convert, to_dict
from stowplan.kube.api.types import Pod, PodCondition
from stowplan.scheduler.engine.pod_status import status_patch
from stowplan.scheduler.framework.requests import Bind, Create, Delete, Patch, Update
from support.api.embedded import Api, binding
from support.api.embedded import pod as pod_dict
from support.examples import examples

NOW = 1_800_000_000.0
names = st.sampled_from(("a", "b", "c"))
versions = st.sampled_from(("", "same", "older"))

operations = st.one_of(
    st.tuples(st.just("create"), names, st.just("")),
    st.tuples(st.just("update"), names, versions),
    st.tuples(st.just("label"), names, st.sampled_from(("", "x", "y"))),
    st.tuples(st.just("bind"), names, st.sampled_from(("", "same", "other"))),
    st.tuples(st.just("delete"), names, versions),
)


class Model:
    """Name -> node and label of each pod, and the number of its writes."""

    def __init__(self):
        self.pods = {}
        self.writes = 0

    def apply(self, what, name, detail):
        """The expected result of a request: an error class, or whether it writes."""
        if what == "create":
            if name in self.pods:
                return AlreadyExists
            self.pods[name] = ["", ""]
        elif name not in self.pods:
            return NotFound
        elif detail in ("older", "other"):
            return Conflict
        elif what == "delete":
            del self.pods[name]
            # It is marked first.
            self.writes += 1
        elif what == "bind":
            if self.pods[name][0]:
                return Conflict
            self.pods[name][0] = "n1"
        elif what == "update":
            return False
        else:
            if self.pods[name][1] == detail:
                return False
            self.pods[name][1] = detail
        self.writes += 1
        return True


def request_of(store, what, name, detail):
    where = {"namespace": "default", "name": name}
    if what == "create":
        return Create(obj=convert({"metadata": {"name": name}}, Pod))
    try:
        metadata = store.get(Pod, **where).metadata
        version, uid = metadata.resource_version, metadata.uid
    except NotFound:
        version, uid = "1", "u"
    wanted = {"": "", "same": version, "older": "0", "other": ""}.get(detail, "")
    if what == "update":
        try:
            obj = to_dict(store.get(Pod, **where))
        except NotFound:
            obj = {"metadata": where}
        return Update(obj=convert({**obj, "metadata": {**obj["metadata"], "resourceVersion": wanted}}, Pod))
    if what == "label":
        return Patch(kind=Pod, **where, body={"metadata": {"labels": {"x": detail or None}}}, type_="merge")
    if what == "bind":
        return Bind(**where, uid={"same": uid, "other": "other"}.get(detail, ""), node="n1")
    return Delete(kind=Pod, **where, resource_version=wanted)


@given(st.lists(operations, max_size=25))
def test_a_store_is_a_dict_with_versions(script):
    store, model = ObjectStore(), Model()
    seen = {}
    for what, name, detail in script:
        request = request_of(store, what, name, detail)
        expected = model.apply(what, name, detail)
        if not isinstance(expected, bool):
            with pytest.raises(expected, match=f'"{name}"'):
                store.write(request, NOW)
        else:
            changes = store.write(request, NOW)
            assert any(change.old is not change.new for change in changes) is expected
            for change in changes:
                watched(seen, change)
        found = {one.metadata.name: [one.spec.node_name, one.metadata.labels.get("x", "")] for one in store.list(Pod)}
        assert found == model.pods
        assert store.version == model.writes
        assert seen == {one.metadata.name: one for one in store.list(Pod)}


def watched(seen, change):
    """Check that a change continues from what the watcher knows."""
    name = (change.new or change.old).metadata.name
    assert change.old is seen.get(name) or change.old is change.new
    if change.new is None:
        del seen[name]
    else:
        if change.old is not change.new and change.old is not None:
            assert int(change.new.metadata.resource_version) > int(change.old.metadata.resource_version)
        seen[name] = change.new


# -- compared with the embedded API ------------------------------------------------------------------------------------

conditions = st.builds(
    PodCondition,
    type=st.sampled_from(("PodScheduled", "Ready", "DisruptionTarget")),
    status=st.sampled_from(("True", "False")),
    reason=st.sampled_from(("", "R", "S")),
    message=st.sampled_from(("", "m")),
    last_transition_time=st.sampled_from(("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")),
    # Never 0: an API server fills in the known generation, a rule of the kind that the store omits.
    observed_generation=st.integers(1, 2),
)
steps = st.one_of(
    st.tuples(st.just("status"), conditions, st.sampled_from((None, "", "n1", "n2"))),
    st.tuples(st.just("bind"), st.sampled_from(("n1", "n2")), st.none()),
    st.tuples(st.just("label"), st.sampled_from(("x", "y", None)), st.none()),
    st.tuples(st.just("forget"), st.none(), st.none()),
)


class Both:
    """One pod in both stores."""

    def __init__(self):
        self.api = Api()
        self.api.create("pods", pod_dict("p", labels={"k": "v"}))
        self.store = ObjectStore()
        self.store.write(Create(obj=self.theirs()), NOW)
        #: The scheduler's view of its status, which may be outdated.
        self.known = self.theirs().status

    def theirs(self):
        return convert(self.api.get("pods", "default", "p"), Pod)

    def ours(self):
        return self.store.get(Pod, "default", "p")

    def status(self, condition, nominated):
        body = status_patch(self.known, conditions=(condition,), nominated_node_name=nominated)
        if body is not None:
            self.patch(body, "strategic", "status")

    def bind(self, node, _):
        request = Bind(namespace="default", name="p", uid="", node=node)
        self.both(
            lambda: self.api.registry.bind("default", "p", binding("p", node)), lambda: self.store.write(request, NOW)
        )

    def label(self, value, _):
        self.patch({"metadata": {"labels": {"x": value}}}, "merge", "")

    def forget(self, *_):
        """Update the scheduler's view from the API server."""
        self.known = self.theirs().status

    def patch(self, body, type_, subresource):
        request = Patch(kind=Pod, namespace="default", name="p", body=body, type_=type_, subresource=subresource)
        self.both(
            lambda: self.api.patch("pods", "default", "p", body, kind=type_, subresource=subresource),
            lambda: self.store.write(request, NOW),
        )

    def both(self, theirs, ours):
        ends = []
        for run in (theirs, ours):
            try:
                run()
                ends.append(None)
            except ApiError as error:
                ends.append((type(error), str(error)))
        assert ends[0] == ends[1]


@examples(60)
@given(st.lists(steps, max_size=8))
def test_agrees_with_the_embedded_api_server(script):
    both = Both()
    for step, first, second in script:
        getattr(both, step)(first, second)
        theirs, ours = both.theirs(), both.ours()
        assert ours.status == theirs.status
        assert ours.spec == theirs.spec
        assert ours.metadata.labels == theirs.metadata.labels
