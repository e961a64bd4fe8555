"""Plugins as users write them, which declare more or less of what they read."""

from stowplan.plugins import (
    NodeFilterPlugin,
    NodeScorePlugin,
    PreFilterPlugin,
    PreFilterResult,
    Reads,
    ScorePlugin,
    ShapeSigned,
    SignPlugin,
    unschedulable,
)


class EvenPods(NodeFilterPlugin, ShapeSigned):
    """Refuses a node by its pods; does not declare what it reads."""

    name = "EvenPods"

    def filter_node(self, state, pod, node):
        return unschedulable("odd") if len(node.pods) % 3 == 2 else None


class FirstLetters(NodeFilterPlugin, ShapeSigned):
    """Reads only the node object."""

    name = "FirstLetters"
    reads = Reads.NODES

    def filter_node(self, state, pod, node):
        return unschedulable("ends in 3") if node.name.endswith("3") else None


class FewPods(NodeFilterPlugin, NodeScorePlugin, ShapeSigned):
    """Reads the pods of its node."""

    name = "FewPods"
    reads = Reads.NODE_PODS

    def filter_node(self, state, pod, node):
        return unschedulable("many") if len(node.pods) > 3 else None

    def score_node(self, state, pod, node):
        return min(100, 10 * len(node.pods))


class ByName(NodeScorePlugin, ShapeSigned):
    name = "ByName"
    reads = Reads.NODES

    def score_node(self, state, pod, node):
        return 7 * int(node.name[1:])


class Crowd(NodeScorePlugin, ShapeSigned):
    """Counts the pods of the whole cluster; declares only that it might."""

    name = "Crowd"

    def score_node(self, state, pod, node):
        return len(node.pods) * len(self.handle.cluster.placed_pods())

    def normalize(self, state, pod, scores, feasible):
        return scores * 100 // max(1, int(scores[feasible].max(initial=0)))


class CrowdUnsaid(NodeFilterPlugin, ShapeSigned):
    """Counts pods anywhere, without declaring when its rejections become invalid."""

    name = "CrowdUnsaid"
    reads = Reads.CLUSTER_PODS

    def filter_node(self, state, pod, node):
        return unschedulable("crowd") if len(self.handle.cluster.placed_pods()) % 2 and node.name == "n0" else None


class Narrow(PreFilterPlugin, ShapeSigned):
    """Narrows the nodes while few pods are placed."""

    name = "Narrow"

    def pre_filter(self, state, pod, nodes):
        if len(self.handle.cluster.placed_pods()) % 2:
            return PreFilterResult(frozenset(("n0", "n1")))
        return None


class Picky(NodeFilterPlugin, SignPlugin):
    """Reads an annotation, and signs it."""

    name = "Picky"

    def sign_pod(self, pod):
        return {"wants": pod.pod.metadata.annotations.get("wants", "")}

    def filter_node(self, state, pod, node):
        wants = pod.pod.metadata.annotations.get("wants", "")
        return None if wants in node.name else unschedulable("not wanted")


class Unsigned(NodeFilterPlugin):
    """Reads an annotation without signing it."""

    name = "Unsigned"
    filter_node = Picky.filter_node


class Raises(NodeFilterPlugin, ShapeSigned):
    """Raises on a node with many pods."""

    name = "Raises"
    reads = Reads.NODE_PODS

    def filter_node(self, state, pod, node):
        if len(node.pods) == 2:
            raise RuntimeError(f"two pods on {node.name}")


class RaisesInScore(NodeScorePlugin, ShapeSigned):
    name = "RaisesInScore"
    reads = Reads.NODE_PODS

    def score_node(self, state, pod, node):
        if len(node.pods) == 2:
            raise RuntimeError(f"two pods on {node.name}")
        return 1


class Starts(NodeFilterPlugin, NodeScorePlugin, ShapeSigned):
    """Finds nothing of an earlier attempt in its state; does not declare what it reads."""

    name = "Starts"

    def filter_node(self, state, pod, node):
        seen = state.get(self.name) or ()
        state.write(self.name, (*seen, node.name))
        return unschedulable("seen") if node.name in seen else None

    def score_node(self, state, pod, node):
        scored = state.get("scored") or 0
        state.write("scored", scored + 1)
        return min(100, scored)


class ByRoom(ScorePlugin, ShapeSigned):
    """Reads node sums, and exceeds the maximum score on nodes with many pods."""

    name = "ByRoom"
    reads = Reads.NODE_SUMS

    def score(self, state, pod, nodes):
        return nodes.pod_count() * 30


class Ranks(ScorePlugin, ShapeSigned):
    """Reads node objects, and normalizes over the feasible nodes."""

    name = "Ranks"
    reads = Reads.NODES

    def score(self, state, pod, nodes):
        return nodes.take(nodes.table.allowed_pods) % 7

    def normalize(self, state, pod, scores, feasible):
        best = int(scores.max(initial=0, where=feasible))
        return (scores == best) * 100


class FailsWithFew(Ranks):
    name = "FailsWithFew"

    def normalize(self, state, pod, scores, feasible):
        if feasible.sum() < 3:
            raise RuntimeError("few")
        return scores


USERS = (
    EvenPods,
    FirstLetters,
    FewPods,
    ByName,
    Crowd,
    CrowdUnsaid,
    Narrow,
    Picky,
    Unsigned,
    Raises,
    RaisesInScore,
    Starts,
)
