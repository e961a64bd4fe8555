"""Configurations of older versions: defaults, merging, conversion of their fields, and refusals."""

import json

import pytest

from stowplan import load_config
from stowplan.kube.config import ConfigError
from stowplan.kube.config.config_documents import parse_document
from stowplan.kube.config.older.upgrade import upgrade
from stowplan.scheduler.in_tree.discovery import declarations

GROUP = "kubescheduler.config.k8s.io"
VERSIONS = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3")

#: Default score plugins and weights, with today's names.
SCORES = {
    "v1alpha2": "NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesFit=1 "
    "NodeAffinity=1 LegacyNodePreferAvoidPods=10000 PodTopologySpread=1 TaintToleration=1",
    "v1beta1": "NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesFit=1 NodeAffinity=1 "
    "LegacyNodePreferAvoidPods=10000 PodTopologySpread=2 TaintToleration=1",
    "v1beta2": "NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesFit=1 NodeAffinity=1 "
    "PodTopologySpread=2 TaintToleration=1",
    "v1beta3": "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 "
    "InterPodAffinity=2 DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1",
}
SCORES["v1alpha1"] = SCORES["v1alpha2"]
FILTERS = {
    "v1alpha2": "NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity VolumeRestrictions TaintToleration "
    "NodeVolumeLimits VolumeBinding VolumeZone InterPodAffinity PodTopologySpread",
    "v1beta1": "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions "
    "NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity",
    "v1beta3": "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions "
    "NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources "
    "NodeDeclaredFeatures",
}
FILTERS["v1alpha1"] = FILTERS["v1alpha2"]
FILTERS["v1beta2"] = FILTERS["v1beta1"]


def config(version, **fields):
    return {"apiVersion": f"{GROUP}/{version}", "kind": "KubeSchedulerConfiguration", **fields}


def load(version, **fields):
    return load_config(config(version, **fields))


def profile(version, **fields):
    """Load a configuration with one profile of these fields."""
    return load(version, **(fields if version == "v1alpha1" else {"profiles": [fields]})).profiles[0]


def points(version, **fields):
    """Point -> names in order, for a profile with these plugins."""
    found = profile(version, plugins=fields).points
    return {point: [plugin.name for plugin in plugins] for point, plugins in found.items()}


def scores(loaded):
    return " ".join(f"{plugin.name}={plugin.weight}" for plugin in loaded.points["score"])


def upgraded(source):
    return upgrade(parse_document(json.dumps(source)), declarations())


def named(*names):
    return [{"name": name} for name in names]


def refusal(source):
    with pytest.raises(ConfigError) as caught:
        load_config(source)
    return str(caught.value)


# -- defaults


@pytest.mark.parametrize("version", VERSIONS)
def test_default_plugins(version):
    loaded = load(version).profiles[0]
    assert loaded.scheduler_name == "default-scheduler"
    assert scores(loaded) == SCORES[version]
    assert " ".join(plugin.name for plugin in loaded.points["filter"]) == FILTERS[version]
    assert [plugin.name for plugin in loaded.points["bind"]] == ["DefaultBinder"]
    assert [plugin.name for plugin in loaded.points["postFilter"]][-1] == "DefaultPreemption"
    assert loaded.points["preEnqueue"][0].name == "SchedulingGates"


@pytest.mark.parametrize("version", VERSIONS)
def test_plugins_run_wherever_they_need_to_today(version):
    """Plugins that have PreFilter and Filter, or PreScore and Score, run at both points."""
    known, loaded = declarations(), load(version).profiles[0]
    at = {point: {plugin.name for plugin in plugins} for point, plugins in loaded.points.items()}
    for first, second in (("filter", "preFilter"), ("score", "preScore")):
        assert {name for name in at[first] if second in known[name].points} <= at[second]


def test_it_is_logged(caplog):
    load("v1beta2", healthzBindAddress="0.0.0.0:10251")
    assert [record.message for record in caplog.records] == [
        "The configuration is of version kubescheduler.config.k8s.io/v1beta2 and was converted to v1; "
        "stowplan config convert shows how",
        "The configuration cannot be converted in full: healthzBindAddress left out: health and metrics are served on "
        "--secure-port only",
    ]


# -- merging


@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1"])
def test_enabled_plugins_follow_the_defaults(version):
    score = {"disabled": named("NodeAffinity"), "enabled": [{"name": "NodeAffinity", "weight": 7}]}
    assert scores(profile(version, plugins={"score": score})).split()[-1] == "NodeAffinity=7"


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1"])
def test_a_default_that_is_enabled_again_appears_twice(version):
    plugins = {"score": {"enabled": named("NodeAffinity")}}
    source = config(
        version, **({"plugins": plugins} if version == "v1alpha1" else {"profiles": [{"plugins": plugins}]})
    )
    assert refusal(source).endswith('plugin "NodeAffinity" already registered as "ScorePlugin"')


