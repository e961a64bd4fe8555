"""Search spaces: errors have their location; every point is a configuration that kube-scheduler loads."""

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan import load_config
from stowplan.scheduler.in_tree.discovery import declarations
from stowplan_lab.simulation.definition.scenario_loading import load_scenario
from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.tuning.policies import policy_of, rebalanced
from stowplan_lab.tuning.setup import candidate
from stowplan_lab.tuning.space import RATIO, SpaceSpec, chosen, default_space, load_space, space_schema
from support.plugins.answering_plugins import configuration

SCENARIO = load_scenario(
    {
        "cluster": {"groups": [{"name": "a", "capacity": {"cpu": 1}}]},
        "workloads": [{"name": "batch", "manifest": {"kind": "Pod"}}, {"name": "web", "manifest": {"kind": "Pod"}}],
    }
).scenario
BASE = load_config().to_dict()

POLICY = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [{"name": "p", "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}}}],
}
REBALANCED = load_scenario(
    {
        "duration": "1d",
        "cluster": {"groups": [{"name": "a", "capacity": {"cpu": 1}}]},
        "events": [{"every": "1h", "rebalance": {"policy": POLICY}}],
    }
).scenario


class Drawing:
    """A chooser driven by hypothesis."""

    def __init__(self, data):
        self._data = data

    def whole(self, name, low, high):
        return self._data.draw(st.integers(low, high), name)

    def one_of(self, name, choices):
        return self._data.draw(st.sampled_from(choices), name)


class Fixed:
    """Chooses given values, by the end of the parameter's name; otherwise the lowest or first."""

    def __init__(self, **given):
        self._given = given

    def whole(self, name, low, high):
        return self._given.get(name.rpartition("/")[2], low)

    def one_of(self, name, choices):
        return self._given.get(name.rpartition("/")[2], choices[0])


def read(text):
    import yaml

    return load_space(yaml.safe_load(text), SCENARIO, declarations())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("profiles: []", "profiles: must not be empty", id="no profile"),
        pytest.param("profiles: [{weights: {NodeResourceFit: [0, 1]}}]", "did you mean NodeResourcesFit", id="plugin"),
        pytest.param("profiles: [{weights: {NodeName: [0, 1]}}]", "no plugin of this name scores", id="scores nothing"),
        pytest.param("profiles: [{weights: {ImageLocality: [5, 1]}}]", "[low, high] within 0 to 100", id="range"),
        pytest.param("profiles: [{strategy: [MostAlocated]}]", "did you mean MostAllocated", id="strategy"),
        pytest.param("profiles: [{name: a}]", "nothing is to be tuned", id="nothing to tune"),
        pytest.param("profiles: [{resources: {cpu: [0, 5]}}]", "within 1 to 100", id="a resource's weight is above 0"),
        pytest.param("profiles: [{strategy: [MostAllocated], shape: [50, 0]}]", "percentages", id="shape"),
        pytest.param("profiles: [{strategy: [MostAllocated], workloads: [wep]}]", "did you mean web", id="workload"),
        pytest.param(
            "profiles: [{name: a, strategy: [MostAllocated], workloads: [web]},"
            " {name: b, strategy: [MostAllocated], workloads: [web]}]",
            "is also assigned to profile 'a'",
            id="a workload with two profiles",
        ),
        pytest.param("profiles: [{percentageOfNodesToScore: [1, 101]}]", "within 0 to 100", id="percentage"),
        pytest.param("profils: []", "did you mean profiles", id="field"),
        pytest.param("[]", "want an object with profiles", id="a list"),
    ],
)
def test_problems(text, message, tmp_path):
    path = tmp_path / "space.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError) as error:
        load_space(path, SCENARIO, declarations())
    assert message in str(error.value)
    assert str(error.value).startswith(str(path))


def test_problems_have_lines(tmp_path):
    path = tmp_path / "space.yaml"
    path.write_text("profiles:\n- name: a\n  strategy:\n  - Most\n")
    with pytest.raises(ScenarioError, match=r"line 4: profiles\[0\]\.strategy\[0\]"):
        load_space(path, SCENARIO, declarations())


FULL = """
profiles:
- name: default-scheduler
  weights: {NodeResourcesFit: [0, 100], ImageLocality: [0, 5], PodTopologySpread: [0, 10]}
  strategy: [LeastAllocated, MostAllocated, RequestedToCapacityRatio]
  resources: {cpu: [1, 100], memory: [1, 100], example.com/gpu: [1, 9]}
  percentageOfNodesToScore: [0, 100]
- name: batch
  workloads: [batch]
  strategy: [RequestedToCapacityRatio]
  shape: [0, 25, 75, 100]
"""


