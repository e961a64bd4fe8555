"""An extender for tests: its questions and answers are lists and dicts of names."""

from stowplan.scheduler.framework.extender import Extender, Filtered, Victims


class FakeExtender(Extender):
    """Its questions have names of nodes, or of nodes with their victims.

    A filter is answered with the remaining names, or `{"kept": […], "failed": {…}, "unresolvable": {…}}`; a prioritize
    with `{name: score}`; a preempt with `{name: [victims' UIDs]}`; a bind with "bound" or an error message.
    """

    def __init__(self, name, *, ignorable=False, weight=1, only=None, **points):
        self.name, self.ignorable, self.weight = name, ignorable, weight
        self.filters, self.prioritizes, self.preempts, self.binds = (
            bool(points.pop(point, False)) for point in ("filters", "prioritizes", "preempts", "binds")
        )
        assert not points
        #: A label of the pods that it is interested in; None: all.
        self._only = only

    def is_interested(self, pod):
        return self._only is None or self._only in pod.labels

    def filter_question(self, pod, nodes):
        return {"pod": pod.key, "nodes": [node.metadata.name for node in nodes]}

    def read_filtered(self, answer, asked):
        if isinstance(answer, dict):
            return Filtered(answer.get("kept", ()), answer.get("failed", {}), answer.get("unresolvable", {}))
        unknown = set(answer) - set(asked)
        if unknown:
            raise ValueError(f"was not asked about {sorted(unknown)}")
        return Filtered(answer)

    def prioritize_question(self, pod, nodes):
        return {"pod": pod.key, "nodes": [node.metadata.name for node in nodes]}

    def read_scores(self, answer):
        return {name: int(score) for name, score in answer.items()}

    def preempt_question(self, pod, candidates):
        return {c.node_name: [victim.uid for victim in c.victims] for c in candidates}

    def read_candidates(self, answer):
        return {name: Victims(tuple(uids)) for name, uids in answer.items()}

    def bind_question(self, pod, node_name):
        return {"pod": pod.key, "node": node_name}

    def read_bound(self, answer):
        if answer != "bound":
            raise ValueError(answer)
