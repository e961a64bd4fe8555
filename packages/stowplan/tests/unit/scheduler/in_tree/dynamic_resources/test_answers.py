"""Searches in portions: an attempt has a limited budget, and the next one continues."""

import numpy as np

from stowplan.kube.api.decode import decode_object
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.in_tree.dynamic_resources import answers
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import Features, compile_claim
from stowplan.scheduler.in_tree.dynamic_resources.allocator.search import Verdict
from stowplan.scheduler.in_tree.dynamic_resources.allocator.selectors import LOOK
from stowplan.scheduler.in_tree.dynamic_resources.answers import Answers
from stowplan.scheduler.in_tree.dynamic_resources.inventory import Inventory
from stowplan.testing import a_node
from support.plugins.devices import a_claim, a_class, a_device, a_slice, exactly

GPU = decode_object(a_class())


def attempts(monkeypatch, *, timeout, tries):
    """The verdicts of attempts that examine ten devices each, on a node where only a later device fits."""
    monkeypatch.setattr(answers, "PORTION_STEPS", 10 * LOOK)
    state = ClusterState()
    state.add_node(decode_object(a_node("n").obj()))
    devices = [a_device(f"g{i:02}", capacity={"memory": str(i)}) for i in range(20)]
    state.put_object(decode_object(a_slice("n", *devices, nodeName="n")))
    inventory = Inventory(state, Features())
    inventory.refresh()
    wanted = decode_object(a_claim("c", exactly("r", capacity={"requests": {"memory": "15"}})))
    claim = compile_claim(wanted, Features(), {"gpu": GPU}.get)
    found = Answers(inventory, Features(), filter_timeout=timeout)
    return [Verdict(int(found.verdicts((claim,), np.array([0]))[0])) for _ in range(tries)]


def test_an_attempt_out_of_budget_continues_next_time(monkeypatch):
    assert attempts(monkeypatch, timeout=10, tries=3)[0] is Verdict.UNFINISHED
    assert attempts(monkeypatch, timeout=10, tries=3)[-1] is Verdict.FOUND


def test_a_search_ends_at_the_filter_timeout(monkeypatch):
    monkeypatch.setattr(answers, "STEPS_PER_SECOND", 10 * LOOK)
    assert attempts(monkeypatch, timeout=1, tries=4)[1:] == [Verdict.TIMED_OUT] * 3
