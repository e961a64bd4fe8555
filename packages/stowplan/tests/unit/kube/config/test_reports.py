"""Reports about configurations: conversions, differences, origins of plugins, fields.

The JSON schema for editors accepts what the reference accepts, and rejects local errors.
"""

import json
import re

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from golden import compare
from stowplan.kube.config import DEFAULT_FEATURES, ConfigError
from stowplan.kube.config.config_documents import parse_document
from stowplan.kube.config.config_loading import load_document
from stowplan.kube.config.older.upgrade import upgrade
from stowplan.kube.config.reports.conversion import converted, converted_text
from stowplan.kube.config.reports.differences import differences, effective_profiles
from stowplan.kube.config.reports.fields import UnknownFieldError, explain_field, json_schema, known_paths
from stowplan.kube.config.schema import CONFIGURATION, POINTS, Pointer, Slice, Struct
from stowplan.kube.config.unused_settings import unused_settings
from stowplan.scheduler.in_tree.discovery import declarations
from support.examples import sampled
from support.older_configurations import OLDER, config, named
from support.tables import every_case

V1 = "kubescheduler.config.k8s.io/v1"


def loaded(source, features=DEFAULT_FEATURES):
    document = source if source is None else parse_document(source if isinstance(source, str) else json.dumps(source))
    return load_document(document, plugins=declarations(), features=features)


def diff(left, right):
    found = differences(loaded(left).configuration, loaded(right).configuration)
    return {one.path: (one.left, one.right) for one in found}


def v1(**profile):
    return config("v1", profiles=[profile])


def score(*plugins, **more):
    return {"score": {"enabled": [{"name": name, "weight": weight} for name, weight in plugins], **more}}


# --- conversions


def test_converted_configurations_are_equivalent():
    with every_case() as case:
        for name, source in sampled(list(OLDER.items())):
            with case(name):
                means_the_same_when_converted(source)


def means_the_same_when_converted(source):
    document = parse_document(json.dumps(source))
    text = converted_text(document, upgrade(document, declarations()))
    again = parse_document(text)
    assert again.value["apiVersion"] == V1
    assert again.value == converted(upgrade(document, declarations()))
    assert upgrade(again, declarations()).origin == ""
    assert loaded(text).configuration == loaded(source).configuration
    assert diff(source, text) == {}


def test_each_change_is_explained():
    with every_case() as case:
        for name, source in OLDER.items():
            with case(name):
                every_change_is_explained(source)


def every_change_is_explained(source):
    """A comment is at the field or above it in the result, or names a field that is gone."""
    done = upgrade(parse_document(json.dumps(source)), declarations())
    made, given = leaves(converted(done)), leaves(source)
    explained = set(done.comments)
    for path in made.keys() - {path for path in given if made.get(path) == given[path]}:
        assert path == "kind" or any(is_at(path, comment) for comment in explained), path
    texts = " ".join(text for comments in done.comments.values() for text in comments) + " ".join(explained)
    values = {name for path in made for name in re.split(r"[.\[\]]", path)} | {str(value) for value in made.values()}
    for path, value in given.items():
        if (
            path in made
            or value in (False, "", [])
            or path.endswith(("apiVersion", "kind", "weight", "presence"))
            or str(value) in values
        ):
            continue
        names = [name for name in re.split(r"[.\[\]]", path) if name and not name.isdecimal()]
        assert any(name in texts or name in values for name in names), path


def leaves(value, path=""):
    """Path -> value; plugins are in paths by name, as in comments."""
    if isinstance(value, dict) and value:
        return {k: v for key, item in value.items() for k, v in leaves(item, f"{path}.{key}" if path else key).items()}
    if isinstance(value, list) and value:
        found = {}
        for i, item in enumerate(value):
            name = (
                item.get("name") if isinstance(item, dict) and not path.endswith(("predicates", "priorities")) else None
            )
            found |= leaves(item, f"{path}[{i if name is None else name}]")
        return found
    return {path: value}


def is_at(path, comment):
    return bool(comment) and (path == comment or path.startswith((f"{comment}.", f"{comment}[")))


def test_v1_is_not_changed():
    text = f"# mine\napiVersion: {V1}\nkind: KubeSchedulerConfiguration\nparallelism: 4 # few\n"
    document = parse_document(text)
    assert converted_text(document, upgrade(document, declarations())) == text


