"""Policies: every predicate and priority name, arguments, defaults, and refusals."""

import json
from itertools import combinations

import pytest

from stowplan import load_config
from stowplan.kube.config import ConfigError
from stowplan.kube.config.config_documents import parse_document
from stowplan.kube.config.older.policy import PREDICATES, PRIORITIES
from stowplan.kube.config.older.upgrade import upgrade
from stowplan.scheduler.in_tree.discovery import declarations

GROUP = "kubescheduler.config.k8s.io"
MANDATORY = {"NodeUnschedulable", "TaintToleration"}


def policy(**fields):
    return {"kind": "Policy", "apiVersion": "v1", **fields}


def profile(**fields):
    return load_config(policy(**fields)).profiles[0]


def names(loaded, point):
    return [plugin.name for plugin in loaded.points[point]]


def scores(loaded):
    return [(plugin.name, plugin.weight) for plugin in loaded.points["score"]]


def priority(name, weight=1, **argument):
    return {"name": name, "weight": weight, **({"argument": argument} if argument else {})}


def refusal(source):
    with pytest.raises(ConfigError) as caught:
        load_config(source)
    return str(caught.value)


def warnings(source):
    return upgrade(parse_document(json.dumps(source)), declarations()).warnings


# --- predicates

#: Predicate -> plugins at Filter beyond the mandatory ones.
FILTERS = {
    "CheckNodeUnschedulable": [],
    "GeneralPredicates": ["NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"],
    "HostName": ["NodeName"],
    "PodFitsHostPorts": ["NodePorts"],
    "PodFitsPorts": ["NodePorts"],
    "MatchNodeSelector": ["NodeAffinity"],
    "PodFitsResources": ["NodeResourcesFit"],
    "NoDiskConflict": ["VolumeRestrictions"],
    "PodToleratesNodeTaints": [],
    "PodToleratesNodeNoExecuteTaints": [],
    "CheckNodeLabelPresence": ["LegacyNodeLabel"],
    "CheckServiceAffinity": ["LegacyServiceAffinity"],
    "MaxEBSVolumeCount": ["NodeVolumeLimits"],
    "MaxGCEPDVolumeCount": ["NodeVolumeLimits"],
    "MaxCSIVolumeCountPred": ["NodeVolumeLimits"],
    "MaxAzureDiskVolumeCount": ["NodeVolumeLimits"],
    "MaxCinderVolumeCount": ["NodeVolumeLimits"],
    "CheckVolumeBinding": ["VolumeBinding"],
    "NoVolumeZoneConflict": ["VolumeZone"],
    "EvenPodsSpread": ["PodTopologySpread"],
    "MatchInterPodAffinity": ["InterPodAffinity"],
    "CheckNodeCondition": [],
    "CheckNodeMemoryPressure": [],
    "CheckNodePIDPressure": [],
    "CheckNodeDiskPressure": [],
}


def test_every_predicate_is_in_the_table():
    assert PREDICATES.keys() == FILTERS.keys()


@pytest.mark.parametrize("name", FILTERS)
def test_predicate(name):
    loaded = profile(predicates=[{"name": name}], priorities=[])
    filters = names(loaded, "filter")
    assert [plugin for plugin in filters if plugin not in MANDATORY] == FILTERS[name]
    assert set(filters) >= MANDATORY
    known = declarations()
    assert set(names(loaded, "preFilter")) == {plugin for plugin in filters if "preFilter" in known[plugin].points}
    assert loaded.points["score"] == ()


def test_service_affinity():
    """Labels accumulate; weights of preferences are added."""
    loaded = profile(
        predicates=[
            {"name": "racks", "argument": {"serviceAffinity": {"labels": ["rack"]}}},
            {"name": "rooms", "argument": {"serviceAffinity": {"labels": ["room"]}}},
        ],
        priorities=[
            priority("apart", 2, serviceAntiAffinity={"label": "zone"}),
            priority("beside", 2, serviceAntiAffinity={"label": "host"}),
        ],
    )
    args = loaded.plugin_args("LegacyServiceAffinity")
    assert args.affinity_labels == ("rack", "room")
    assert args.anti_affinity_labels_preference == ("zone", "host")
    assert scores(loaded) == [("LegacyServiceAffinity", 4)]
    assert {"LegacyServiceAffinity"} <= {*names(loaded, "preFilter")} & {*names(loaded, "filter")}


