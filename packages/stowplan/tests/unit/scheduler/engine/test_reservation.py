"""A user's plugin that changes assumed pods may raise, or return something else: only that attempt fails."""

from stowplan.plugins import ReservePlugin
from stowplan.testing import a_node, a_pod
from support.plugins.answering_plugins import configuration
from support.scheduling.engines import DrivenEngine


def engine(assumed):
    class Odd(ReservePlugin):
        name = "Odd"
        changes_assumed_pods = True

        def assumed(self, state, pod, node_name):
            return assumed() if pod.name == "odd" else pod.pod

        def reserve(self, state, pod, node_name):
            return None

        def unreserve(self, state, pod, node_name):
            pass

    plugins = {"multiPoint": {"enabled": [{"name": "Odd"}]}}
    config = configuration({"schedulerName": "default-scheduler", "plugins": plugins})
    return DrivenEngine(a_node("n").allocatable(cpu="9", pods="9"), config=config, plugins=[Odd])


def test_an_assumed_pod_that_is_none_fails_its_attempt():
    driven = engine(lambda: None)
    driven.create(a_pod("odd"), a_pod("good"))
    assert driven.bound == {"good": "n"}
    assert driven.notes()[0].startswith('running Reserve plugin "Odd": want a Pod, got None')
    assert driven.engine.state.placed("default-odd-uid") is None