def test_comments_are_above_their_field():
    document = parse_document(json.dumps(OLDER["v1beta2: weights"] | {"metricsBindAddress": "0.0.0.0:10251"}))
    lines = converted_text(document, upgrade(document, declarations())).splitlines()
    assert lines[0] == "# Converted from kubescheduler.config.k8s.io/v1beta2 by stowplan config convert."
    assert lines[1] == "# metricsBindAddress left out: health and metrics are served on --secure-port only"
    assert "  # the default plugins of v1beta2 written out: those of v1 have other weights and another order" in lines
    below = lines[
        lines.index(
            "      # instead of EBSLimits: the volumes of all clouds are counted as those of their CSI drivers"
        ) :
    ]
    assert next(line for line in below if "#" not in line) == "      - name: NodeVolumeLimits"


TRICKY = st.sampled_from(
    ["*", "a b", "#", "yes", "1e3", "0x1", "null", "~", "- a", "a: b", "ä", "\u2028", "\n", "", "'", '"']
)


@given(
    args=st.recursive(
        TRICKY | st.integers() | st.booleans() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TRICKY, inner, max_size=3),
        max_leaves=8,
    )
)
def test_any_arguments_are_written_unchanged(args):
    """Arguments of unknown plugins are not changed."""
    document = parse_document(
        json.dumps(config("v1beta3", profiles=[{"pluginConfig": [{"name": "Mine", "args": args}]}]))
    )
    done = upgrade(document, declarations())
    assert yaml.safe_load(converted_text(document, done))["profiles"] == converted(done)["profiles"]


SCORING = (
    "NodeAffinity",
    "ImageLocality",
    "TaintToleration",
    "NodeResourcesBalancedAllocation",
    "NodeLabel",
    "SelectorSpread",
    "NodeResourcesMostAllocated",
    "PodTopologySpread",
)


@given(data=st.data(), version=st.sampled_from(["v1alpha2", "v1beta1", "v1beta2", "v1beta3"]))
def test_random_configurations_are_equivalent_after_conversion(data, version):
    plugin = st.fixed_dictionaries({"name": st.sampled_from([*SCORING, "*"])})
    weighted = st.fixed_dictionaries({"name": st.sampled_from(SCORING)}, optional={"weight": st.integers(0, 20)})
    sets = st.fixed_dictionaries(
        {}, optional={"enabled": st.lists(weighted, max_size=2), "disabled": st.lists(plugin, max_size=3)}
    )
    plugins = {"score": data.draw(sets), "preScore": {"disabled": data.draw(st.lists(plugin, max_size=2))}}
    args = st.sampled_from([None, {}, 3, "x", [], {"defaultConstraints": []}, {"resources": []}])
    entry = st.fixed_dictionaries({"name": st.sampled_from(SCORING), "args": args})
    source = config(version, profiles=[{"plugins": plugins, "pluginConfig": data.draw(st.lists(entry, max_size=2))}])
    document = parse_document(json.dumps(source))
    try:
        before = loaded(source).configuration
    except ConfigError:
        # Configurations that do not start need not be converted.
        return
    text = converted_text(document, upgrade(document, declarations()))
    assert loaded(text).configuration == before


# --- differences


def test_explicit_defaults_do_not_differ():
    assert diff(None, json.dumps(loaded(None).configuration.to_dict())) == {}


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        pytest.param(
            v1(), v1(plugins=score(("NodeAffinity", 5))), {"score: NodeAffinity: weight": (2, 5)}, id="a weight"
        ),
        pytest.param(
            v1(plugins=score(("NodeAffinity", 5), ("ImageLocality", 1))),
            v1(plugins=score(("ImageLocality", 1), ("NodeAffinity", 5))),
            {},
            id="the order of scores",
        ),
        pytest.param(
            v1(plugins={"filter": {"enabled": named("NodePorts", "NodeName")}}),
            v1(plugins={"filter": {"enabled": named("NodeName", "NodePorts")}}),
            "filter: order",
            id="the order of filters",
        ),
        pytest.param(
            v1(),
            v1(plugins={"filter": {"disabled": named("NodePorts")}}),
            {"filter: NodePorts": ("runs", None)},
            id="a filter",
        ),
        pytest.param(
            v1(),
            v1(plugins={"multiPoint": {"disabled": named("ImageLocality")}}),
            {"score: ImageLocality": ("weight 1", None)},
            id="a score",
        ),
        pytest.param(
            v1(),
            v1(pluginConfig=[{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 7}}]),
            {"arguments of InterPodAffinity.hardPodAffinityWeight": (1, 7)},
            id="an argument",
        ),
        pytest.param(
            v1(plugins={"multiPoint": {"disabled": named("InterPodAffinity")}}),
            v1(
                plugins={"multiPoint": {"disabled": named("InterPodAffinity")}},
                pluginConfig=[{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 7}}],
            ),
            {},
            id="an argument of a plugin that does not run",
        ),
    ],
)
def test_profiles_differ(left, right, found):
    shown = {path.removeprefix("profile default-scheduler: "): sides for path, sides in diff(left, right).items()}
    assert list(shown) == [found] if isinstance(found, str) else shown == found