def test_v1beta2_replaces_in_place():
    score = {"enabled": [{"name": "NodeAffinity", "weight": 7}]}
    found = scores(profile("v1beta2", plugins={"score": score}))
    assert found == SCORES["v1beta2"].replace("NodeAffinity=1", "NodeAffinity=7")


@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1", "v1beta2"])
def test_all_defaults_of_a_point_can_be_disabled(version):
    found = points(version, score={"disabled": named("*"), "enabled": named("ImageLocality")})
    assert found["score"] == ["ImageLocality"]


def test_multi_point_of_v1beta2_adds_to_the_defaults_of_each_point():
    found = points("v1beta2", multiPoint={"enabled": named("NodeDeclaredFeatures")}, preFilter={"disabled": named("*")})
    assert set(found["filter"]) == {*FILTERS["v1beta2"].split(), "NodeDeclaredFeatures"}
    assert found["preFilter"] == []


def test_plugins_disabled_at_a_point_are_not_added_again_there():
    assert "NodePorts" not in points("v1beta1", preFilter={"disabled": named("NodePorts")})["preFilter"]


def test_v1beta3_merges_as_today():
    multi_point = {"disabled": named("PodTopologySpread"), "enabled": [{"name": "NodeAffinity", "weight": 9}]}
    same = {"plugins": {"multiPoint": multi_point}}
    assert load("v1beta3", profiles=[same]) == load("v1", profiles=[same])


# -- removed plugins


@pytest.mark.parametrize("name", ["EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits"])
@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1beta3"])
def test_volume_limits_are_one_plugin(version, name):
    found = points(version, filter={"disabled": named("*"), "enabled": named("NodeName", name, "NodeVolumeLimits")})
    if version == "v1beta3":
        assert "NodeVolumeLimits" in found["filter"]
    else:
        assert found["filter"] == ["NodeName", "NodeVolumeLimits"]
        assert "NodeVolumeLimits" in found["preFilter"]


def test_a_volume_limit_cannot_be_disabled_alone():
    source = config("v1beta3", profiles=[{"plugins": {"multiPoint": {"disabled": named("EBSLimits")}}}])
    result = upgraded(source)
    assert result.document.value["profiles"][0]["plugins"]["multiPoint"] == {"disabled": []}
    assert result.warnings == (
        "profiles[0].plugins.multiPoint: EBSLimits can no longer be disabled alone: NodeVolumeLimits counts the "
        "volumes of all clouds",
    )


STRATEGIES = [
    pytest.param("NodeResourcesLeastAllocated", {}, {"type": "LeastAllocated"}, id="least"),
    pytest.param(
        "NodeResourcesMostAllocated",
        {"resources": [{"name": "nvidia.com/gpu", "weight": 5}]},
        {"type": "MostAllocated", "resources": [{"name": "nvidia.com/gpu", "weight": 5}]},
        id="most",
    ),
    pytest.param(
        "RequestedToCapacityRatio",
        {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
        {
            "type": "RequestedToCapacityRatio",
            "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
        },
        id="ratio",
    ),
]


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1"])
@pytest.mark.parametrize(("name", "args", "strategy"), STRATEGIES)
def test_scoring_by_resources_is_a_strategy_of_fit(version, name, args, strategy):
    enabled = [{"name": name, "weight": 3}]
    loaded = profile(
        version,
        plugins={"score": {"disabled": named("NodeResourcesLeastAllocated"), "enabled": enabled}},
        pluginConfig=[{"name": name, "args": args}] if args else [],
    )
    assert scores(loaded).split()[-1] == "NodeResourcesFit=3"
    written = load(
        "v1", profiles=[{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]}]
    )
    assert loaded.plugin_args("NodeResourcesFit") == written.profiles[0].plugin_args("NodeResourcesFit")


