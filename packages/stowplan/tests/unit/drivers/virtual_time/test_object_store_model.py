"""The store compared with the embedded API server, which is complete."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.decode import convert, to_dict
from stowplan.kube.api.types import Pod, PodCondition
from stowplan.scheduler.engine.statuses import status_patch
from stowplan.scheduler.framework.requests import Bind, Create, Delete, Patch, Update
from stowplan_cluster.apiserver.deletion import DeleteOptions
from support.api.embedded import Api, binding
from support.api.embedded import pod as pod_dict
from support.examples import examples


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
FINALIZERS = ["example.com/a"]
#: Preconditions of a request; it meets all but the last two.
WANTED = ("", "uid", "version", "other uid", "other version")
steps = st.one_of(
    st.tuples(st.just("status"), conditions, st.sampled_from((None, "", "n1", "n2"))),
    st.tuples(st.just("phase"), st.sampled_from(("Running", "Succeeded")), st.none()),
    st.tuples(st.just("bind"), st.sampled_from(("n1", "n2")), st.sampled_from(("", "uid", "other uid"))),
    st.tuples(st.just("label"), st.sampled_from(("x", "y", None)), st.sampled_from(WANTED)),
    st.tuples(st.just("update"), st.sampled_from(("x", "y")), st.sampled_from(WANTED)),
    st.tuples(st.just("ungate"), st.none(), st.none()),
    st.tuples(st.just("finalizers"), st.sampled_from(([], FINALIZERS)), st.none()),
    st.tuples(st.just("delete"), st.sampled_from((0, 5, 20, 30, None)), st.sampled_from(WANTED)),
    st.tuples(st.just("wait"), st.sampled_from((1, 10)), st.none()),
    st.tuples(st.just("forget"), st.none(), st.none()),
    st.tuples(st.just("create"), st.none(), st.none()),
)


class Both:
    """One pod in both stores."""

    def __init__(self, gates):
        self.api, self.store, self.seen = Api(), ObjectStore(), {}
        self.made = pod_dict("p", labels={"k": "v"}, schedulingGates=[{"name": one} for one in gates])
        self.create()
        #: The scheduler's view of its status, which may be outdated.
        self.known = self.theirs().status

    def create(self, *_):
        self.both(lambda _: self.api.create("pods", self.made), lambda _: Create(obj=self.theirs()), of_pod=False)

    def theirs(self):
        return convert(self.api.get("pods", "default", "p"), Pod)

    def ours(self):
        return self.store.get(Pod, "default", "p")

    @property
    def is_terminating(self):
        return any(one.metadata.deletion_timestamp for one in self.store.list(Pod))

    def status(self, condition, nominated):
        body = status_patch(self.known, conditions=(condition,), nominated_node_name=nominated)
        if body is not None:
            self.patch(body, "strategic", "status")

    def phase(self, phase, _):
        self.patch({"status": {"phase": phase}}, "merge", "status")

    def bind(self, node, wanted):
        self.both(
            lambda pod: self.api.registry.bind("default", "p", binding("p", node, **metadata_of(pod, wanted))),
            lambda pod: Bind(namespace="default", name="p", uid=metadata_of(pod, wanted).get("uid", ""), node=node),
        )

    def label(self, value, wanted):
        self.patch({"metadata": {"labels": {"x": value}}}, wanted=wanted)

    def update(self, value, wanted):
        def updated(pod):
            obj = to_dict(pod)
            changed = {"labels": {"x": value}, "resourceVersion": "", **metadata_of(pod, wanted)}
            return {**obj, "metadata": {**obj["metadata"], **changed}}

        self.both(lambda pod: self.api.update("pods", updated(pod)), lambda pod: Update(obj=convert(updated(pod), Pod)))

    def patch_status(self, status, _):
        self.patch({"status": status}, "strategic", "status")

    def ungate(self, *_):
        self.patch({"spec": {"schedulingGates": None}})

    def finalizers(self, finalizers, _):
        if not finalizers or not self.is_terminating:
            self.patch({"metadata": {"finalizers": finalizers}})

    def delete(self, grace, wanted):
        if grace is None and not self.is_terminating:
            return

        def preconditions(pod):
            found = metadata_of(pod, wanted)
            return {"uid": found.get("uid"), "resource_version": found.get("resourceVersion")}

        def theirs(pod):
            options = DeleteOptions(grace_period_seconds=grace, **preconditions(pod))
            self.api.delete("pods", "default", "p", options=options)

        def ours(pod):
            stated = {name: value or "" for name, value in preconditions(pod).items()}
            request = Delete(kind=Pod, namespace="default", name="p", **stated)
            return self.store.delete(request, self.api.clock.now, grace)

        self.both(theirs, ours)

    def wait(self, seconds, _):
        self.api.clock.advance(seconds)

    def forget(self, *_):
        """Update the scheduler's view from the API server."""
        if self.api.names("pods"):
            self.known = self.theirs().status

    def patch(self, body, type_="merge", subresource="", wanted=""):
        def stated(pod):
            metadata = {**body.get("metadata", {}), **metadata_of(pod, wanted)}
            return {**body, "metadata": metadata} if metadata else body

        where = {"kind": Pod, "namespace": "default", "name": "p", "type_": type_, "subresource": subresource}
        self.both(
            lambda pod: self.api.patch("pods", "default", "p", stated(pod), kind=type_, subresource=subresource),
            lambda pod: Patch(body=stated(pod), **where),
        )

    def both(self, theirs, ours, *, of_pod=True):
        """Carry a request out in both, each for the pod that it has. Ours says less of preconditions."""
        ends, version = [], self.store.version
        for carry_out, found in ((theirs, self.theirs), (ours, self.ours)):
            try:
                done = carry_out(found() if of_pod else None)
                if carry_out is ours:
                    changes = done if isinstance(done, tuple) else self.store.write(done, self.api.clock.now)
                    assert self.store.version - version == sum(one.old is not one.new for one in changes)
                    for change in changes:
                        watched(self.seen, change)
                ends.append(None)
            except ApiError as error:
                told = str(error).removeprefix("object is being deleted: ")
                ends.append((type(error), "precondition" if "recondition" in told or "modified" in told else told))
        assert ends[0] == ends[1]
        assert self.seen == {one.metadata.name: one for one in self.store.list(Pod)}

    def agree(self):
        assert len(self.api.names("pods")) == self.store.count(Pod)
        if not self.seen:
            return
        theirs, ours = self.theirs(), self.ours()
        assert ours.status == theirs.status
        assert ours.spec == theirs.spec
        compared = [replace(one.metadata, resource_version="") for one in (theirs, ours)]
        assert compared[0] == compared[1]


