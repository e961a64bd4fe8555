"""DaemonSets on the embedded cluster and in a simulation: the same pods after each settled moment."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.live.two_clocks import RollOut, agree, template

KIND = "DaemonSet"


class Taint(NamedTuple):
    """A node's only taint, for a while."""

    node: str
    effect: str
    seconds: int

    def event(self):
        return {"taint": {"nodes": [self.node], "key": "team", "effect": self.effect, "for": self.seconds}}

    def apply(self, cluster):
        self._set(cluster, [{"key": "team", "effect": self.effect}])

    def undo(self, cluster):
        self._set(cluster, [])

    def _set(self, cluster, taints):
        cluster.change("Node", self.node, lambda node: node["spec"].update(taints=taints))


amounts = st.sampled_from([1, 2, "40%", "100%"])
strategies = st.one_of(
    st.just({"type": "OnDelete", "rollingUpdate": None}),
    st.tuples(amounts, st.booleans()).map(
        lambda found: {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": found[0], "maxUnavailable": 0}
            if found[1]
            else {"maxSurge": 0, "maxUnavailable": found[0]},
        }
    ),
)
rollouts = st.builds(
    lambda cpu, strategy, seconds: RollOut(
        {"template": template(cpu), "updateStrategy": strategy, "minReadySeconds": seconds}, KIND
    ),
    st.sampled_from([100, 200, 300]),
    strategies,
    st.sampled_from([0, 13]),
)
taints = st.builds(
    Taint, st.sampled_from(["node-1", "node-2"]), st.sampled_from(["NoSchedule", "NoExecute"]), st.just(15)
)


@examples(12)
@given(
    st.integers(2, 5),
    strategies,
    st.lists(st.one_of(rollouts, rollouts, taints), max_size=8),
    st.sampled_from([0, 19]),
)
def test_daemon_sets(nodes, strategy, changes, termination):
    spec = {
        "updateStrategy": strategy,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(100),
    }
    agree({"web": {"kind": KIND, "spec": spec}}, changes, nodes=nodes, termination=termination)
