"""Whose eviction exceeds a budget, compared with the plain rule, node by node."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.preemption.disruption_budgets import violating_pods, violating_units
from stowplan.testing import a_pod
from support.examples import examples
from support.scheduling.worlds import budget, struct

LABELS = ({}, {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "front"})
SELECTORS = (
    None,
    {},
    {"matchLabels": {"app": "web"}},
    {"matchLabels": {"tier": "front"}},
    {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "app", "operator": "Nonsense"}]},
)
NAMESPACES = ("default", "blue")

#: (namespace, labels) of the pods of each node.
nodes = st.lists(
    st.lists(st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(LABELS)), min_size=1, max_size=5),
    min_size=1,
    max_size=3,
)
#: (namespace, selector, disruptions allowed, numbers of the disrupted pods).
budgets = st.lists(
    st.tuples(
        st.sampled_from(NAMESPACES),
        st.sampled_from(SELECTORS),
        st.integers(0, 2),
        st.sets(st.integers(0, 14), max_size=3),
    ),
    max_size=4,
)


def matches(selector, labels):
    match selector:
        case {"matchLabels": wanted}:
            return wanted.items() <= labels.items()
        case {"matchExpressions": [{"operator": "Exists"}]}:
            return "app" in labels
    return False


def covering(pdbs, name, namespace, labels):
    """The budgets that an eviction of the pod counts for."""
    return [
        i
        for i, (of, selector, _, disrupted) in enumerate(pdbs)
        if of == namespace and matches(selector, labels) and int(name[1:]) not in disrupted
    ]


@examples(300)
@given(nodes, budgets)
def test_violations_are_those_of_the_plain_rule(nodes, pdbs):
    state = ClusterState()
    for number, (namespace, selector, allowed, disrupted) in enumerate(pdbs):
        names = [f"p{i}" for i in disrupted]
        state.put_object(struct(budget(f"b{number}", selector, allowed, namespace_name=namespace, disrupted=names)))
    slots, expected, by_units, number = [], [], [], 0
    units_left = [allowed for _, _, allowed, _ in pdbs]
    units = []
    for on, pods in enumerate(nodes):
        remaining = [allowed for _, _, allowed, _ in pdbs]
        for namespace, labels in pods:
            name, number = f"p{number}", number + 1
            info = state.add_pod(struct(a_pod(name, namespace).uid(name).labels(labels).on(f"n{on}")))
            slots.append(info.slot)
            violates = False
            for i in covering(pdbs, name, namespace, labels):
                remaining[i] -= 1
                violates = violates or remaining[i] < 0
            expected.append(violates)
            units.append([info])
            by_units.append(False)
            for i in covering(pdbs, name, namespace, labels):
                units_left[i] -= 1
                if units_left[i] < 0:
                    by_units[-1] = True
                    break
    counts = np.array([len(pods) for pods in nodes], np.int64)
    found = violating_pods(state, state.pods, np.array(slots, np.int64), np.cumsum(counts) - counts, counts)
    assert found.tolist() == expected
    assert violating_units(state.objects, units, all_pods=False) == by_units