def weights_of(document):
    """Plugin -> weight, of the Score plugins of the first profile."""
    return {plugin.name: plugin.weight for plugin in load_config(document).profiles[0].points["score"]}


@given(st.data())
def test_every_point_is_a_configuration(data):
    space = read(FULL)
    values = chosen(space, Drawing(data))
    document = json.loads(json.dumps(candidate(BASE, space, values)))
    found = load_config(document)
    profiles = {profile["schedulerName"]: profile for profile in found.to_dict()["profiles"]}
    assert list(profiles) == ["default-scheduler", "batch"]
    fit = {one["name"]: one["args"] for one in profiles["batch"]["pluginConfig"]}["NodeResourcesFit"]
    assert fit["scoringStrategy"]["type"] == RATIO
    assert [one["utilization"] for one in fit["scoringStrategy"]["requestedToCapacityRatio"]["shape"]] == [
        0,
        25,
        75,
        100,
    ]
    effective = weights_of(document)
    for plugin in space.profiles[0].weights:
        wanted = values[f"default-scheduler/weight/{plugin}"]
        assert effective.get(plugin, 0) == wanted
    assert load_config().to_dict() == BASE, "the base was modified"


@pytest.mark.parametrize(
    "plugins",
    [
        pytest.param({}, id="by default"),
        pytest.param({"score": {"enabled": [{"name": "ImageLocality", "weight": 9}]}}, id="at score"),
        pytest.param({"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeAffinity"}]}}, id="all off"),
        pytest.param({"score": {"disabled": [{"name": "ImageLocality"}]}}, id="off"),
        pytest.param({"multiPoint": {"disabled": [{"name": "ImageLocality"}]}}, id="off everywhere"),
    ],
)
@pytest.mark.parametrize("weight", [0, 1, 7])
def test_weights_apply_however_the_base_enables_a_plugin(plugins, weight):
    space = read("profiles: [{weights: {ImageLocality: [0, 9]}}]")
    own = configuration({"plugins": plugins})
    base = load_config(own).to_dict()
    before = weights_of(base)
    after = weights_of(candidate(base, space, chosen(space, Fixed(ImageLocality=weight))))
    assert after.pop("ImageLocality", 0) == weight
    before.pop("ImageLocality", None)
    assert after == before


def test_conditional_parameters():
    space = default_space("default-scheduler")
    assert not any("shape" in name for name in chosen(space, Fixed(strategy="MostAllocated")))
    assert sum("shape" in name for name in chosen(space, Fixed(strategy=RATIO))) == 3


def test_the_schema_agrees_with_the_decoder():
    import yaml

    jsonschema.validate(yaml.safe_load(FULL), space_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"profiles": [{"strategi": []}]}, space_schema())
    assert isinstance(read(FULL), SpaceSpec)


def test_rebalancing():
    ranges = {"LowNodeUtilization": {"thresholds.cpu": [10, 40], "targetThresholds.cpu": [50, 90]}}
    given = {"rebalance": {"everyMinutes": [10, 240], "maxMoves": [1, 5], "arguments": ranges}}
    space = load_space(given, REBALANCED, declarations())
    values = chosen(space, Fixed(everyMinutes=30, maxMoves=3))
    assert values == {
        "rebalance/everyMinutes": 30,
        "rebalance/maxMoves": 3,
        "rebalance/LowNodeUtilization/thresholds.cpu": 10,
        "rebalance/LowNodeUtilization/targetThresholds.cpu": 50,
    }
    found = rebalanced(REBALANCED, space, values)
    (event,) = found.events
    assert event.every.source == "30m"
    assert event.rebalance.max_moves == 3
    arguments = {"thresholds": {"cpu": 10}, "targetThresholds": {"cpu": 50}}
    assert policy_of(found)["profiles"][0]["pluginConfig"] == [{"name": "LowNodeUtilization", "args": arguments}]
    assert "pluginConfig" not in policy_of(REBALANCED)["profiles"][0]
    assert candidate(BASE, space, values) == BASE


@pytest.mark.parametrize(
    ("scenario", "given", "problem"),
    [
        (SCENARIO, {"maxMoves": [1, 2]}, "rebalance: want a scenario with one event rebalance, got 0"),
        (REBALANCED, {}, "rebalance: nothing is to be tuned: give everyMinutes, maxMoves or arguments"),
        (REBALANCED, {"everyMinutes": [0, 5]}, "rebalance.everyMinutes: want [low, high] within 1 to"),
        (REBALANCED, {"arguments": {"PodLifeTime": {"x": [1, 2]}}}, "rebalance.arguments.PodLifeTime: the policy"),
    ],
)
def test_mistakes_of_rebalancing(scenario, given, problem):
    with pytest.raises(ScenarioError) as raised:
        load_space({"rebalance": given}, scenario, declarations())
    assert problem in str(raised.value)
