"""One plugin on a small cluster, without the rest of the scheduler; hints: queue/test_requeueing_in_tree.py."""

import numpy as np
import pytest

from stowplan.kube.api import types as t
from stowplan.kube.config.features import default_features
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.events import events_of_change
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import PreFilterPlugin, PreScorePlugin
from stowplan.scheduler.framework.status import Code, Status
from support.scheduling.worlds import struct


class Bench:
    """A plugin and its cluster."""

    def __init__(self, plugin, *objects, args=None, version=DEFAULT_VERSION, **gates):
        self.state = ClusterState(emulated_version=version, has_group_trees=gates.get("CompositePodGroup", False))
        for obj in objects:
            self.put(obj)
        features = default_features(version).with_gates(gates)
        self.handle = Handle(cluster=self.state, profile_name="default-scheduler", features=features)
        self.plugin = plugin(args, self.handle)

    struct = staticmethod(struct)

    def put(self, obj):
        obj = struct(obj)
        if isinstance(obj, t.Node):
            self.state.add_node(obj)
        elif isinstance(obj, t.Pod):
            self.state.add_pod(obj)
        else:
            self.state.put_object(obj)

    def pod(self, pod):
        return self.state.pod_info(struct(pod))

    def nodes(self, *names):
        rows = np.array([self.state.table.row_of[name] for name in names], np.intp) if names else None
        return Nodes(self.state, rows)

    def pre_filter(self, pod, cycle=None):
        return self.plugin.pre_filter(cycle or CycleState(), self.pod(pod), self.nodes())

    def refusals(self, pod, *names):
        """Node -> message for each node (all, or the ones named) that the plugin refuses."""
        cycle, info = CycleState(), self.pod(pod)
        if isinstance(self.plugin, PreFilterPlugin):
            answer = self.plugin.pre_filter(cycle, info, self.nodes())
            if isinstance(answer, Status):
                assert answer.code is Code.Skip, answer
                return {}
        return self.refusals_in(cycle, info, self.nodes(*names))

    def refusals_in(self, cycle, info, nodes):
        rejections = self.plugin.filter(cycle, info, nodes)
        assert not isinstance(rejections, Status), rejections
        if rejections is None:
            return {}
        assert len(rejections.mask) == len(nodes)
        assert rejections.mask.any(), "no refusal must be None"
        valid = nodes.take(self.state.table.valid)
        places = np.flatnonzero(rejections.mask & valid)
        return {nodes.names()[i]: rejections.status(int(i)).message for i in places}

    def scores(self, pod, *names, normalized=True):
        """Node -> score; None if the plugin skips."""
        cycle, info, nodes = CycleState(), self.pod(pod), self.nodes(*names)
        if isinstance(self.plugin, PreScorePlugin):
            answer = self.plugin.pre_score(cycle, info, nodes)
            if answer is not None:
                assert answer.code is Code.Skip, answer
                return None
        found = self.plugin.score(cycle, info, nodes)
        valid = nodes.take(self.state.table.valid)
        if normalized:
            found = self.plugin.normalize(cycle, info, found, valid)
        assert found.shape == (len(nodes),)
        return {nodes.names()[i]: int(found[i]) for i in np.flatnonzero(valid)}

    def hint(self, pod, old, new):
        """The plugin's hint for a change; None if it does not register for it."""
        old, new = struct(old), struct(new)
        events = events_of_change(old, new, self.state.emulated_version)
        info = self.pod(pod)
        for registered in self.plugin.events_to_register():
            if any(registered.event.covers(event) for event in events):
                return "Queue" if registered.hint is None else registered.hint(info, old, new).value
        return None


@pytest.fixture(scope="session")
def bench():
    return Bench
