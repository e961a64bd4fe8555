"""Messages of strict decoding, from the reference's output."""

import json

import pytest

from stowplan import load_config
from stowplan.kube import config as config_room
from stowplan.kube.config import ConfigError, PluginDeclaration
from stowplan.kube.config.config_documents import parse_document
from stowplan.scheduler.in_tree.discovery import declarations

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
NEITHER = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


def message_of(tmp_path, text):
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    return str(caught.value)


def no_kind(kind, version):
    return (
        f'no kind "{kind}" is registered for version "{version}" in scheme '
        '"pkg/scheduler/apis/config/scheme/scheme.go:29"'
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("foo: 1", 'strict decoding error: unknown field "foo"', id="unknown field"),
        pytest.param(
            "leaderElection: {bogus: 1}", 'strict decoding error: unknown field "leaderElection.bogus"', id="nested"
        ),
        pytest.param("Parallelism: 1", 'strict decoding error: unknown field "Parallelism"', id="wrong case"),
        pytest.param(
            "foo: 1\nbar: 1",
            'strict decoding error: unknown field "bar", unknown field "foo"',
            id="YAML keys are sorted",
        ),
        pytest.param(
            "parallelism: 1\nparallelism: 2\nleaderElection:\n  leaderElect: true\n  leaderElect: false",
            'strict decoding error: yaml: unmarshal errors:\n  line 4: key "parallelism" already set in map\n'
            '  line 7: key "leaderElect" already set in map',
            id="YAML duplicates",
        ),
        pytest.param(
            "parallelism: 4294967296",
            "json: cannot unmarshal number 4294967296 into Go struct field KubeSchedulerConfiguration.parallelism "
            "of type int32",
            id="too large for int32",
        ),
        pytest.param(
            "enableProfiling: 'yes'",
            "json: cannot unmarshal string into Go struct field "
            "KubeSchedulerConfiguration.DebuggingConfiguration.enableProfiling of type bool",
            id="field of an embedded struct",
        ),
        pytest.param(
            "profiles: {}",
            "json: cannot unmarshal object into Go struct field KubeSchedulerConfiguration.profiles "
            "of type []v1.KubeSchedulerProfile",
            id="object for a list",
        ),
        pytest.param(
            "profiles: [{plugins: {score: {enabled: [{name: A, weight: x}]}}}]",
            "json: cannot unmarshal string into Go struct field Plugin.profiles.plugins.score.enabled.weight of "
            "type int32",
            id="deep",
        ),
        pytest.param(
            "parallelism: x\nfoo: 1",
            "json: cannot unmarshal string into Go struct field KubeSchedulerConfiguration.parallelism of type int32",
            id="a type error hides unknown fields",
        ),
        pytest.param("leaderElection: {leaseDuration: '15'}", 'time: missing unit in duration "15"', id="no unit"),
        pytest.param("leaderElection: {leaseDuration: null}", 'time: invalid duration ""', id="null for a duration"),
        pytest.param(
            "leaderElection: {leaseDuration: 15}",
            "json: cannot unmarshal number into Go struct field "
            "LeaderElectionConfiguration.leaderElection.leaseDuration "
            "of type string",
            id="bare number for a duration",
        ),
        pytest.param("extenders: [{tlsConfig: {caData: '!'}}]", "illegal base64 data at input byte 0", id="not base64"),
        pytest.param(
            "\tparallelism: 1",
            "yaml: line 3: found a tab character that violates indentation",
            id="tab for indentation",
        ),
    ],
)
def test_errors_in_a_yaml_body(tmp_path, body, expected):
    assert message_of(tmp_path, HEADER + body + "\n") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "Object 'Kind' is missing in ''", id="empty file"),
        pytest.param("a: b\n", "Object 'Kind' is missing in 'a: b\n'", id="no kind"),
        pytest.param(
            '{"kind":"KubeSchedulerConfiguration"}',
            "Object 'apiVersion' is missing in '{\"kind\":\"KubeSchedulerConfiguration\"}'",
            id="no apiVersion",
        ),
        pytest.param(
            "kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1beta4",
            no_kind("KubeSchedulerConfiguration", "kubescheduler.config.k8s.io/v1beta4"),
            id="a version that never was",
        ),
        pytest.param("kind: Policy\napiVersion: v2", no_kind("Policy", "v2"), id="policy of another version"),
        pytest.param("kind: X\napiVersion: a/b/c", "unexpected GroupVersion string: a/b/c", id="too many slashes"),
        pytest.param(
            "kind: NodeAffinityArgs\napiVersion: kubescheduler.config.k8s.io/v1",
            "couldn't decode as KubeSchedulerConfiguration, got kubescheduler.config.k8s.io/v1, "
            "Kind=NodeAffinityArgs: ",
            id="arguments at top level",
        ),
        pytest.param(
            "kind: 1",
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind "
            "of type string",
            id="number for kind",
        ),
        pytest.param(
            "- a",
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type "
            f"{NEITHER}",
            id="a list",
        ),
        pytest.param(
            '{"a": 1', "couldn't get version/kind; json parse error: unexpected end of JSON input", id="cut-off JSON"
        ),
        pytest.param(
            '{"a": 1, }',
            "couldn't get version/kind; json parse error: "
            "invalid character '}' looking for beginning of object key string",
            id="a comma at the end of a JSON object",
        ),
        pytest.param(
            '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "b": 1, "a": 1, '
            '"parallelism": 1, "parallelism": 2}',
            'strict decoding error: unknown field "b", unknown field "a", duplicate field "parallelism"',
            id="JSON keys keep their order",
        ),
        pytest.param(
            "ApiVersion: kubescheduler.config.k8s.io/v1\nKind: KubeSchedulerConfiguration\n",
            'strict decoding error: unknown field "ApiVersion", unknown field "Kind"',
            id="the header's case matters only later",
        ),
    ],
)
def test_errors_in_a_file(tmp_path, text, expected):
    assert message_of(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        pytest.param(
            "NodeResourcesFit",
            {"foo": 1},
            "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: "
            'decoding args for plugin NodeResourcesFit: strict decoding error: unknown field "foo"',
            id="unknown field",
        ),
        pytest.param(
            "NodeResourcesFit",
            {"kind": "NodeAffinityArgs", "apiVersion": "kubescheduler.config.k8s.io/v1"},
            "decoding .profiles[0].pluginConfig[0]: args for plugin NodeResourcesFit were not of type "
            "NodeResourcesFitArgs.kubescheduler.config.k8s.io, got NodeAffinityArgs.kubescheduler.config.k8s.io",
            id="another kind",
        ),
        pytest.param(
            "DynamicResources",
            {"filterTimeout": 5},
            "decoding .profiles[0].pluginConfig[0]: decoding args for plugin DynamicResources: json: cannot unmarshal "
            "number into Go struct field DynamicResourcesArgs.filterTimeout of type string",
            id="wrong type",
        ),
        pytest.param(
            "InterPodAffinity",
            "text",
            "decoding .profiles[0].pluginConfig[0]: decoding args for plugin InterPodAffinity: couldn't get "
            "version/kind; "
            f"json parse error: json: cannot unmarshal string into Go value of type {NEITHER}",
            id="not an object",
        ),
        pytest.param(
            "NodeAffinity",
            {"kind": "NodeAffinityArgs", "apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
            "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeAffinity: "
            + no_kind("NodeAffinityArgs", "kubescheduler.config.k8s.io/v1beta3"),
            id="older version",
        ),
    ],
)
def test_errors_in_arguments(tmp_path, plugin, args, expected):
    text = HEADER + "profiles: " + json.dumps([{"pluginConfig": [{"name": plugin, "args": args}]}])
    assert message_of(tmp_path, text) == expected