def test_arguments_of_fit_are_kept_beside_the_strategy():
    loaded = profile(
        "v1beta1",
        pluginConfig=[
            {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/a"]}},
            {"name": "NodeResourcesLeastAllocated", "args": {"resources": [{"name": "cpu", "weight": 9}]}},
        ],
    )
    args = loaded.plugin_args("NodeResourcesFit")
    assert (args.ignored_resources, args.scoring_strategy.resources[0].weight) == (("example.com/a",), 9)


def test_several_scorers_by_resources_keep_their_weights_and_arguments():
    loaded = profile(
        "v1beta1",
        plugins={"score": {"enabled": [{"name": "NodeResourcesMostAllocated", "weight": 3}]}},
        pluginConfig=[{"name": "NodeResourcesMostAllocated", "args": {"resources": [{"name": "cpu", "weight": 9}]}}],
    )
    found = {ref.name: ref.weight for ref in loaded.points["score"]}
    assert found.items() >= {"LegacyNodeResourcesLeastAllocated": 1, "LegacyNodeResourcesMostAllocated": 3}.items()
    assert "NodeResourcesFit" not in found
    resources = {
        name: loaded.plugin_args(f"LegacyNodeResources{name}Allocated").resources for name in ("Most", "Least")
    }
    assert {name: [(one.name, one.weight) for one in those] for name, those in resources.items()} == {
        "Most": [("cpu", 9)],
        "Least": [("cpu", 1), ("memory", 1)],
    }


@pytest.mark.parametrize("plugin", ["PodTopologySpread", "NodeResourcesLeastAllocated"])
@pytest.mark.parametrize(("args", "kind"), [(3, "number"), ("x", "string"), ([], "array"), (True, "bool")])
def test_arguments_that_are_no_object(plugin, args, kind):
    source = config("v1beta1", profiles=[{"pluginConfig": [{"name": plugin, "args": args}]}])
    assert refusal(source) == f"args of plugin {plugin}: expected an object, got {kind}"


def test_their_arguments_are_checked():
    source = config(
        "v1beta1",
        profiles=[
            {
                "plugins": {"score": {"enabled": named("RequestedToCapacityRatio")}},
                "pluginConfig": [
                    {"name": "RequestedToCapacityRatio", "args": {"resources": [{"name": "cpu", "weight": 101}]}}
                ],
            }
        ],
    )
    assert refusal(source).endswith(
        'initializing plugin "LegacyRequestedToCapacityRatio": [resources[0].weight: Invalid value: 101: resource '
        "weight of cpu not in valid range (0, 100], shape: Required value: at least one point must be specified]"
    )


def test_fit_and_a_strategy_conflict():
    source = config("v1beta1", profiles=[{"plugins": {"score": {"enabled": named("NodeResourcesFit")}}}])
    assert refusal(source) == (
        'profiles[0].plugins.score.enabled[8]: Invalid value: "NodeResourcesFit": was conflict with '
        '"NodeResourcesLeastAllocated" in version "kubescheduler.config.k8s.io/v1beta1" (KubeSchedulerConfiguration is '
        'version "kubescheduler.config.k8s.io/v1beta1")'
    )


@pytest.mark.parametrize("version", ["v1beta2", "v1beta3"])
def test_plugins_removed_in_a_version(version):
    source = config(version, profiles=[{"plugins": {"score": {"enabled": named("NodeLabel")}}}])
    assert refusal(source) == (
        'profiles[0].plugins.score.enabled[0]: Invalid value: "NodeLabel": was removed in version '
        f'"{GROUP}/v1beta2" (KubeSchedulerConfiguration is version "{GROUP}/{version}")'
    )


def test_node_label_works_as_before():
    args = {"presentLabels": ["a"], "absentLabels": ["b"]}
    plugins = {"filter": {"enabled": named("NodeLabel")}}
    loaded = profile("v1beta1", plugins=plugins, pluginConfig=[{"name": "NodeLabel", "args": args}])
    assert loaded.points["filter"][-1].name == "LegacyNodeLabel"
    found = loaded.plugin_args("LegacyNodeLabel")
    assert (found.present_labels, found.absent_labels) == (("a",), ("b",))


def test_node_label_with_a_contradictory_label():
    args = {"presentLabels": ["a", "b"], "absentLabels": ["b"]}
    source = config("v1beta1", profiles=[{"pluginConfig": [{"name": "NodeLabel", "args": args}]}])
    assert refusal(source) == (
        'profiles[0].pluginConfig[0].args.presentLabels[1]: Invalid value: "b": conflict with absentLabels[0]'
    )


def test_service_affinity_is_a_plugin_of_our_own():
    args = {"affinityLabels": ["rack"], "antiAffinityLabelsPreference": ["zone"]}
    plugins = {point: {"enabled": named("ServiceAffinity")} for point in ("preFilter", "filter", "score")}
    found = profile("v1beta1", plugins=plugins, pluginConfig=[{"name": "ServiceAffinity", "args": args}])
    assert found.points["filter"][-1].name == found.points["score"][-1].name == "LegacyServiceAffinity"
    assert found.plugin_args("LegacyServiceAffinity").affinity_labels == ("rack",)


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1beta3"])
def test_selector_spread_is_topology_spread(version):
    selector = named("SelectorSpread")
    plugins = {"preScore": {"enabled": selector}, "score": {"enabled": selector}}
    assert scores(profile(version, plugins=plugins)).count("PodTopologySpread") == 1


# -- fields


def test_scheduler_name_of_v1alpha1():
    assert load("v1alpha1", schedulerName="mine").profiles[0].scheduler_name == "mine"


def test_post_filter_of_v1alpha1_is_pre_score():
    found = points("v1alpha1", postFilter={"disabled": named("*")}, score={"disabled": named("*")})
    assert found["preScore"] == []
    assert found["postFilter"] == ["DefaultPreemption"]


def test_symmetric_weight_of_v1alpha1():
    loaded = profile("v1alpha1", hardPodAffinitySymmetricWeight=42)
    assert loaded.plugin_args("InterPodAffinity").hard_pod_affinity_weight == 42
    assert refusal(config("v1alpha1", hardPodAffinitySymmetricWeight=101)) == (
        "hardPodAffinitySymmetricWeight: Invalid value: 101: not in valid range [0-100]"
    )


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
def test_fields_outside_of_plugins(version):
    loaded = load(version, disablePreemption=True, bindTimeoutSeconds=42)
    assert loaded.profiles[0].points["postFilter"] == ()
    assert loaded.profiles[0].plugin_args("VolumeBinding").bind_timeout_seconds == 42


def test_unreserve_belongs_to_reserve():
    found = points("v1alpha2", unreserve={"disabled": named("VolumeBinding")})
    assert found["reserve"] == []


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
def test_names_of_the_leader_election_lock(version):
    election = load(version, leaderElection={"lockObjectName": "a", "lockObjectNamespace": "b"}).leader_election
    assert (election.resource_name, election.resource_namespace) == ("a", "b")
    source = config(version, leaderElection={"lockObjectName": "a", "resourceName": "b"})
    assert refusal(source) == (
        "ResourceName and LockObjectName are both set and do not match, ResourceName: b, LockObjectName: a"
    )


@pytest.mark.parametrize("lock", ["endpoints", "configmaps", "endpointsleases", "configmapsleases"])
def test_only_leases_are_supported_for_election(lock):
    assert load("v1beta1", leaderElection={"resourceLock": lock}).leader_election.resource_lock == "leases"


def test_constraints_of_v1beta1_imply_their_type():
    constraints = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]
    spread = [{"name": "PodTopologySpread", "args": {"defaultConstraints": constraints}}]
    assert profile("v1beta1", pluginConfig=spread).plugin_args("PodTopologySpread").defaulting_type == "List"
    assert 'defaultingType: Invalid value: "System"' in refusal(config("v1beta2", profiles=[{"pluginConfig": spread}]))


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1beta3"])
def test_arguments_are_of_the_version_of_the_file(version):
    def with_args(of):
        args = {"apiVersion": f"{GROUP}/{of}", "kind": "InterPodAffinityArgs", "hardPodAffinityWeight": 5}
        return config(version, profiles=[{"pluginConfig": [{"name": "InterPodAffinity", "args": args}]}])

    loaded = load_config(with_args(version))
    assert loaded.profiles[0].plugin_args("InterPodAffinity").hard_pod_affinity_weight == 5
    assert 'no kind "InterPodAffinityArgs" is registered' in refusal(with_args("v1alpha9"))


