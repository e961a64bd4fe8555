"""The handle of plugins, and the cycle state."""

import re
from types import SimpleNamespace

import pytest

from stowplan.kube.api.decode import decode_object
from stowplan.scheduler.cluster.hypothetical import HypotheticalNodes
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import PODS_TO_ACTIVATE, CycleState, PodsToActivate
from stowplan.scheduler.framework.declarations import TemplateSigned
from stowplan.scheduler.framework.interface import FilterPlugin, NodeFilterPlugin
from stowplan.scheduler.framework.runtime.registry import PluginLoadError
from stowplan.scheduler.framework.status import error, unresolvable, unschedulable
from stowplan.scheduler.framework.waiting_pods import WaitingPods
from stowplan.testing import a_node, a_pod
from support.plugins.recording_plugins import Clock, an_attempt, framework_of, recorder
from support.scheduling.fake_extender import FakeExtender

NODES = (a_node("n1"), a_node("n2"), a_node("n3"))


class OnePerNode(NodeFilterPlugin, TemplateSigned):
    name = "OnePerNode"

    def filter_node(self, state, pod, node):
        return unschedulable("taken") if node.pods else None


class NotOnThree(NodeFilterPlugin, TemplateSigned):
    name = "NotOnThree"

    def filter_node(self, state, pod, node):
        return unresolvable("not here") if node.name == "n3" else None


class Failing(FilterPlugin):
    name = "Failing"

    def filter(self, state, pod, nodes):
        return error("no idea")


def info_of(framework, builder):
    return framework.handle.cluster.pod_info(decode_object(builder.obj()))


# -- filters with nominated pods --------------------------------------------------------------------------------------


def refused(framework, pod, *names):
    state = framework.handle.cluster
    rows = [state.table.row_of[name] for name in names]
    nodes = Nodes(state) if not rows else Nodes(state, state.table.valid.nonzero()[0][rows])
    answer = framework.handle.run_filter_plugins_with_nominated_pods(CycleState(), pod, nodes)
    return {name: (status.plugin, status.message) for name, status in answer.items()}


@pytest.mark.parametrize(
    ("nominated_priority", "expected"),
    [
        pytest.param(None, {"n1": ("OnePerNode", "taken"), "n3": ("NotOnThree", "not here")}, id="nobody nominated"),
        pytest.param(
            5,
            {"n1": ("OnePerNode", "taken"), "n2": ("OnePerNode", "taken"), "n3": ("NotOnThree", "not here")},
            id="nominated to an equal",
        ),
        pytest.param(
            4, {"n1": ("OnePerNode", "taken"), "n3": ("NotOnThree", "not here")}, id="nominated to a lesser one"
        ),
    ],
)
def test_nominated_pods_count(nominated_priority, expected):
    framework = framework_of(OnePerNode, NotOnThree, objects=(*NODES, a_pod("old").on("n1")))
    if nominated_priority is not None:
        nominated = info_of(framework, a_pod("nominated").priority(nominated_priority))
        framework.handle.nominator.add(nominated, "n2")
    pod = info_of(framework, a_pod("web").priority(5))
    assert refused(framework, pod) == expected
    assert refused(framework, pod, "n3") == {"n3": expected["n3"]}


def test_hypothetical_views_are_used_as_given():
    framework = framework_of(OnePerNode, objects=(a_node("n1"), a_pod("old").on("n1")))
    state = framework.handle.cluster
    view = HypotheticalNodes(state, state.table.valid.nonzero()[0])
    view.remove_pod(0, state.placed_pods()[0])
    pod = info_of(framework, a_pod("web"))
    assert framework.handle.run_filter_plugins_with_nominated_pods(CycleState(), pod, view) == {}


def test_an_error_ends_filtering():
    framework = framework_of(Failing, objects=NODES)
    pod = info_of(framework, a_pod())
    nodes = Nodes(framework.handle.cluster)
    answer = framework.handle.run_filter_plugins_with_nominated_pods(CycleState(), pod, nodes)
    assert answer.message == 'running "Failing" filter plugin: no idea'


# -- the rest of the scheduler ----------------------------------------------------------------------------------------


def test_activation_reaches_the_queue():
    activated = []
    framework = framework_of(activation=SimpleNamespace(activate=activated.append, activate_group=activated.append))
    pod = info_of(framework, a_pod())
    framework.handle.activate(p for p in (pod,))
    framework.handle.activate([])
    framework.handle.activate_group("default/g")
    assert activated == [[pod], "default/g"]


