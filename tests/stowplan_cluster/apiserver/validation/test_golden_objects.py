"""The objects that the reference scheduler was recorded with: only what is really wrong with some is told."""

import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import given

from support.examples import examples
from support.scheduling import worlds

DATA = Path(__file__).parents[3] / "golden" / "data"
FILES = sorted(path.name for path in DATA.glob("*.gz") if not path.name.startswith("config"))

#: Random clusters break these rules now and then; the scheduler does not care, a real API would.
REALLY_WRONG = re.compile(
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


def objects_of(name):
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        for line in lines:
            scenario = json.loads(line)
            yield from scenario["objects"]
            yield from scenario["pods"]
            for change in scenario.get("changes", ()):
                yield from (change[side] for side in ("old", "new") if change.get(side))


@pytest.mark.parametrize("name", FILES)
def test_recorded_objects_are_good(server, name):
    unexpected = {error for obj in objects_of(name) for error in server.create(obj) if not REALLY_WRONG.search(error)}
    assert unexpected == set()


@examples(60)
@given(node=worlds.nodes(), pod=worlds.pods())
def test_drawn_objects_are_good(server, node, pod):
    for drawn in (node, pod):
        unexpected = [error for error in server.create(drawn) if not REALLY_WRONG.search(error)]
        assert unexpected == []
