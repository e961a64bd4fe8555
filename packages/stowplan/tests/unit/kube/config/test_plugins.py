"""Which plugins run where: merging with the defaults, expanding multiPoint, weights, and refusals of the reference."""

import pytest

from stowplan.kube.config import DEFAULT_FEATURES, ConfigError, PluginDeclaration, load_config
from stowplan.kube.config.features import default_features
from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.scheduler.in_tree.discovery import declarations

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
PREFIX = "initializing profiles: creating profile for scheduler name a: "


def plugin(text):
    name, _, weight = text.partition("=")
    return {"name": name, **({"weight": int(weight)} if weight else {})}


def plugin_set(enabled="", disabled=""):
    return {
        "enabled": [plugin(text) for text in enabled.split()],
        "disabled": [plugin(text) for text in disabled.split()],
    }


def with_mine(point):
    """The in-tree plugins and one more."""
    return {**declarations(), "Mine": PluginDeclaration(name="Mine", points=frozenset({point}))}


def load(plugins=None, features=DEFAULT_FEATURES, **points):
    profile = {"schedulerName": "a", "plugins": points}
    config = load_config({**HEADER, "profiles": [profile]}, plugins=plugins or declarations(), features=features)
    return config.profile("a").points


def shown(refs):
    return " ".join(f"{ref.name}={ref.weight}" if ref.weight else ref.name for ref in refs)


DEFAULT_SCORE = (
    "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 InterPodAffinity=2 "
    "DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1"
)
AFFINITY_LAST = (
    "TaintToleration=3 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 InterPodAffinity=2 "
    "DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1 NodeAffinity=5"
)


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ("placementGenerate", ""),
        ("placementScore", "NodeResourcesFit=1"),
    ],
)
def test_order_without_customisation(point, expected):
    assert shown(load()[point]) == expected


@pytest.mark.parametrize(
    ("custom", "point", "expected"),
    [
        pytest.param(
            {
                "multiPoint": plugin_set("NodeAffinity=9 GangScheduling", "PodTopologySpread InterPodAffinity"),
                "score": plugin_set("PodTopologySpread=4"),
            },
            "score",
            "TaintToleration=3 NodeAffinity=9 NodeResourcesFit=1 VolumeBinding=1 DynamicResources=2 "
            "NodeResourcesBalancedAllocation=1 ImageLocality=1 PodTopologySpread=4",
            id="multiPoint keeps places, the point's own come last",
        ),
        pytest.param(
            {"multiPoint": plugin_set("GangScheduling")}, "permit", "GangScheduling", id="a gated plugin can be named"
        ),
        pytest.param(
            {"multiPoint": plugin_set("PrioritySort DefaultBinder NodeResourcesFit=3", "*")},
            "score",
            "NodeResourcesFit=3",
            id="only named plugins",
        ),
        pytest.param(
            {"multiPoint": plugin_set("NodeAffinity=5", "NodeAffinity")},
            "score",
            AFFINITY_LAST,
            id="disable and enable at multiPoint",
        ),
        pytest.param({"preScore": plugin_set("", "*")}, "score", DEFAULT_SCORE, id="a point does not touch another"),
    ],
)
def test_custom_sets(custom, point, expected):
    assert shown(load(**custom)[point]) == expected


@pytest.mark.parametrize(
    ("custom", "expected"),
    [
        pytest.param({"filter": plugin_set("Nope")}, 'FilterPlugin "Nope" does not exist', id="unknown"),
        pytest.param(
            {"multiPoint": plugin_set("Nope")}, 'PreFilterPlugin "Nope" does not exist', id="unknown everywhere"
        ),
        pytest.param(
            {"score": plugin_set("NodeName")}, 'plugin "NodeName" does not extend ScorePlugin plugin', id="wrong point"
        ),
        pytest.param(
            {"score": plugin_set("NodeAffinity NodeAffinity")},
            'plugin "NodeAffinity" already registered as "ScorePlugin"',
            id="twice at a point",
        ),
        pytest.param(
            {"multiPoint": plugin_set("NodeAffinity NodeAffinity")},
            'plugin "NodeAffinity" already registered as "PreFilterPlugin"',
            id="twice at multiPoint",
        ),
        pytest.param(
            {"multiPoint": plugin_set("", "*")},
            'only one queue sort plugin required for profile with scheduler name "a", but got 0',
            id="no queue sort",
        ),
        pytest.param(
            {"bind": plugin_set("", "*")},
            'at least one bind plugin is needed for profile with scheduler name "a"',
            id="no bind",
        ),
        pytest.param(
            {"score": plugin_set("NodeAffinity=-1 ImageLocality")},
            "score plugins: total score of Score plugins could overflow",
            id="negative weight",
        ),
    ],
)
def test_sets_that_do_not_start(custom, expected):
    with pytest.raises(ConfigError) as caught:
        load(**custom)
    assert str(caught.value) == PREFIX + expected


