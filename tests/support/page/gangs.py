"""Clusters with pod groups, as manifests."""

from support.scheduling.groups import a_group, member, node


def preempting():
    """A gang of two, and two nodes full of pods of lower priority."""
    nodes = [node(f"n{number}", cpu=4) for number in range(2)]
    low = [member(f"low-{number}", cpu="3", nodeName=f"n{number}", priority=0) for number in range(2)]
    for pod in low:
        del pod["spec"]["schedulingGroup"]
    gang = [member(f"train-{number}", "train", cpu="3", priority=100) for number in range(2)]
    return [*nodes, *low, a_group("train", gang=2, priority=100), *gang]