def test_offline_there_is_no_queue_waiting_pod_or_extender():
    handle = framework_of().handle
    handle.activate([info_of(handle.framework, a_pod())])
    handle.activate_group("default/g")
    assert list(handle.waiting_pods) == []
    assert handle.waiting_pods.reject("u") is False
    assert handle.pods_in_pre_bind.get("u") is None
    assert handle.extenders() == ()
    assert handle.profile_name == "default-scheduler"


def test_extenders_and_waiting_pods_are_the_schedulers_own():
    waiting, extender = WaitingPods(now=Clock()), FakeExtender("e")
    handle = framework_of(waiting_pods=waiting, extenders=[extender]).handle
    assert handle.extenders() == (extender,)
    assert handle.waiting_pods is waiting


def test_signatures_distinguish_pods():
    framework = framework_of(NotOnThree, objects=NODES)
    pods = [info_of(framework, a_pod(name).requests(cpu=cpu)) for name, cpu in (("a", "1"), ("b", "1"), ("c", "2"))]
    a, b, c = (framework.handle.sign_pod(pod) for pod in pods)
    assert a is not None
    assert a == b != c


# -- pods to activate -------------------------------------------------------------------------------------------------


def test_a_state_collects_pods_to_activate():
    framework, state, pod, _ = an_attempt(framework_of())
    other = info_of(framework, a_pod("other"))
    for wanted in (pod, other, pod):
        state.pods_to_activate.add(wanted)
    assert state.read(PODS_TO_ACTIVATE) is state.pods_to_activate
    assert len(state.pods_to_activate) == 2
    assert state.clone().pods_to_activate.take() == [pod, other]
    assert state.pods_to_activate.take() == []


def test_pods_to_activate_despite_a_plugins_own_entry():
    state = CycleState()
    state.write(PODS_TO_ACTIVATE, "nonsense")
    assert isinstance(state.pods_to_activate, PodsToActivate)


# -- installed plugins ------------------------------------------------------------------------------------------------


class Point:
    """An entry point that gives, or raises, what it is told."""

    value, dist = "mine:Mine", None

    def __init__(self, answer):
        self.answer = answer
        self.name = getattr(answer, "name", None) or "Mine"

    def load(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def installed(monkeypatch):
    def offer(*answers):
        monkeypatch.setattr(
            "stowplan.scheduler.framework.runtime.registry.entry_points", lambda group: tuple(Point(a) for a in answers)
        )

    return offer


def test_installed_plugins_are_known_to_a_cluster(installed):
    import stowplan

    installed(OnePerNode)
    points = {"multiPoint": {"enabled": [{"name": "OnePerNode"}]}}
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = {**header, "profiles": [{"plugins": points}]}
    objects = [a_node("n1").obj(), a_pod("old").on("n1").obj()]
    # Handed over as well: it joins once.
    for plugins in ([], [OnePerNode]):
        cluster = stowplan.Cluster(objects, config, plugins=plugins)
        assert "1 taken" in cluster.explain(a_pod("web").obj()).message


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(
            ImportError("no module named boat"),
            'plugin "entry point Mine = mine:Mine": cannot load it: ImportError: no module named boat',
            id="import",
        ),
        pytest.param(dict, "does not derive from stowplan.plugins.Plugin", id="not a plugin"),
        pytest.param(FilterPlugin, "has no name", id="nameless"),
    ],
)
def test_an_unusable_installed_plugin_is_an_error_where_it_is_named(installed, answer, text):
    import stowplan

    installed(answer)
    stowplan.Cluster()
    points = {"multiPoint": {"enabled": [{"name": "Mine"}]}}
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    with pytest.raises(PluginLoadError, match=re.escape(text)):
        stowplan.Cluster(config={**header, "profiles": [{"plugins": points}]})


# -- nodes -------------------------------------------------------------------------------------------------------------


def test_nodes_by_name_and_as_a_list():
    pod = a_pod("there").labels(app="a").annotations(owner="me").on("n2")
    framework = framework_of(recorder("Any", []), objects=(a_node("n1"), a_node("n2").labels(zone="a"), pod))
    handle = framework.handle
    node = handle.node("n2")
    assert (node.name, node.labels["zone"], node.annotations) == ("n2", "a", {})
    assert [(other.name, other.namespace, other.labels, other.annotations) for other in node.pods] == [
        ("there", "default", {"app": "a"}, {"owner": "me"})
    ]
    assert handle.node("n3") is None
    assert [node.name for node in handle.nodes()] == ["n1", "n2"]


def test_a_removed_node_is_missing():
    framework = framework_of(recorder("Any", []), objects=(a_node("n1"), a_node("n2"), a_pod("there").on("n1")))
    state, handle = framework.handle.cluster, framework.handle
    state.remove_node("n1")
    assert handle.node("n1") is None
    assert [node.name for node in handle.nodes()] == ["n2"]