def test_predicates_without_an_equivalent():
    found = refusal(policy(priorities=[{"name": "ResourceLimitsPriority", "weight": 1}]))
    assert found.startswith("couldn't create scheduler from policy: priority ResourceLimitsPriority is not supported")


def test_volume_binding_reserves_and_binds():
    loaded = profile(predicates=[{"name": "CheckVolumeBinding"}], priorities=[])
    assert (names(loaded, "reserve"), names(loaded, "preBind")) == (["VolumeBinding"], ["VolumeBinding"])


def test_predicates_run_in_the_order_of_their_table():
    listed = [{"name": name} for name in ("MatchInterPodAffinity", "HostName", "NoDiskConflict", "GeneralPredicates")]
    assert names(profile(predicates=listed, priorities=[]), "filter") == [
        "NodeUnschedulable",
        "NodeResourcesFit",
        "NodeName",
        "NodePorts",
        "NodeAffinity",
        "VolumeRestrictions",
        "TaintToleration",
        "InterPodAffinity",
    ]


def test_label_presence_predicates():
    loaded = profile(
        predicates=[
            {"name": "Zoned", "argument": {"labelsPresence": {"labels": ["zone", "rack"], "presence": True}}},
            {"name": "NotOld", "argument": {"labelsPresence": {"labels": ["old"], "presence": False}}},
        ],
        priorities=[],
    )
    assert names(loaded, "filter")[-1] == "LegacyNodeLabel"
    args = loaded.plugin_args("LegacyNodeLabel")
    assert (args.present_labels, args.absent_labels) == (("zone", "rack"), ("old",))


def test_an_argument_under_a_registered_name_is_dropped_with_a_warning():
    listed = [{"name": "CheckNodeLabelPresence", "argument": {"labelsPresence": {"labels": ["a"], "presence": True}}}]
    assert profile(predicates=listed, priorities=[]).plugin_args("LegacyNodeLabel").present_labels == ()
    assert warnings(policy(predicates=listed)) == (
        "predicates[0]: argument of CheckNodeLabelPresence left out, as 1.20 did: only under a name of its own it has "
        "an effect",
    )


# --- priorities

#: Priority -> plugin at Score; None is refused, "" needs none.
SCORERS = {
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "EqualPriority": "",
    "EvenPodsSpreadPriority": "PodTopologySpread",
    "ImageLocalityPriority": "ImageLocality",
    "InterPodAffinityPriority": "InterPodAffinity",
    "LeastRequestedPriority": "NodeResourcesFit",
    "MostRequestedPriority": "NodeResourcesFit",
    "NodeAffinityPriority": "NodeAffinity",
    "NodePreferAvoidPodsPriority": "LegacyNodePreferAvoidPods",
    "RequestedToCapacityRatio": None,
    "RequestedToCapacityRatioPriority": "NodeResourcesFit",
    "ResourceLimitsPriority": None,
    "SelectorSpreadPriority": "PodTopologySpread",
    "ServiceSpreadingPriority": "PodTopologySpread",
    "TaintTolerationPriority": "TaintToleration",
}


def test_every_priority_is_in_the_table():
    assert PRIORITIES.keys() == SCORERS.keys()


