"""The JSON schema for editors accepts what the reference accepts, and rejects local errors."""

import jsonschema
import pytest

from golden import compare
from stowplan.kube.config.reports.fields import json_schema
from stowplan.scheduler.in_tree.discovery import declarations
from support.examples import sampled
from support.older_configurations import config, named
from support.tables import every_case

SCHEMA = json_schema(declarations())
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)


def profile(**fields):
    return config("v1", profiles=[fields])


def args(plugin, **fields):
    return profile(pluginConfig=[{"name": plugin, "args": fields}])


def test_the_schema_is_valid():
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_configurations_of_the_reference_are_valid():
    with every_case() as case:
        for n, row in sampled(list(enumerate(compare.rows("config"), 1))):
            if "error" in row:
                continue
            for written in ("config", "written"):
                with case(f"line {n}, {written}"):
                    assert [error.message for error in VALIDATOR.iter_errors(row[written])] == []


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(config("v1", parallelizm=1), id="an unknown field"),
        pytest.param(config("v1", parallelism="1"), id="a wrong type"),
        pytest.param(config("v1", parallelism=0), id="out of range"),
        pytest.param(config("v1", parallelism=2**31), id="too large"),
        pytest.param(config("v1", percentageOfNodesToScore=101), id="no percentage"),
        pytest.param(config("v1beta3"), id="another version"),
        pytest.param({"kind": "KubeSchedulerConfiguration"}, id="no version"),
        pytest.param(config("v1", leaderElection={"leaseDuration": "15"}), id="no duration"),
        pytest.param(config("v1", leaderElection={"resourceLock": "endpoints"}), id="another lock"),
        pytest.param(profile(plugins={"filters": {}}), id="no extension point"),
        pytest.param(profile(plugins={"filter": {"enabled": [{"weight": "1"}]}}), id="no weight"),
        pytest.param(args("NodeResourcesFit", scoringStrategy={"type": "Best"}), id="no strategy"),
        pytest.param(args("NodeResourcesFit", hardPodAffinityWeight=1), id="another's argument"),
        pytest.param(args("InterPodAffinity", hardPodAffinityWeight=101), id="an argument out of range"),
    ],
)
def test_rejected_documents(document):
    assert not VALIDATOR.is_valid(document)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(config("v1", profiles=None, leaderElection=None, parallelism=None), id="nulls"),
        pytest.param(profile(plugins={"filter": {"enabled": named("Mine")}}), id="a user's plugin"),
        pytest.param(args("Mine", anything=[1]), id="a user's arguments"),
        pytest.param(config("v1", leaderElection={"leaseDuration": "1h2m3.5s"}), id="a duration"),
        pytest.param(profile(pluginConfig=[{"name": "NodeResourcesFit", "args": None}]), id="no arguments"),
    ],
)
def test_accepted_documents(document):
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


def test_plugins_are_offered_where_they_can_run():
    point = SCHEMA["definitions"]["Plugins"]["properties"]["queueSort"]
    text = str(point)
    assert "PrioritySort" in text
    assert "NodeAffinity" not in text
