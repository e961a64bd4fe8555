"""Request bodies for HTTP extenders, field by field as kube-scheduler encodes them."""

import base64
import json

import msgspec
import pytest

from stowplan import load_config
from stowplan.kube.api.decode import convert
from stowplan.kube.api.documents import Documents
from stowplan.kube.api.types import Node, Pod
from stowplan.scheduler.extenders.calls import ANSWER_SLACK, CallError, Calls, kinds_wanted
from stowplan.scheduler.extenders.http_extender import BindQuestion, configured_extenders
from stowplan.scheduler.framework.eviction_plan import Candidate
from stowplan.scheduler.framework.requests import Ask
from stowplan.testing import a_node, a_pod
from support.extenders.running import configuration
from support.scheduling.worlds import struct

URL = "http://extender.example:8888/scheduler/"
VERBS = {"filterVerb": "f", "prioritizeVerb": "p", "preemptVerb": "e", "bindVerb": "b", "weight": 1}

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "p",
        "namespace": "default",
        "uid": "p-uid",
        "creationTimestamp": None,
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "<b>"}]}], "unknownField": {"x": [1]}},
    "status": {"phase": "Pending"},
}
NODE = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"name": "n1", "uid": "n1-uid", "managedFields": [{"manager": "kubelet"}]},
    "spec": {"podCIDR": "10.0.0.0/24"},
    "status": {"allocatable": {"cpu": "4"}, "nodeInfo": {"kubeletVersion": "v1.36.0"}},
}


class Asking:
    """One extender with all verbs, and its requests."""

    def __init__(self, *objects, kinds=(Node, Pod), **settings):
        config = load_config(configuration({"urlPrefix": URL, **VERBS, **settings}))
        self.documents = Documents(kinds)
        self.objects = [convert(obj, Pod if obj["kind"] == "Pod" else Node) for obj in objects]
        for obj, raw in zip(self.objects, objects, strict=True):
            self.documents.keep(obj, json.dumps(raw).encode())
        (self.extender,) = configured_extenders(config)
        self.calls = Calls(config, self.documents)

    def call(self, verb, question):
        return self.calls.call_of(Ask(who=self.extender.name, verb=verb, question=question))

    def body(self, verb, question):
        return json.loads(self.call(verb, question).body)


class Info:
    """The part of PodInfo that requests read."""

    def __init__(self, pod, node_name=""):
        self.pod, self.node_name = pod, node_name
        self.namespace, self.uid = pod.metadata.namespace or "default", pod.metadata.uid


def without(obj, *names):
    return {name: value for name, value in obj.items() if name not in names}


WIRE_POD = without(POD, "kind", "apiVersion") | {"metadata": without(POD["metadata"], "managedFields")}
WIRE_NODE = without(NODE, "kind", "apiVersion")


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_whole_nodes(verb):
    asking = Asking(POD, NODE)
    pod, node = asking.objects
    question = getattr(asking.extender, f"{verb}_question")(Info(pod), [node])
    body = asking.body(verb, question)
    assert body == {"Pod": WIRE_POD, "Nodes": {"metadata": {}, "items": [WIRE_NODE]}, "NodeNames": None}
    assert list(body) == ["Pod", "Nodes", "NodeNames"]


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_names_of_nodes(verb):
    asking = Asking(POD, NODE, nodeCacheCapable=True)
    pod, node = asking.objects
    question = getattr(asking.extender, f"{verb}_question")(Info(pod), [node, struct(a_node("n2"))])
    assert asking.body(verb, question) == {"Pod": WIRE_POD, "Nodes": None, "NodeNames": ["n1", "n2"]}


def victim(name, node, *, placed=True):
    obj = a_pod(name).obj() | {"kind": "Pod"}
    obj["metadata"] |= {"uid": f"{name}-uid", "namespace": "default"}
    if placed:
        obj["spec"]["nodeName"] = node
    return obj


def candidates(asking):
    """For a pod with victims v1 and v2 on n2, and v3 on n1, where it is only assumed."""
    _, v1, v2, v3 = asking.objects
    return [
        Candidate("n2", (Info(v1, "n2"), Info(v2, "n2")), 1),
        Candidate("n1", (Info(v3, "n1"),), 0),
    ]


