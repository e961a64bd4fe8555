"""StatefulSets on the embedded cluster and in a simulation: the same pods after each settled moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.live.two_clocks import RollOut, Scale, agree, template

KIND = "StatefulSet"

sizes = st.integers(0, 5)
strategies = st.one_of(
    st.just({"type": "OnDelete", "rollingUpdate": None}),
    st.integers(0, 3).map(lambda partition: {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}),
)
rollouts = st.builds(
    lambda cpu, strategy, seconds: RollOut(
        {"template": template(cpu), "updateStrategy": strategy, "minReadySeconds": seconds}, KIND
    ),
    st.sampled_from([100, 200, 300]),
    strategies,
    st.sampled_from([0, 13]),
)


@examples(12)
@given(
    sizes,
    st.sampled_from(["OrderedReady", "Parallel"]),
    strategies,
    st.integers(0, 2),
    st.lists(st.one_of(sizes.map(lambda size: Scale(size, KIND)), rollouts), max_size=8),
    st.sampled_from([0, 19]),
)
def test_stateful_sets(replicas, policy, strategy, start, changes, termination):
    spec = {
        "replicas": replicas,
        "podManagementPolicy": policy,
        "updateStrategy": strategy,
        "ordinals": {"start": start},
        "serviceName": "web",
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(100),
    }
    agree({"web": {"kind": KIND, "spec": spec}}, changes, termination=termination)