# -- errors


@pytest.mark.parametrize(
    ("version", "fields", "message"),
    [
        pytest.param("v1beta3", {"foo": 1}, 'strict decoding error: unknown field "foo"', id="unknown field"),
        pytest.param(
            "v1beta3",
            {"profiles": [{"percentageOfNodesToScore": 3}]},
            'strict decoding error: unknown field "profiles[0].percentageOfNodesToScore"',
            id="a field that came later",
        ),
        pytest.param(
            "v1beta1",
            {"profiles": [{"plugins": {"multiPoint": {}}}]},
            'strict decoding error: unknown field "profiles[0].plugins.multiPoint"',
            id="a point that came later",
        ),
        pytest.param(
            "v1alpha2", {"parallelism": 3}, 'strict decoding error: unknown field "parallelism"', id="not yet there"
        ),
        pytest.param(
            "v1beta2",
            {"profiles": {}},
            "json: cannot unmarshal object into Go struct field KubeSchedulerConfiguration.profiles of type "
            "[]v1beta2.KubeSchedulerProfile",
            id="type",
        ),
    ],
)
def test_refused(version, fields, message):
    assert refusal(config(version, **fields)) == message


def test_v1alpha1_is_read_leniently(caplog):
    assert load("v1alpha1", foo=1, schedulerName="mine").profiles[0].scheduler_name == "mine"
    text = 'using lenient decoding as strict decoding failed: strict decoding error: unknown field "foo"'
    assert caplog.records[-1].message == f"The configuration cannot be converted in full: {text}"
