"""A victim that Permit has allowed and that is not bound yet: the order of its binding and its eviction.

The API server deletes a pod without a node at once, and one with a node after its grace period. In the reference, the
binding goes on while the eviction writes the victim's condition, and so comes before the deletion.
"""

from stowplan.scheduler.framework.interface import PermitPlugin
from stowplan.scheduler.framework.requests import Bind, Delete, Done, Patch
from stowplan.scheduler.framework.status import Code, Status
from stowplan.testing import a_node, a_pod
from support.plugins.answering_plugins import configuration, profile
from support.scheduling.engines import DrivenEngine


class Gate(PermitPlugin):
    name = "Gate"

    def permit(self, state, pod, node_name):
        return (Status(Code.Wait), 600.0) if pod.key == "default/victim" else (None, 0.0)


class Slow(DrivenEngine):
    """Its API server answers when a test says."""

    def _carry_out(self, number, action):
        if isinstance(action, Patch | Bind | Delete):
            self.under_way[number] = action
        else:
            super()._carry_out(number, action)

    def asked(self):
        return [(type(action).__name__, action.name) for action in self.under_way.values()]

    def answer_first(self, kind, name):
        self.answer_number(
            next(n for n, one in self.under_way.items() if isinstance(one, kind) and one.name == name), Done()
        )


def test_an_allowed_victim_is_bound_before_it_is_deleted():
    config = configuration(profile(permit=[Gate]))
    engine = Slow(a_node("n").allocatable(cpu=1, pods=10), config=config, plugins=[Gate])
    engine.create(a_pod("victim").requests(cpu=1))
    [waiting] = engine.engine.waiting_pods
    waiting.allow("Gate")
    assert engine.asked() == [("Patch", "victim")], "its node is being announced"
    engine.create(a_pod("boss").requests(cpu=1).priority(10))
    engine.answer_first(Patch, "boss")
    engine.answer_first(Patch, "victim")
    assert sorted(engine.asked()) == [("Bind", "victim"), ("Patch", "victim")], "its binding waits for no condition"
    engine.answer_first(Patch, "victim")
    assert engine.asked() == [("Bind", "victim"), ("Delete", "victim")]
