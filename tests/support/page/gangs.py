"""Clusters with pod groups, as files have them."""

from support.scheduling.groups import a_group, member, node


def preempting():
    """A gang of two, and two nodes that are full of pods that are less important."""
    nodes = [node(f"n{number}", cpu=4) for number in range(2)]
    low = [member(f"low-{number}", cpu="3", nodeName=f"n{number}", priority=0) for number in range(2)]
    for pod in low:
        del pod["spec"]["schedulingGroup"]
    gang = [member(f"train-{number}", "train", cpu="3", priority=100) for number in range(2)]
    return [*nodes, *low, a_group("train", gang=2), *gang]