VICTIMS = (victim("v1", "n2"), victim("v2", "n2"), victim("v3", "n1", placed=False))


def test_whole_victims():
    asking = Asking(POD, *VICTIMS)
    body = asking.body("preempt", asking.extender.preempt_question(Info(asking.objects[0]), candidates(asking)))
    v1, v2, v3 = (without(v, "kind", "apiVersion") for v in VICTIMS)
    v3["spec"] = v3["spec"] | {"nodeName": "n1"}
    assert body == {
        "Pod": WIRE_POD,
        "NodeNameToVictims": {
            "n1": {"Pods": [v3], "NumPDBViolations": 0},
            "n2": {"Pods": [v1, v2], "NumPDBViolations": 1},
        },
        "NodeNameToMetaVictims": None,
    }
    assert list(body) == ["Pod", "NodeNameToVictims", "NodeNameToMetaVictims"]
    assert list(body["NodeNameToVictims"]) == ["n1", "n2"]


def test_uids_of_victims():
    asking = Asking(POD, *VICTIMS, nodeCacheCapable=True)
    body = asking.body("preempt", asking.extender.preempt_question(Info(asking.objects[0]), candidates(asking)))
    assert body == {
        "Pod": WIRE_POD,
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {
            "n1": {"Pods": [{"UID": "v3-uid"}], "NumPDBViolations": 0},
            "n2": {"Pods": [{"UID": "v1-uid"}, {"UID": "v2-uid"}], "NumPDBViolations": 1},
        },
    }


def test_a_candidate_without_victims():
    asking = Asking(POD, nodeCacheCapable=True)
    question = asking.extender.preempt_question(Info(asking.objects[0]), [Candidate("n1", (), 0)])
    # As Go encodes a nil slice.
    assert asking.body("preempt", question)["NodeNameToMetaVictims"] == {"n1": {"Pods": None, "NumPDBViolations": 0}}


def test_a_binding():
    asking = Asking(POD)
    body = asking.body("bind", asking.extender.bind_question(Info(asking.objects[0]), "n1"))
    assert body == {"PodName": "p", "PodNamespace": "default", "PodUID": "p-uid", "Node": "n1"}
    assert list(body) == ["PodName", "PodNamespace", "PodUID", "Node"]


@pytest.mark.parametrize(("verb", "action"), [("filter", "f"), ("prioritize", "p"), ("preempt", "e"), ("bind", "b")])
@pytest.mark.parametrize("prefix", ["http://h/x", "http://h/x/", "http://h/x///"])
def test_urls(verb, action, prefix):
    asking = Asking(POD, urlPrefix=prefix)
    pod = Info(asking.objects[0])
    arguments = {"bind": ("n1",), "preempt": ([],)}.get(verb, ([],))
    call = asking.call(verb, getattr(asking.extender, f"{verb}_question")(pod, *arguments))
    assert call.url == f"http://h/x/{action}"
    assert call.longest_answer == ANSWER_SLACK + 2 * len(call.body)


def test_objects_that_are_not_kept_completely():
    asking = Asking(POD, NODE, kinds=())
    pod, node = asking.objects
    body = asking.body("filter", asking.extender.filter_question(Info(pod), [node]))
    assert body["Pod"]["metadata"] == {"name": "p", "namespace": "default", "uid": "p-uid"}
    assert "kind" not in body["Pod"]
    assert body["Nodes"]["items"][0]["status"]["allocatable"] == {"cpu": "4"}


@pytest.mark.parametrize(
    ("settings", "kinds"),
    [
        pytest.param({"bindVerb": "b"}, set(), id="only binds"),
        pytest.param({"filterVerb": "f"}, {Pod, Node}, id="filters"),
        pytest.param({"prioritizeVerb": "p", "weight": 1}, {Pod, Node}, id="prioritizes"),
        pytest.param({"filterVerb": "f", "nodeCacheCapable": True}, {Pod}, id="knows nodes itself"),
        pytest.param({"preemptVerb": "e"}, {Pod}, id="preempts"),
    ],
)
def test_kinds_kept_completely(settings, kinds):
    assert kinds_wanted(load_config(configuration({"urlPrefix": URL, **settings}))) == kinds