def test_strict_errors_of_all_arguments_come_with_those_of_the_file(tmp_path):
    profile = "profiles: [{pluginConfig: [{name: NodeAffinity, args: {a: 1}}, {name: VolumeBinding, args: {b: 1}}]}]\n"
    assert message_of(tmp_path, HEADER + "foo: 1\n" + profile) == (
        'strict decoding error: unknown field "foo", '
        "decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin NodeAffinity: "
        'strict decoding error: unknown field "a", '
        "decoding .profiles[0].pluginConfig[1]: strict decoding error: decoding args for plugin VolumeBinding: "
        'strict decoding error: unknown field "b"'
    )


@pytest.mark.parametrize(
    ("body", "parallelism"),
    [
        pytest.param("parallelism: 7\n---\nnonsense: [", 7, id="only the first document counts"),
        pytest.param("parallelism: 7.0\n", 7, id="whole float"),
        pytest.param("parallelism: 0o10\n", 8, id="octal"),
        pytest.param("parallelism: 0x10\n", 16, id="hexadecimal"),
        pytest.param("parallelism: 1_0\n", 10, id="underscore"),
        pytest.param("profiles: []\nleaderElection: null\nparallelism: null\n", 16, id="empty sections are absent"),
        pytest.param("profiles: null\nextenders: []\n", 16, id="null and empty lists"),
    ],
)
def test_accepted_spellings(tmp_path, body, parallelism):
    file = tmp_path / "config.yaml"
    file.write_text(HEADER + body)
    assert load_config(str(file)).parallelism == parallelism


def test_a_missing_file():
    with pytest.raises(ConfigError, match=r"^open /nonexistent: no such file or directory$"):
        load_config("/nonexistent")


def test_a_mapping_that_is_not_json():
    with pytest.raises(ConfigError, match="cannot be written as JSON"):
        load_config({"kind": object()})


def test_arguments_of_unknown_plugins_are_kept():
    args = {"anything": [1, {"goes": None}]}
    profile = {
        "plugins": {"filter": {"enabled": [{"name": "Mine"}]}},
        "pluginConfig": [{"name": "Mine", "args": args}, {"name": "NotEnabled", "args": 1}],
    }
    mine = PluginDeclaration(name="Mine", points=frozenset({"filter"}))
    config = config_room.load_config(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        },
        plugins={"Mine": mine, **declarations()},
    )
    assert config.profiles[0].plugin_args("Mine") == args
    assert {"name": "Mine", "args": args} in config.to_dict()["profiles"][0]["pluginConfig"]
    assert config.profiles[0].plugin_args("NotEnabled") is None
    # A point's own plugins come after those of multiPoint.
    assert config.profiles[0].points["filter"][-1].name == "Mine"


@pytest.mark.parametrize("number", ["9" * 41, "-" + "9" * 400])
def test_integers_of_arguments_stay_exact(number):
    text = f'{{"kind": "Policy", "pluginConfig": [{{"name": "Mine", "args": {{"size": {number}}}}}]}}'
    assert parse_document(text).value["pluginConfig"][0]["args"]["size"] == int(number)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 5000])
@pytest.mark.parametrize("form", ['{{"profiles": [{{"size": {}}}]}}', "profiles:\n- size: {}\n"], ids=["JSON", "YAML"])
def test_numbers_that_would_become_infinite_are_refused(form, number):
    with pytest.raises(ConfigError, match=r"profiles\[0\]\.size: the number is too large"):
        parse_document(form.format(number))
