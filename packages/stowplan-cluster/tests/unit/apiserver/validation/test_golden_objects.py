"""Objects recorded with the reference scheduler: only those that are really invalid are refused."""

import copy
import re

import pytest
from hypothesis import given

from golden import compare
from support.examples import examples
from support.scheduling import worlds

#: Random clusters may violate these rules, which a real API server would refuse and the scheduler ignores.
EXPECTED_ERRORS = re.compile(
    "|".join(
        (
            r"Required value: Limit must be set for non overcommitable resources$",
            r"^spec\.ports: Required value$",
            r"hostPort: Duplicate value: ",
            r"taints must be unique by key and effect pair$",
            r"must be greater than or equal to aggregate container requests of ",
            r"exists in both matchLabelKeys and labelSelector$",
            r"HugePages require cpu or memory$",
            r"can only use minDomains if whenUnsatisfiable=DoNotSchedule",
            r"must not be specified when labelSelector is not set$",
            r"^spec\.volumes\[\d+\]\.name: Duplicate value: ",
            r"{topologyKey, whenUnsatisfiable}: Duplicate value",
            r"Only one reference can have Controller set to true",
        )
    )
)


def objects_of(category):
    for scenario in compare.scenarios(category):
        yield from scenario["objects"]
        yield from scenario["pods"]
        for change in scenario.get("changes", ()):
            yield from (change[side] for side in ("old", "new") if change.get(side))


@pytest.mark.parametrize("category", compare.CLAIMED)
def test_recorded_objects_are_valid(server, category):
    found = {error for obj in objects_of(category) for error in server.create(copy.deepcopy(obj))}
    assert {error for error in found if not EXPECTED_ERRORS.search(error)} == set()


@examples(60)
@given(node=worlds.nodes(), pod=worlds.pods())
def test_generated_objects_are_valid(server, node, pod):
    for drawn in (node, pod):
        unexpected = [error for error in server.create(drawn) if not EXPECTED_ERRORS.search(error)]
        assert unexpected == []
