"""Scores by cells, in columns: as node by node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.plugins.objects import parse_quantity
from stowplan_scheduler_plugins.numa_columns import wanted_amount
from stowplan_scheduler_plugins.numa_scores import CELL_SCORES, fewest_cells, mean, worst_cell
from support import numa
from support.examples import examples

WEIGHTS = {"cpu": 3, "memory": 1, numa.DEVICE: 0}
LISTS = st.lists(numa.LISTS, min_size=1, max_size=3)


def both_forms(lists):
    nano = [{name: parse_quantity(amount) for name, amount in one.items()} for one in lists]
    return nano, [{name: wanted_amount(name, amount) for name, amount in one.items()} for one in nano]


def drawn(data, resources):
    topologies = [data.draw(numa.topologies(f"n{i}")) for i in range(len(resources))]
    return numa.cells_of_all(numa.nodes_with(resources, topologies))


@pytest.mark.parametrize("strategy", CELL_SCORES)
@examples(80)
@given(data=st.data(), resources=numa.OF_NODES, lists=LISTS)
def test_scores_of_cells_are_those_of_each_node(strategy, data, resources, lists):
    cells, plain = drawn(data, resources)
    nano, stored = both_forms(lists)
    found = mean([worst_cell(CELL_SCORES[strategy], one, cells, WEIGHTS) for one in stored])
    rule = numa.CELL_SCORES[strategy]
    assert found.tolist() == [
        numa.mean([numa.worst_cell(rule, one, of_node, WEIGHTS) for one in nano]) for of_node in plain
    ]


@examples(120)
@given(data=st.data(), resources=numa.OF_NODES, lists=LISTS, qos=st.sampled_from(("Guaranteed", "Burstable")))
def test_the_fewest_cells_are_those_of_each_node(data, resources, lists, qos):
    cells, plain = drawn(data, resources)
    nano, stored = both_forms(lists)
    scores = fewest_cells(stored, cells, qos).tolist()
    limits = cells.max_cells().tolist()
    topologies = cells.layout.tolist()
    for score, of_node, limit, layout in zip(scores, plain, limits, topologies, strict=True):
        if layout:
            assert score == numa.fewest_cells(nano, of_node, qos, limit)