def test_settings_differ():
    assert diff(config("v1"), config("v1", parallelism=3, podMaxBackoffSeconds=9)) == {
        "parallelism": (16, 3),
        "podMaxBackoffSeconds": (10, 9),
    }
    off = {"leaderElect": False}
    assert diff(config("v1", leaderElection=off), config("v1", leaderElection={**off, "leaseDuration": "1m"})) == {}
    assert diff(config("v1"), config("v1", leaderElection=off)) == {"leaderElection.leaderElect": (True, False)}
    assert diff(config("v1"), config("v1", enableProfiling=False)) == {"enableProfiling": (True, False)}


def test_profiles_are_compared_by_name():
    two = config("v1", profiles=[{"schedulerName": "a"}, {"schedulerName": "b"}])
    turned = config("v1", profiles=[{"schedulerName": "b"}, {"schedulerName": "a"}])
    assert diff(two, turned) == {}
    assert diff(two, v1(schedulerName="a")) == {"profile b": ("present", None)}
    assert diff(v1(schedulerName="a"), v1(schedulerName="b")) == {"profiles[0].schedulerName": ("a", "b")}


def test_the_references_output_is_an_equal_configuration():
    with every_case() as case:
        for n, row in sampled(list(enumerate(compare.rows("config"), 1))):
            if "error" not in row:
                with case(f"line {n}"):
                    assert diff(row["config"], row["written"]) == {}


# --- where plugins come from


def origins(source, point):
    found = effective_profiles(loaded(source), declarations(), DEFAULT_FEATURES)
    return {plugin.name: plugin.origin for plugin in found[0].points[point]}


def test_origins_of_plugins():
    source = v1(
        plugins={
            "multiPoint": {"enabled": named("LegacyNodeLabel", "NodeAffinity")},
            "score": {"enabled": named("NodeResourcesFit", weight=5)},
        }
    )
    found = origins(source, "score")
    assert found["NodeResourcesFit"] == "explicit"
    assert found["LegacyNodeLabel"] == found["NodeAffinity"] == "multiPoint"
    assert found["TaintToleration"] == "default"


@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1", "v1beta2"])
def test_defaults_of_older_releases_are_defaults(version):
    source = config(
        version, profiles=[{"plugins": {"filter": {"disabled": named("NodePorts"), "enabled": named("NodePorts")}}}]
    )
    found = origins(source, "filter")
    assert found.pop("NodePorts") == "explicit"
    assert set(found.values()) == {"default"}
    assert set(origins(source, "preFilter").values()) == {"default"}
    assert set(origins(source, "score").values()) == {"default"}


def test_default_plugins_that_do_not_run():
    source = v1(
        plugins={"multiPoint": {"disabled": named("ImageLocality")}, "filter": {"disabled": named("NodePorts")}}
    )
    profile = effective_profiles(loaded(source), declarations(), DEFAULT_FEATURES)[0]
    assert profile.left_out == {"ImageLocality": "disabled at multiPoint", "NodePorts": "disabled at filter"}


# --- what does nothing


def unused_settings_of(source):
    found = loaded(source)
    return list(unused_settings(found.fields, found.configuration, declarations()))


def test_settings_without_effect():
    source = {
        **v1(
            plugins={
                "score": {"disabled": named("NodeAffinitty")},
                "multiPoint": {"disabled": named("ImageLocality", "*", "Coscheduling"), "enabled": named("NodePorts")},
                "filter": {"enabled": named("NodeName", weight=3)},
                "queueSort": {"enabled": named("PrioritySort")},
                "bind": {"enabled": named("DefaultBinder")},
            },
            pluginConfig=[{"name": "NodeResourceFit"}, {"name": "InterPodAffinity"}],
        ),
        "leaderElection": {"leaderElect": False, "leaseDuration": "1m"},
    }
    found = unused_settings_of(source)
    assert [line.partition(":")[0] for line in found] == [
        "profiles[0].pluginConfig[0]",
        "profiles[0].plugins.score.disabled[0]",
        "profiles[0].plugins.multiPoint.disabled[2]",
        "profiles[0].plugins.filter.enabled[0].weight",
        "profiles[0].pluginConfig[1]",
        "leaderElection",
    ]
    assert "did you mean NodeAffinity?" in found[1]
    assert "scheduler-plugins" in found[2]
    assert "did you mean NodeResourcesFit?" in found[0]