@pytest.mark.parametrize("name", [name for name, plugin in SCORERS.items() if plugin is not None])
def test_priority(name):
    loaded = profile(predicates=[], priorities=[priority(name, 7)])
    assert scores(loaded) == ([(SCORERS[name], 7)] if SCORERS[name] else [])
    known = declarations()
    assert names(loaded, "preScore") == [n for n, _ in scores(loaded) if "preScore" in known[n].points]
    assert set(names(loaded, "filter")) == MANDATORY


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("RequestedToCapacityRatio", "shape: Required value: at least one point", id="without its shape"),
        pytest.param("ResourceLimitsPriority", "priority ResourceLimitsPriority is not supported: ", id="alpha"),
    ],
)
def test_a_priority_that_is_refused(name, said):
    assert said in refusal(policy(predicates=[], priorities=[priority(name)]))


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("LeastRequestedPriority", "LeastAllocated"),
        ("MostRequestedPriority", "MostAllocated"),
        ("RequestedToCapacityRatioPriority", "RequestedToCapacityRatio"),
    ],
)
def test_strategy_of_scoring_by_resources(name, strategy):
    args = profile(predicates=[], priorities=[priority(name)]).plugin_args("NodeResourcesFit")
    assert args.scoring_strategy.type == strategy


KEPT = {
    "LeastRequestedPriority": "LegacyNodeResourcesLeastAllocated",
    "MostRequestedPriority": "LegacyNodeResourcesMostAllocated",
    "RequestedToCapacityRatioPriority": "LegacyRequestedToCapacityRatio",
}


@pytest.mark.parametrize("listed", [*combinations(KEPT, 2), tuple(KEPT)], ids=" ".join)
def test_several_strategies_keep_their_weights(listed):
    found = profile(predicates=[], priorities=[priority(name, 2 + i) for i, name in enumerate(listed)])
    assert scores(found) == [(KEPT[name], 2 + i) for i, name in enumerate(listed)]
    converted = upgrade(parse_document(json.dumps(policy(priorities=[*map(priority, listed)]))), declarations())
    assert not converted.warnings
    assert load_config(converted.document.value).profiles[0] == profile(priorities=[*map(priority, listed)])


def test_a_custom_ratio_of_requested_to_capacity():
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    argument = {"shape": shape, "resources": [{"name": "example.com/gpu", "weight": 3}]}
    listed = [priority("Packed", 5, requestedToCapacityRatioArguments=argument)]
    loaded = profile(predicates=[], priorities=listed)
    assert scores(loaded) == [("NodeResourcesFit", 5)]
    strategy = loaded.plugin_args("NodeResourcesFit").scoring_strategy
    assert [(r.name, r.weight) for r in strategy.resources] == [("example.com/gpu", 3)]
    assert [(p.utilization, p.score) for p in strategy.requested_to_capacity_ratio.shape] == [(0, 0), (100, 10)]


def test_label_preferences_are_added():
    listed = [
        priority("b", 2, labelPreference={"label": "old", "presence": False}),
        priority("a", 2, labelPreference={"label": "ssd", "presence": True}),
    ]
    loaded = profile(predicates=[], priorities=listed)
    assert scores(loaded) == [("LegacyNodeLabel", 4)]
    args = loaded.plugin_args("LegacyNodeLabel")
    assert (args.present_labels_preference, args.absent_labels_preference) == (("ssd",), ("old",))


def test_priorities_score_in_alphabetical_order():
    listed = [priority("TaintTolerationPriority", 1), priority("ImageLocalityPriority", 2)]
    assert scores(profile(predicates=[], priorities=listed)) == [("ImageLocality", 2), ("TaintToleration", 1)]


@pytest.mark.parametrize("weights", [(2, 1), (1, 2)])
def test_the_first_weight_of_two_priorities_with_one_plugin_is_used(weights):
    listed = [priority("EvenPodsSpreadPriority", weights[0]), priority("SelectorSpreadPriority", weights[1])]
    loaded = profile(predicates=[], priorities=listed)
    assert scores(loaded) == [("PodTopologySpread", weights[0])]
    assert loaded.plugin_args("PodTopologySpread").defaulting_type == "System"


def test_even_spreading_alone_has_no_constraints_by_default():
    loaded = profile(predicates=[], priorities=[priority("EvenPodsSpreadPriority")])
    assert loaded.plugin_args("PodTopologySpread").defaulting_type == "List"


