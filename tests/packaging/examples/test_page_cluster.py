"""The cluster of README's picture: a gang runs, and what needs a whole GPU node waits, with its reason."""

from stowplan import Cluster
from stowplan.scheduler.inspection.room import room_of
from support.paths import ROOT


def test_the_gang_runs_and_whole_nodes_are_missing():
    cluster = Cluster.from_files(ROOT / "examples/page/cluster.yaml", feature_gates={"GenericWorkload": True})
    cluster.schedule()
    assert {key.rpartition("-")[0] for key in cluster.pending()} == {"default/whole-node"}
    assert "Insufficient nvidia.com/gpu" in cluster.explain("whole-node-0").message
    whole = next(shape for shape in room_of(cluster.state).shapes if shape.name == "8 nvidia.com/gpu on a node")
    assert (whole.fits, whole.together) == (0, 1)
