"""GangScheduling, as far as it is built: pods of groups are refused, and wait for each other."""

from stowplan.in_tree.gang_scheduling.plugin import GangScheduling
from stowplan.testing import a_pod


def test_pods_of_groups_wait(bench):
    world = bench(GangScheduling)
    grouped = a_pod().spec(schedulingGroup={"podGroupName": "g"})
    assert world.plugin.pre_enqueue(world.pod(a_pod())) is None
    assert (
        world.plugin.pre_enqueue(world.pod(grouped)).message
        == "Stowplan does not place pods of pod groups yet (GangScheduling)"
    )
    assert world.hint(grouped, None, a_pod("q").spec(schedulingGroup={"podGroupName": "g"})) == "Queue"
    assert world.hint(grouped, None, a_pod("q").spec(schedulingGroup={"podGroupName": "h"})) == "Skip"