def test_two_placement_generators_do_not_start():
    known = with_mine("placementGenerate")
    with pytest.raises(ConfigError, match=r'at most one placement generate plugin is allowed .* name "a"$'):
        load(known, multiPoint=plugin_set("Mine TopologyPlacementGenerator"))


def test_queue_sort_must_be_the_same_in_all_profiles():
    known = with_mine("queueSort")
    sorted_otherwise = {"multiPoint": plugin_set("Mine", "PrioritySort")}
    profiles = [{"schedulerName": "a"}, {"schedulerName": "b", "plugins": sorted_otherwise}]
    with pytest.raises(ConfigError) as caught:
        load_config({**HEADER, "profiles": profiles}, plugins=known)
    assert str(caught.value) == (
        'initializing profiles: different queue sort plugins for profile "b": "Mine", first: "PrioritySort"'
    )


def test_gates_decide_the_default_set():
    gates = DEFAULT_FEATURES.with_gates(
        {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True, "NodeDeclaredFeatures": False}
    )
    points = load(features=gates)
    assert shown(points["permit"]) == "GangScheduling"
    assert shown(points["placementGenerate"]) == "TopologyPlacementGenerator"
    assert shown(points["placementScore"]) == "NodeResourcesFit=1 PodGroupPodsCount=1"
    assert "NodeDeclaredFeatures" not in shown(points["filter"])


def test_profiles_are_built_one_by_one_and_the_first_failure_wins():
    known = with_mine("queueSort")
    profiles = [
        {"schedulerName": "a"},
        {"schedulerName": "b", "plugins": {"multiPoint": plugin_set("Mine", "PrioritySort")}},
        {"schedulerName": "c", "plugins": {"filter": plugin_set("Nope")}},
    ]
    with pytest.raises(ConfigError, match='different queue sort plugins for profile "b"'):
        load_config({**HEADER, "profiles": profiles}, plugins=known)


def test_queue_sort_arguments_must_be_the_same_in_all_profiles():
    known = with_mine("queueSort")
    profiles = [
        {
            "schedulerName": name,
            "plugins": {"multiPoint": plugin_set("Mine", "PrioritySort")},
            "pluginConfig": [{"name": "Mine", "args": {"of": name}}],
        }
        for name in "ab"
    ]
    with pytest.raises(ConfigError, match='different queue sort plugin args for profile "b"'):
        load_config({**HEADER, "profiles": profiles}, plugins=known)


# -- the point for groups that fit nowhere, since 1.37 ----------------------------------------------------------------


def test_the_point_of_groups_is_expanded_from_multi_point():
    def found(**points):
        return shown(load(with_mine("podGroupPostFilter"), **points)["podGroupPostFilter"])

    assert found() == "DefaultPreemption"
    assert found(multiPoint=plugin_set("Mine")) == "DefaultPreemption Mine"
    assert found(podGroupPostFilter=plugin_set("Mine DefaultPreemption")) == "DefaultPreemption Mine"
    assert found(podGroupPostFilter=plugin_set("Mine", "*")) == "Mine"
    assert found(podGroupPostFilter=plugin_set("", "DefaultPreemption")) == ""


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (plugin_set("Nope"), 'PodGroupPostFilterPlugin "Nope" does not exist'),
        (plugin_set("NodeName"), 'plugin "NodeName" does not extend PodGroupPostFilterPlugin plugin'),
    ],
)
def test_what_cannot_run_at_the_point_of_groups_is_refused(point, message):
    with pytest.raises(ConfigError, match=message):
        load(podGroupPostFilter=point)


def test_1_36_does_not_know_the_point_of_groups():
    features = default_features(V1_36)
    assert "podGroupPostFilter" not in load(features=features)
    with pytest.raises(ConfigError, match=r'unknown field "profiles\[0\].plugins.podGroupPostFilter"'):
        load(features=features, podGroupPostFilter=plugin_set())
    for version in (V1_36, V1_37):
        written = load_config(None, plugins=declarations(), features=default_features(version)).to_dict()
        assert ("podGroupPostFilter" in written["profiles"][0]["plugins"]) is (version == V1_37)


# -- the plugin for pods that are to grow on their node, since 1.37 ---------------------------------------------------


def test_the_plugin_of_resizes_is_on_with_its_gate():
    gates = default_features(V1_37).with_gates({"InPlacePodVerticalScalingSchedulerPreemption": True})
    for point in ("preFilter", "filter", "permit"):
        assert shown(load(features=gates)[point]).endswith("DeferredPodScheduling")
        assert "DeferredPodScheduling" not in shown(load(features=default_features(V1_37))[point])


@pytest.mark.parametrize("point", ["multiPoint", "permit"])
def test_1_36_does_not_know_the_plugin_of_resizes(point):
    enabled = {point: plugin_set("DeferredPodScheduling")}
    assert "DeferredPodScheduling" in shown(load(features=default_features(V1_37), **enabled)["permit"])
    with pytest.raises(ConfigError, match='Plugin "DeferredPodScheduling" does not exist'):
        load(features=default_features(V1_36), **enabled)