def test_the_last_weight_of_a_repeated_name_is_used():
    listed = [priority("ImageLocalityPriority", 1), priority("ImageLocalityPriority", 5)]
    assert scores(profile(predicates=[], priorities=listed)) == [("ImageLocality", 5)]


@pytest.mark.parametrize(("given", "weight"), [(7, 7), (0, 1)])
def test_symmetric_weight(given, weight):
    loaded = profile(hardPodAffinitySymmetricWeight=given)
    assert loaded.plugin_args("InterPodAffinity").hard_pod_affinity_weight == weight


# -- whole policies


def test_an_empty_policy_has_the_defaults():
    loaded = profile()
    assert loaded.scheduler_name == "default-scheduler"
    assert names(loaded, "filter") == [
        "NodeUnschedulable",
        "NodeResourcesFit",
        "NodeName",
        "NodePorts",
        "NodeAffinity",
        "VolumeRestrictions",
        "TaintToleration",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
    ]
    assert scores(loaded) == [
        ("NodeResourcesBalancedAllocation", 1),
        ("PodTopologySpread", 2),
        ("ImageLocality", 1),
        ("InterPodAffinity", 1),
        ("NodeResourcesFit", 1),
        ("NodeAffinity", 1),
        ("LegacyNodePreferAvoidPods", 10000),
        ("TaintToleration", 1),
    ]


def test_nulls_give_the_defaults():
    assert profile(predicates=None, priorities=None) == profile()


def test_empty_lists_keep_the_mandatory_plugins():
    loaded = profile(predicates=[], priorities=[])
    assert names(loaded, "filter") == ["NodeUnschedulable", "TaintToleration"]
    assert scores(loaded) == []
    assert names(loaded, "postFilter") == ["DefaultPreemption"]


def test_extenders():
    (extender,) = load_config(
        policy(
            extenders=[
                {
                    "URLPrefix": "http://127.0.0.1:8080",
                    "FilterVerb": "filter",
                    "BindVerb": "bind",
                    "EnableHttps": True,
                    "HttpTimeout": 100_000_000,
                    "TLSConfig": {"insecure": True},
                    "managedResources": [{"name": "example.com/a", "ignoredByScheduler": True}],
                    "ignorable": True,
                }
            ]
        )
    ).extenders
    assert (extender.url_prefix, extender.filter_verb, extender.bind_verb) == (
        "http://127.0.0.1:8080",
        "filter",
        "bind",
    )
    assert (str(extender.http_timeout), extender.enable_https, extender.tls_config.insecure) == ("100ms", True, True)
    assert (extender.ignorable, extender.managed_resources[0].name) == (True, "example.com/a")


def test_unknown_fields_are_reported():
    assert warnings(policy(foo=1, predicates=[{"name": "HostName", "bar": 2}])) == (
        "foo left out: policies have no such field",
        "predicates[0].bar left out: policies have no such field",
    )


def test_always_check_all_predicates_is_reported():
    assert warnings(policy(alwaysCheckAllPredicates=True)) == (
        "alwaysCheckAllPredicates left out: a node is refused by the first plugin that objects to it",
    )


