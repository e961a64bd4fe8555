"""Users' plugins that count pods and raise where their results are reused: the attempt fails at most, and no other."""

import asyncio

import numpy as np
import pytest

from stowplan.config.features import with_chosen
from stowplan.plugins import CountsPods, FilterPlugin, PreFilterPlugin, PreScorePlugin, Reads, ScorePlugin, SignPlugin
from stowplan.testing import a_node, a_pod
from support.plugins.answering_plugins import configuration
from support.scheduling.engines import DrivenEngine
from support.scheduling.groups import a_group
from support.scheduling.worlds import struct

GROUPS = with_chosen({"GenericWorkload": True, "GangScheduling": True})


class Odd(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, CountsPods, SignPlugin):
    name = "Odd"
    reads = Reads.CLUSTER_PODS

    def sign_pod(self, pod):
        return {}

    def reads_objects(self, pod):
        return ()

    def pre_filter(self, state, pod, nodes):
        return None

    def filter(self, state, pod, nodes):
        return None

    def filter_holds(self, state, pod):
        return True

    def pre_score(self, state, pod, nodes):
        return None

    def score(self, state, pod, nodes):
        return np.zeros(len(nodes), np.int64)

    def score_holds(self, state, pod, feasible_moved):
        return True


class OddSums(FilterPlugin, SignPlugin):
    name = "Odd"
    reads = Reads.NODE_SUMS

    def sign_pod(self, pod):
        return {}

    def reads_objects(self, pod):
        return ()

    def sums_question(self, pod):
        return ()

    def filter(self, state, pod, nodes):
        return None


def raising_at(plugin, method, error, left):
    """The plugin, which raises in this method as often as `left` says."""

    def raises(self, *args):
        if left[0]:
            left[0] -= 1
            raise error
        return getattr(plugin, method)(self, *args)

    return type("Odd", (plugin,), {method: raises})


def engine(plugin, **options):
    plugins = {"multiPoint": {"enabled": [{"name": "Odd"}]}}
    config = configuration({"schedulerName": "default-scheduler", "plugins": plugins})
    nodes = [a_node(f"n{i}").allocatable(cpu="9", pods="20") for i in range(3)]
    return DrivenEngine(*nodes, config=config, plugins=[plugin], **options)


@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit(3), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize(
    ("plugin", "method"), [(Odd, "filter_holds"), (Odd, "score_holds"), (OddSums, "sums_question")]
)
class TestARaisingPlugin:
    def test_single_pods(self, plugin, method, error):
        left = [1]
        driven = engine(raising_at(plugin, method, error, left))
        driven.create(*(a_pod(name).requests(cpu="1") for name in "abcd"))
        driven.advance(15)
        assert left == [0], "it was not called"
        assert sorted(driven.bound) == ["a", "b", "c", "d"]

    def test_pod_groups(self, plugin, method, error):
        driven = engine(raising_at(plugin, method, error, [2]), features=GROUPS)
        driven.step_create(struct(a_group("g", gang=4)))
        names = [f"p{i}" for i in range(4)]
        members = [a_pod(name).requests(cpu="1").spec(schedulingGroup={"podGroupName": "g"}) for name in names]
        driven.step_create(*members)
        driven.run()
        driven.advance(15)
        driven.advance(15)
        assert sorted(driven.bound) == names
