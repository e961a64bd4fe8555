"""Deployments and ReplicaSets on the embedded cluster and in a simulation: the same pods after each settled moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.live.two_clocks import RollOut, Scale, agree, template

sizes = st.integers(0, 9)
amounts = st.sampled_from([0, 1, 3, "25%", "60%", "100%"])
strategies = st.one_of(
    st.just({"type": "Recreate"}),
    st.builds(
        lambda surge, unavailable: {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge or (0 if unavailable else 1), "maxUnavailable": unavailable},
        },
        amounts,
        amounts,
    ),
)
changes = st.one_of(
    sizes.map(Scale),
    st.builds(
        lambda cpu, seconds: RollOut({"template": template(cpu), "minReadySeconds": seconds}),
        st.sampled_from([100, 200, 300]),
        st.sampled_from([0, 13]),
    ),
)


@examples(15)
@given(sizes, strategies, st.sampled_from([0, 13]), st.lists(changes, max_size=8), st.sampled_from([0, 19]))
def test_deployments(replicas, strategy, min_ready, changes, termination):
    spec = {
        "replicas": replicas,
        "strategy": strategy,
        "minReadySeconds": min_ready,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(100),
    }
    agree({"web": {"kind": "Deployment", "spec": spec}}, changes, termination=termination)


@examples(10)
@given(sizes, st.lists(sizes.map(lambda size: Scale(size, "ReplicaSet")), max_size=8), st.sampled_from([0, 19]))
def test_replica_sets(replicas, changes, termination):
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(100)}
    agree({"web": {"kind": "ReplicaSet", "spec": spec}}, changes, termination=termination)
