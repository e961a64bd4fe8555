"""Users' plugins that count pods and raise where their results are reused: the attempt fails at most, and no other."""

import numpy as np
import pytest

from stowplan.kube.config.features import with_chosen
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.plugins import (
    Code,
    CountsPods,
    FilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    SignPlugin,
    Status,
)
from stowplan.testing import a_node, a_pod
from support.plugins.answering_plugins import configuration
from support.scheduling.engines import DrivenEngine
from support.scheduling.groups import a_group
from support.scheduling.worlds import struct

GROUPS = with_chosen({"GenericWorkload": True, "GangScheduling": True}, V1_36)


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

    def aggregate_key(self, pod):
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


@pytest.mark.parametrize(
    ("plugin", "method"), [(Odd, "filter_holds"), (Odd, "score_holds"), (OddSums, "aggregate_key")]
)
def test_a_plugin_that_raises_in_a_group(plugin, method):
    driven = engine(raising_at(plugin, method, ValueError("boom"), [2]), features=GROUPS)
    driven.step_create(struct(a_group("g", gang=4)))
    names = [f"p{i}" for i in range(4)]
    members = [a_pod(name).requests(cpu="1").spec(schedulingGroup={"podGroupName": "g"}) for name in names]
    driven.step_create(*members)
    driven.run()
    driven.advance(15)
    driven.advance(15)
    assert sorted(driven.bound) == names


def test_a_plugin_whose_repeated_result_raises():
    """It is called for each pod instead."""

    class Helps(PostFilterPlugin, SignPlugin):
        name = "Odd"
        effect_free = True
        calls = 0

        def sign_pod(self, pod):
            return {}

        def post_filter(self, state, pod, diagnosis):
            Helps.calls += 1
            return PostFilterResult(Status(Code.Unschedulable, ("no",)))

        def repeats(self, result, pods):
            return True

        def repeated(self, result, pods):
            raise SystemExit(3)

    driven = engine(Helps, features=GROUPS)
    driven.step_create(struct(a_group("g", gang=4)))
    members = [a_pod(f"p{i}").requests(cpu="100").spec(schedulingGroup={"podGroupName": "g"}) for i in range(4)]
    driven.step_create(*members)
    driven.run()
    assert (driven.bound, Helps.calls) == ({}, 4)