# -- errors


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            {"priorities": [{"name": "X", "weight": 0, "argument": {}}, priority("Y", 2**63 - 1)]},
            "[priority X should have a positive weight applied to it or it has overflown, "
            "no priority arguments set for priority X, "
            "priority Y should have a positive weight applied to it or it has overflown]",
            id="weights",
        ),
        pytest.param(
            {
                "priorities": [
                    priority("y", 1, labelPreference={"label": "a", "presence": True}),
                    priority("x", 2, labelPreference={"label": "b", "presence": True}),
                ]
            },
            'LabelPreference  priority "x" has a different weight with "y"',
            id="label preferences of different weights",
        ),
        pytest.param(
            {
                "priorities": [
                    priority("y", 1, requestedToCapacityRatioArguments={"shape": []}),
                    priority("x", 1, requestedToCapacityRatioArguments={"shape": []}),
                ]
            },
            'priority "x" redeclares custom priority "RequestedToCapacityRatio", from: "y"',
            id="two ratios",
        ),
        pytest.param({"predicates": [{"name": "X"}]}, 'predicate type not found for "X"', id="unknown predicate"),
        pytest.param({"priorities": [priority("X")]}, 'priority type not found for "X"', id="unknown priority"),
        pytest.param(
            {"predicates": [{"name": "X", "argument": {"serviceAffinity": {}, "labelsPresence": {}}}]},
            "exactly 1 predicate argument is required, numArgs: 2, predicate X",
            id="two arguments",
        ),
        pytest.param(
            {"hardPodAffinitySymmetricWeight": 101},
            "hardPodAffinitySymmetricWeight: Invalid value: 101: not in valid range [0-100]",
            id="symmetric weight",
        ),
    ],
)
def test_refused(fields, message):
    assert refusal(policy(**fields)) == f"couldn't create scheduler from policy: {message}"


def test_a_misspelled_name():
    with pytest.raises(ConfigError) as caught:
        load_config(policy(predicates=[{"name": "PodFitsResource"}]))
    assert caught.value.hints == ("did you mean PodFitsResources?",)


def test_types():
    assert refusal(policy(predicates=[{"name": 1}])) == (
        "invalid policy: json: cannot unmarshal number into Go struct field PredicatePolicy.predicates.name of "
        "type string"
    )


def test_extenders_are_validated_as_those_of_a_configuration():
    assert refusal(policy(extenders=[{"prioritizeVerb": "p", "weight": 0}])) == (
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it"
    )


# --- algorithmSource of v1alpha1


def v1alpha1(source, **fields):
    header = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "KubeSchedulerConfiguration"}
    return {**header, "algorithmSource": source, **fields}


def test_a_policy_that_a_configuration_names(tmp_path):
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(policy(predicates=[], priorities=[priority("ImageLocalityPriority", 3)])))
    loaded = load_config(v1alpha1({"policy": {"file": {"path": str(file)}}}, schedulerName="mine")).profiles[0]
    assert (loaded.scheduler_name, scores(loaded)) == ("mine", [("ImageLocality", 3)])


@pytest.mark.parametrize(
    ("provider", "strategy"), [("DefaultProvider", "LeastAllocated"), ("ClusterAutoscalerProvider", "MostAllocated")]
)
def test_providers(provider, strategy):
    loaded = load_config(v1alpha1({"provider": provider})).profiles[0]
    assert loaded.plugin_args("NodeResourcesFit").scoring_strategy.type == strategy
    assert ("NodeResourcesFit", 1) in scores(loaded)


@pytest.mark.parametrize(
    ("source", "fields", "message"),
    [
        pytest.param(
            {"provider": "Mine"},
            {},
            'couldn\'t create scheduler using provider "Mine": algorithm provider "Mine" is not registered: choose one '
            "of DefaultProvider, ClusterAutoscalerProvider",
            id="unknown provider",
        ),
        pytest.param(
            {"policy": {"file": {"path": "/nope"}}},
            {},
            "couldn't read policy config: open /nope: no such file or directory",
            id="no file",
        ),
        pytest.param(
            {"policy": {"configMap": {"name": "policy"}}},
            {},
            "algorithmSource.policy.configMap: ConfigMap kube-system/policy is not read here: write its key "
            "policy.cfg to a file, and name that in algorithmSource.policy.file.path",
            id="ConfigMap",
        ),
    ],
)
def test_refused_sources(source, fields, message):
    assert refusal(v1alpha1(source, **fields)) == message


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [("plugins", {"score": {}}, "Plugins"), ("pluginConfig", [{"name": "X"}], "PluginConfig")],
)
def test_plugins_beside_a_policy_are_refused(tmp_path, name, value, shown):
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(policy()))
    assert refusal(v1alpha1({"policy": {"file": {"path": str(file)}}}, **{name: value})) == (
        f"couldn't create scheduler from policy: using {shown} and Policy simultaneously is not supported"
    )