def metadata_of(pod, wanted):
    """What a request's metadata say for the preconditions."""
    other, _, field = wanted.rpartition(" ")
    have = {"uid": pod.metadata.uid, "version": pod.metadata.resource_version}
    names = {"uid": "uid", "version": "resourceVersion"}
    return {names[field]: "7777" if other else have[field]} if field else {}


SCRIPTS = {
    "grace": [("bind", "n1", ""), ("delete", 30, ""), ("wait", 10, None), ("delete", 20, ""), ("delete", 5, "")],
    "kept grace": [("bind", "n1", ""), ("delete", 30, ""), ("delete", 30, ""), ("delete", None, "")],
    "deleted at once": [("bind", "n1", ""), ("delete", 30, ""), ("delete", 0, ""), ("create", None, None)],
    "finished": [("bind", "n1", ""), ("phase", "Succeeded", None), ("delete", 30, "")],
    "terminating": [("finalizers", FINALIZERS, None), ("delete", 0, ""), ("bind", "n1", ""), ("create", None, None)],
    "freed": [("finalizers", FINALIZERS, None), ("delete", 0, ""), ("delete", 0, ""), ("finalizers", [], None)],
    "preconditions": [
        (step, value, wanted)
        for step, value in (("label", "x"), ("update", "x"), ("bind", "n1"), ("delete", 5))
        for wanted in (*WANTED[3:], *WANTED[1:3])
        if step != "bind" or "uid" in wanted
    ],
    "patches": [
        ("patch", {"metadata": {"labels": {"k": None, "new": type_}, "annotations": {"a": "b"}}}, type_)
        for type_ in ("merge", "strategic")
    ],
    "patched lists": [("patch", {"metadata": {"finalizers": [f"example.com/{one}"]}}, "merge") for one in "ab"],
    "null": [("patch", {"metadata": {"labels": None}}, "merge")],
    "conditions": [
        ("patch_status", {"conditions": [{"type": "A", "status": "False", "reason": "R", "lastProbeTime": None}]}, ""),
        ("patch_status", {"conditions": [{"type": "B", "status": "True"}]}, ""),
        ("patch_status", {"conditions": [{"type": "A", "status": "True", "reason": None}]}, ""),
        (
            "patch_status",
            {
                "conditions": [{"type": "C", "status": "True"}],
                "$setElementOrder/conditions": [{"type": "C"}, {"type": "B"}],
            },
            "",
        ),
    ],
    "nomination": [("patch_status", {"nominatedNodeName": node}, "") for node in ("n1", None)],
    "gates": [("bind", "n1", ""), ("ungate", None, None), ("bind", "n1", ""), ("bind", "n1", "")],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_a_store_does_in_turn(name):
    agree("g" if name == "gates" else "", SCRIPTS[name])


@examples(200)
@given(st.sampled_from(("", "", "g")), st.lists(steps, max_size=8))
def test_agrees_with_the_embedded_api_server(gates, script):
    agree(gates, script)


def agree(gates, script):
    both = Both(gates)
    for step, first, second in script:
        getattr(both, step)(first, second)
        both.agree()
