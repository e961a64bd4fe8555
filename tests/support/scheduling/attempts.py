"""A pod's attempts and the events that woke it, and profiles of a few plugins only."""

from support.plugins.answering_plugins import configuration

#: A profile requires these.
_ALWAYS = ("PrioritySort", "DefaultBinder")


def only(*plugins, name="default-scheduler"):
    """A profile of these plugins alone."""
    enabled = [{"name": plugin} for plugin in (*_ALWAYS, *plugins)]
    return {"schedulerName": name, "plugins": {"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}}}


def only_these(*plugins):
    return configuration(only(*plugins))


def steps(cluster, name):
    story = cluster.scheduler.stories.of(f"{cluster.namespace}/{name}")
    return () if story is None else story.steps


def attempts(cluster, name):
    """Time of each attempt, in seconds since the cluster's scheduler started."""
    begun = cluster.scheduler.clock() - cluster.time.now
    return [round(step.time - begun, 6) for step in steps(cluster, name) if step.outcome is not None]


def moves(cluster, name):
    """(place, cause) of the pod's moves through the queue, without its attempts."""
    found = [(step.what, step.cause) for step in steps(cluster, name) if step.outcome is None]
    return [move for move in found if move[1] not in ("Popped", "Done", "")]


def asking(pod, **amounts):
    """The pod, requesting these resources."""
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts}
    return pod


def on(node_name, pod):
    """The pod bound to a node without a scheduler."""
    pod["spec"]["nodeName"] = node_name
    return pod


def labelled(obj, **labels):
    obj["metadata"]["labels"] = {**obj["metadata"].get("labels", {}), **labels}
    return obj


def sized(node, **sizes):
    """The node with these resources instead of its own."""
    node["status"] = {"capacity": {"pods": "110", **sizes}, "allocatable": {"pods": "110", **sizes}}
    return node
