"""Which cells fit a request, in columns: as node by node."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.plugins.objects import parse_quantity
from stowplan_scheduler_plugins.numa_columns import wanted_amount
from stowplan_scheduler_plugins.numa_fit import fitting_cells, take
from support import numa
from support.examples import examples

CLASSES = st.sampled_from(("Guaranteed", "Burstable", "BestEffort"))


def lowest(bits):
    """The lowest bit's number; None if there is none."""
    return None if not bits else (int(bits) & -int(bits)).bit_length() - 1


@examples(120)
@given(data=st.data(), resources=numa.OF_NODES, lists=st.lists(numa.LISTS, min_size=1, max_size=3), qos=CLASSES)
def test_cells_fit_one_request_after_the_other_as_node_by_node(data, resources, lists, qos):
    topologies = [data.draw(numa.topologies(f"n{i}")) for i in range(len(resources))]
    cells, plain = numa.cells_of_all(numa.nodes_with(resources, topologies))
    nano = [{name: parse_quantity(amount) for name, amount in one.items()} for one in lists]
    for requests in nano:
        stored = {name: wanted_amount(name, amount) for name, amount in requests.items()}
        fitting = fitting_cells(stored, cells, qos)
        allocatable = [{"cpu", "memory", "pods", *one} for one in resources]
        expected = [
            numa.fitting_cell(requests, of_node, names, qos) for of_node, names in zip(plain, allocatable, strict=True)
        ]
        assert [lowest(bits) for bits in fitting.tolist()] == expected
        take(stored, cells, fitting & (~fitting + np.uint64(1)), qos)
        for of_node, cell in zip(plain, expected, strict=True):
            if cell is not None:
                numa.take(requests, of_node, cell, qos)