def test_the_defaults_have_no_settings_without_effect():
    assert unused_settings_of(loaded(None).configuration.to_dict()) == []


# --- fields


@pytest.mark.slow
def test_every_field_is_described():
    known = declarations()
    for path in known_paths(known):
        found = explain_field(path, known, DEFAULT_FEATURES)
        assert found.text, path
        assert found.type, path


def test_every_struct_of_the_configuration_is_walked():
    def structs(type_):
        while isinstance(type_, Pointer | Slice):
            type_ = type_.item
        if isinstance(type_, Struct):
            yield type_.name
            for field in type_.fields.values():
                yield from structs(field.type)

    paths = list(known_paths(declarations()))
    assert {"Plugin", "PluginSet", "Extender", "ExtenderTLSConfig"} <= set(structs(CONFIGURATION))
    assert {f"profiles.plugins.{point}.enabled.name" for point in POINTS} <= set(paths)
    assert "extenders.tlsConfig.caData" in paths
    assert "Policy.extenders.httpTimeout" in paths
    assert "PodTopologySpreadArgs.defaultConstraints.labelSelector.matchLabels" in paths


@pytest.mark.parametrize(
    ("path", "type_", "default", "versions"),
    [
        ("percentageOfNodesToScore", "int32", "0", 6),
        ("parallelism", "int32", "16", 4),
        ("delayCacheUntilActive", "bool", "false", 1),
        ("leaderElection.leaseDuration", "duration", "15s", 6),
        ("leaderElection.lockObjectName", "string", '""', 2),
        ("profiles[0].schedulerName", "string", "default-scheduler", 5),
        ("profiles.percentageOfNodesToScore", "int32", "", 1),
        ("profiles.plugins.multiPoint", "PluginSet", "", 3),
        ("extenders.httpTimeout", "duration", "5s", 5),
        ("clientConnection.qps", "float32", "50", 6),
        ("NodeResourcesFitArgs.scoringStrategy.type", "string", "LeastAllocated", 4),
        ("NodeResourcesFit.scoringStrategy.resources.weight", "int64", "1", 4),
        ("DynamicResources.bindingTimeout", "duration", "10m0s", 1),
        ("algorithmSource.provider", "string", "", 1),
        ("Policy.hardPodAffinitySymmetricWeight", "int32", "0", 2),
    ],
)
def test_types_defaults_and_versions(path, type_, default, versions):
    found = explain_field(path, declarations(), DEFAULT_FEATURES)
    assert (found.type, found.default, len(found.versions)) == (type_, default, versions)


def test_a_plugin_without_arguments():
    found = explain_field("NodePorts", declarations(), DEFAULT_FEATURES)
    assert found.notes == ("NodePorts runs at: filter, preFilter", "by default: it runs")


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [
        ("profiles.plugin", "KubeSchedulerConfiguration.profiles has no field plugin", "did you mean plugins?"),
        (
            "NodeResorcesFit",
            "KubeSchedulerConfiguration has no field NodeResorcesFit",
            "did you mean NodeResourcesFit?",
        ),
        (
            "NodeResourcesFitArgs.strategy",
            "NodeResourcesFitArgs has no field strategy",
            "did you mean scoringStrategy?",
        ),
        ("parallelism.x", "KubeSchedulerConfiguration.parallelism has no field x", None),
        ("zzz", "KubeSchedulerConfiguration has no field zzz", "stowplan config explain lists all fields; it also "),
        ("profiles.pluginConfig.args.x", "profiles.pluginConfig.args.x: the arguments depend on the plugin", "explain"),
    ],
)
def test_unknown_fields(path, message, hint):
    with pytest.raises(UnknownFieldError) as caught:
        explain_field(path, declarations(), DEFAULT_FEATURES)
    assert str(caught.value) == message
    assert (hint or "") in " ".join(caught.value.hints)


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