def test_http_errors():
    asking = Asking(POD)
    call = asking.call("filter", asking.extender.filter_question(Info(asking.objects[0]), []))
    with pytest.raises(CallError) as caught:
        asking.calls.answer_of(call, 404, b"{}")
    assert str(caught.value) == "failed f with extender at URL http://extender.example:8888/scheduler/f, code 404"


def test_calls_are_hashable_values():
    asking = Asking(POD, NODE)
    pod, node = asking.objects
    question = asking.extender.filter_question(Info(pod), [node])
    assert msgspec.json.encode(question) == msgspec.json.encode(asking.extender.filter_question(Info(pod), [node]))


# -- interest ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "is_interested"),
    [
        pytest.param(a_pod("p"), False, id="asks for nothing"),
        pytest.param(a_pod("p").requests(cpu=1), False, id="asks for something else"),
        pytest.param(a_pod("p").requests(**{"example.com/dongle": 1}), True, id="request"),
        pytest.param(a_pod("p").limits(**{"example.com/dongle": 1}), True, id="limit"),
        pytest.param(
            a_pod("p").spec(initContainers=[{"name": "i", "resources": {"requests": {"example.com/dongle": "0"}}}]),
            True,
            id="init container, even for none",
        ),
    ],
)
def test_interest(pod, is_interested):
    managed = {"managedResources": [{"name": "example.com/dongle"}, {"name": "example.com/stick"}]}
    assert Asking(**managed).extender.is_interested(Info(struct(pod))) is is_interested
    assert Asking().extender.is_interested(Info(struct(pod)))


def test_extenders_with_the_same_url_are_distinguished():
    config = load_config(configuration({"urlPrefix": "http://h"}, {"urlPrefix": "http://h"}, {"urlPrefix": "http://i"}))
    assert [extender.name for extender in configured_extenders(config)] == ["http://h", "http://h (2)", "http://i"]


def test_ignorable_extenders_come_last():
    config = load_config(configuration({"urlPrefix": "http://h", "ignorable": True}, {"urlPrefix": "http://i"}))
    assert [extender.name for extender in configured_extenders(config)] == ["http://i", "http://h"]


SECRET = "s3cr3t"


def b64(text):
    return base64.b64encode(text.encode()).decode()


def test_no_message_has_the_password_of_a_url():
    asking = Asking(urlPrefix=f"https://scheduler:{SECRET}@extender.example/x")
    call = asking.call("bind", BindQuestion(namespace="default", name="p", uid="1", node="n1"))
    assert call.url == f"https://scheduler:{SECRET}@extender.example/x/b"
    assert asking.extender.name == "https://scheduler:xxxxx@extender.example/x"
    for status, body in ((500, b""), (200, b"[")):
        with pytest.raises(CallError, match=r"https://scheduler:xxxxx@extender\.example/x/b") as said:
            asking.calls.answer_of(call, status, body)
        assert SECRET not in str(said.value)


def test_what_is_shown_of_a_configuration_has_no_secrets():
    """In the log, on pages and in recordings."""
    data = {"certData": b64("-----BEGIN CERTIFICATE-----"), "keyData": b64(f"-----BEGIN PRIVATE KEY-----{SECRET}")}
    extender = {"urlPrefix": f"https://me:{SECRET}@extender.example", "tlsConfig": {"serverName": "x", **data}}
    config = load_config(configuration(extender))
    (shown,) = config.shown()["extenders"]
    assert (shown["urlPrefix"], shown["tlsConfig"]) == ("https://me:xxxxx@extender.example", {"serverName": "x"})
    assert config.to_dict()["extenders"][0]["tlsConfig"]["keyData"] == data["keyData"]
    # It can be loaded: recordings have it.
    again = load_config(config.shown())
    assert [one.name for one in configured_extenders(again)] == [one.name for one in configured_extenders(config)]
