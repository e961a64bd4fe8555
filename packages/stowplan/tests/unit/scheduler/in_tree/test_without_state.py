"""Filter without PreFilter, and Score without PreScore, are errors, in each plugin's words."""

import pytest

from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.in_tree.inter_pod_affinity.declaration import InterPodAffinityArgs
from stowplan.scheduler.in_tree.inter_pod_affinity.plugin import InterPodAffinity
from stowplan.scheduler.in_tree.node_declared_features.plugin import NodeDeclaredFeatures
from stowplan.scheduler.in_tree.node_ports.plugin import NodePorts
from stowplan.scheduler.in_tree.node_resources_fit.declaration import NodeResourcesFitArgs
from stowplan.scheduler.in_tree.node_resources_fit.plugin import NodeResourcesFit
from stowplan.scheduler.in_tree.pod_topology_spread.declaration import PodTopologySpreadArgs
from stowplan.scheduler.in_tree.pod_topology_spread.plugin import PodTopologySpread
from stowplan.scheduler.in_tree.taint_toleration.plugin import TaintToleration
from stowplan.scheduler.in_tree.volume_restrictions.plugin import VolumeRestrictions
from stowplan.testing import a_node, a_pod


@pytest.mark.parametrize(
    ("plugin", "args", "point", "message"),
    [
        (InterPodAffinity, InterPodAffinityArgs(), "filter", "error reading {} from cycleState: not found"),
        (NodeDeclaredFeatures, None, "filter", "error reading {} from cycle-state: not found"),
        (NodePorts, None, "filter", "reading {} from cycleState: not found"),
        (NodeResourcesFit, NodeResourcesFitArgs(), "filter", "error reading {} from cycleState: not found"),
        (PodTopologySpread, PodTopologySpreadArgs(), "filter", "reading {} from cycleState: not found"),
        (TaintToleration, None, "score", "failed to read {} from cycleState: not found"),
        (VolumeRestrictions, None, "filter", "cannot read {} from cycleState"),
    ],
)
def test_without_state(bench, plugin, args, point, message):
    world = bench(plugin, a_node(), args=args)
    status = getattr(world.plugin, point)(CycleState(), world.pod(a_pod().host_port(80)), world.nodes())
    key = f'"Pre{point.capitalize()}{plugin.name}"'
    assert (status.code, status.message) == (Code.Error, message.format(key))
