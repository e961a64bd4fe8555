"""`stowplan config`: output, converted files, exit codes."""

import json

import pytest
import yaml

from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.older_configurations import OLDER, config, named, policy

V1 = "kubescheduler.config.k8s.io/v1"


@pytest.fixture
def write(tmp_path):
    """Write documents to files, and return their paths."""

    def write(*documents):
        paths = []
        for document in documents:
            path = tmp_path / f"config-{len(list(tmp_path.iterdir()))}.yaml"
            path.write_text(document if isinstance(document, str) else json.dumps(document))
            paths.append(str(path))
        return paths

    return write


def v1(**profile):
    return config("v1", profiles=[profile])


# --- view


def test_view(run, write):
    (path,) = write(
        v1(
            schedulerName="a",
            plugins={
                "score": {"enabled": named("NodeResourcesFit", weight=5)},
                "multiPoint": {"disabled": named("ImageLocality"), "enabled": named("LegacyNodeLabel")},
            },
            pluginConfig=[{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}],
        )
    )
    ran = run("config", "view", path)
    assert (ran.code, ran.err) == (0, "")
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines[0] == [f"{path}:", V1]
    assert ["score", "NodeResourcesFit", "5", "explicit"] in lines
    assert ["LegacyNodeLabel", "1", "multiPoint"] in lines
    assert ["TaintToleration", "3", "default"] in lines
    assert ["ImageLocality", "disabled", "at", "multiPoint"] in lines
    assert lines[-1][-1] == "MostAllocated"
    assert json.loads(run("config", "view", path, "-o", "json").out)["files"][0]["profiles"][0]["schedulerName"] == "a"


def test_view_explains_the_conversion_of_a_policy(run, write):
    ran = run(
        "config",
        "view",
        *write(policy(priorities=named("MostRequestedPriority", weight=2), alwaysCheckAllPredicates=True)),
    )
    assert ran.code == 0
    assert "warning: alwaysCheckAllPredicates left out" in ran.out
    assert "priority MostRequestedPriority; instead of NodeResourcesMostAllocated" in ran.out


def test_a_bad_file_does_not_prevent_showing_others(run, write):
    ran = run("config", "view", *write(v1(schedulerName=""), v1(schedulerName="good")))
    assert ran.code == 2
    assert ran.err.endswith("profiles[0].schedulerName: Required value\n")
    assert "profile good" in ran.out


# --- validate


def test_validate(run, write):
    good, bad = write(v1(), v1(plugins={"filter": {"enabled": named("CrossNodePreemption", "NodeResourceFit")}}))
    ran = run("config", "validate", good, bad)
    assert ran.code == 2
    assert ran.out == f"{good}: valid, {V1}, profile default-scheduler\n"
    error, *hints = ran.err.splitlines()
    assert error == (
        f"error: {bad}: initializing profiles: creating profile for scheduler name default-scheduler: "
        'FilterPlugin "CrossNodePreemption" does not exist'
    )
    assert "CrossNodePreemption is a plugin of scheduler-plugins" in hints[0]
    assert "--plugin MODULE:CLASS" in hints[0]
    assert hints[1].startswith("hint: NodeResourceFit: did you mean NodeResourcesFit? Else, a plugin of your own")
    assert run("config", "validate", good).code == 0


def test_validate_reads_stdin(run):
    ran = run("config", "validate", "-", stdin=v1(schedulerName="mine"))
    assert (ran.code, ran.out) == (0, f"stdin: valid, {V1}, profile mine\n")
    assert run("config", "validate", "-", stdin=b"\xff").err == "error: read stdin: not UTF-8 text\n"


def test_validate_reads_the_kubeconfig(run, write, tmp_path):
    (path,) = write(v1() | {"clientConnection": {"kubeconfig": str(tmp_path / "kubeconfig")}})
    ran = run("config", "validate", path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"error: {path}: stat {tmp_path}/kubeconfig: no such file or directory\n"
        "hint: clientConnection.kubeconfig is read on the machine of the scheduler\n"
    )
    write_kubeconfig(tmp_path / "kubeconfig", a_kubeconfig(cluster={"server": "http://127.0.0.1:1"}))
    assert (run("config", "validate", path).code, run("config", "view", path).code) == (0, 0)


V1BETA1_ONLY = config("v1beta1", profiles=[{"plugins": {"score": {"enabled": named("NodeLabel")}}}])
NOT_REGISTERED = (
    "kube-scheduler 1.37 refuses it (it reads KubeSchedulerConfiguration v1 alone, which stowplan config convert "
    'writes): no kind "{}" is registered for version "{}" in scheme "pkg/scheduler/apis/config/scheme/scheme.go:29"\n'
)
ONLY_HERE = (
    "kube-scheduler 1.37 refuses {} (only Stowplan has LegacyNodeLabel, LegacyNodePreferAvoidPods): initializing "
    'profiles: creating profile for scheduler name default-scheduler: ScorePlugin "LegacyNodePreferAvoidPods" does not '
    "exist\n"
)


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3", "Policy"])
def test_validate_says_that_kube_scheduler_refuses_older_versions(run, write, version):
    document = {"apiVersion": "v1", "kind": "Policy"} if version == "Policy" else config(version)
    (path,) = write(document)
    ran = run("config", "validate", path)
    assert (ran.code, ran.err) == (
        0,
        f"warning: {path}: " + NOT_REGISTERED.format(document["kind"], document["apiVersion"]),
    )
    assert run("config", "validate", *write(v1())).err == ""


def test_convert_and_validate_say_that_kube_scheduler_lacks_a_plugin(run, write):
    (path,) = write(V1BETA1_ONLY)
    ran = run("config", "convert", path)
    assert (ran.code, ran.err) == (0, f"warning: {path}: " + ONLY_HERE.format("the result"))
    (new,) = write(ran.out)
    validated = run("config", "validate", new)
    assert (validated.code, validated.err) == (0, f"warning: {new}: " + ONLY_HERE.format("it"))


def test_validate_warns_about_settings_without_effect(run, write):
    ran = run("config", "validate", *write(v1(plugins={"score": {"disabled": named("NodeAffinitty")}})))
    assert ran.code == 0
    assert "did you mean NodeAffinity?" in ran.err


def test_validate_knows_out_of_tree_plugins(run, write, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from stowplan.plugins import FilterPlugin\n"
        "class Mine(FilterPlugin):\n    name = 'Mine'\n    def filter(self, state, pod, nodes):\n        return None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (path,) = write(v1(plugins={"filter": {"enabled": named("Mine")}}))
    assert run("config", "validate", path, "--plugin", "mine:Mine").code == 0
    assert 'FilterPlugin "Mine" does not exist' in run("config", "validate", path).err
    assert run("config", "validate", path, "--plugin", "mine:Other").code == 2


def test_feature_gates(run, write):
    (path,) = write(v1())
    assert "NodeDeclaredFeatures" in run("config", "view", path).out
    older = "--emulated-version=1.36"
    gates = "NodeDeclaredFeatures=false,InPlacePodLevelResourcesVerticalScaling=false,ExtendWebSocketsToKubelet=false"
    more = "InPlacePodVerticalScalingInitContainers=false,RestartAllContainersOnContainerExits=false"
    ran = run("config", "view", path, older, "--feature-gates", f"{gates},{more}")
    assert ran.code == 0, ran.err
    assert "NodeDeclaredFeatures" not in ran.out
    assert run("config", "view", path, "--feature-gates", "Nope=true").err == (
        "error: --feature-gates: unrecognized feature gate: Nope\n"
    )
    assert "feature is locked to true" in run("config", "view", path, "--feature-gates", gates).err


def test_emulated_versions(run, write):
    (path,) = write(v1())
    shown = {version: run("config", "defaults", f"--emulated-version={version}").out for version in ("1.36", "1.37")}
    assert "utilization: 100" in shown["1.37"]
    assert "utilization: 100" not in shown["1.36"]
    assert run("config", "view", path, "--emulated-version=1.12").err == (
        "error: --emulated-version: emulation version 1.12 is not between [1.34, 1.37.0]\n"
    )


@pytest.mark.parametrize(
    ("document", "error", "hint"),
    [
        pytest.param(
            config("v1", parallelizm=1),
            'strict decoding error: unknown field "parallelizm"',
            "parallelizm: did you mean parallelism?",
            id="a field",
        ),
        pytest.param(
            config("v1", leaseDuration="5s"),
            'strict decoding error: unknown field "leaseDuration"',
            "leaseDuration: it belongs to leaderElection",
            id="a field elsewhere",
        ),
        pytest.param(
            v1(plugins={"filters": {}}),
            'strict decoding error: unknown field "profiles[0].plugins.filters"',
            "profiles[0].plugins.filters: did you mean filter?",
            id="an extension point",
        ),
        pytest.param(
            v1(pluginConfig=[{"name": "NodeResourcesFit", "args": {"scoringStrateg": {}}}]),
            "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for "
            'plugin NodeResourcesFit: strict decoding error: unknown field "scoringStrateg"',
            "profiles[0].pluginConfig[0].args.scoringStrateg: did you mean scoringStrategy?",
            id="an argument",
        ),
        pytest.param(
            v1(plugins={"score": {"enabled": named("NodeName")}}),
            "initializing profiles: creating profile for scheduler name default-scheduler: "
            'plugin "NodeName" does not extend ScorePlugin plugin',
            "NodeName does not run at score, but at filter",
            id="a plugin at another point",
        ),
        pytest.param(
            v1(plugins={"filter": {"enabled": named("EBSLimits")}}),
            'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1" '
            f'(KubeSchedulerConfiguration is version "{V1}")',
            "EBSLimits: NodeVolumeLimits does its work today",
            id="a plugin that is gone",
        ),
        pytest.param(
            config("v1beta2", profiles=[{"plugins": {"score": {"enabled": named("NodeResourcesMostAllocated")}}}]),
            'profiles[0].plugins.score.enabled[0]: Invalid value: "NodeResourcesMostAllocated": was removed in version '
            '"kubescheduler.config.k8s.io/v1beta2" (KubeSchedulerConfiguration is version '
            '"kubescheduler.config.k8s.io/v1beta2")',
            "NodeResourcesMostAllocated: NodeResourcesFit does its work today: its scoringStrategy of type ",
            id="a plugin that was gone in an older version",
        ),
        pytest.param(
            v1(plugins={"score": {"enabled": named("LoadAwareScheduling")}}),
            "initializing profiles: creating profile for scheduler name default-scheduler: "
            'ScorePlugin "LoadAwareScheduling" does not exist',
            "LoadAwareScheduling is a plugin of Koordinator",
            id="an out-of-tree plugin",
        ),
        pytest.param(
            v1(plugins={"score": {"enabled": named("Qwxyz")}}),
            "initializing profiles: creating profile for scheduler name default-scheduler: "
            'ScorePlugin "Qwxyz" does not exist',
            "Qwxyz: a plugin of your own is loaded with --plugin MODULE:CLASS",
            id="a plugin like no other",
        ),
        pytest.param(
            config("v1beta4"),
            'no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v1beta4" in '
            'scheme "pkg/scheduler/apis/config/scheme/scheme.go:29"',
            "apiVersion: KubeSchedulerConfiguration has the versions kubescheduler.config.k8s.io/v1, ",
            id="a version",
        ),
        pytest.param(
            {"apiVersion": V1, "kind": "KubeSchedulerConfig"},
            f'no kind "KubeSchedulerConfig" is registered for version "{V1}" in '
            'scheme "pkg/scheduler/apis/config/scheme/scheme.go:29"',
            "kind: did you mean KubeSchedulerConfiguration?",
            id="a kind",
        ),
        pytest.param(
            "profiles: []\n",
            "Object 'Kind' is missing in 'profiles: []\n'",
            f"a configuration begins with apiVersion: {V1} and kind: KubeSchedulerConfiguration",
            id="no header",
        ),
    ],
)
def test_hints_follow_the_references_message(run, write, document, error, hint):
    (path,) = write(document)
    ran = run("config", "validate", path)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {path}: {error}\n")
    assert f"hint: {hint}" in ran.err
    record = json.loads(run("config", "validate", path, "-o", "json").out)["files"][0]
    assert record["error"] == error
    assert any(one.startswith(hint) for one in record["hints"])


# --- convert


def test_convert(run, write):
    (path,) = write(OLDER["v1beta2: weights"] | {"healthzBindAddress": "0.0.0.0:10251"})
    ran = run("config", "convert", path)
    assert ran.code == 0
    assert ran.out.startswith("# Converted from kubescheduler.config.k8s.io/v1beta2 by stowplan config convert.\n")
    assert ran.err == (
        f"warning: {path}: healthzBindAddress left out: health and metrics are served on --secure-port only\n"
    )
    assert json.loads(run("config", "convert", path, "-o", "json").out) == yaml.safe_load(ran.out)
    (new,) = write(ran.out)
    assert run("config", "diff", path, new).code == 0
    assert run("config", "convert", new).out == ran.out


def test_convert_refuses_what_v1_cannot_express(run, write):
    ran = run(
        "config",
        "convert",
        *write(config("v1beta1", profiles=[{"plugins": {"score": {"enabled": named("NodeResourceLimits")}}}])),
    )
    assert (ran.code, ran.out) == (2, "")
    assert "NodeResourceLimits" in ran.err


# --- diff


def test_diff(run, write):
    left, right = write(
        v1(), config("v1", parallelism=4, profiles=[{"plugins": {"filter": {"disabled": named("NodePorts")}}}])
    )
    ran = run("config", "diff", left, right)
    assert (ran.code, ran.err) == (1, "")
    assert ran.out == (
        f"--- {left}\n+++ {right}\nparallelism\n  - 16\n  + 4\nprofile default-scheduler: filter: NodePorts\n  - runs\n"
    )
    assert json.loads(run("config", "diff", left, right, "-o", "json").out)["differences"] == [
        {"path": "parallelism", "left": 16, "right": 4},
        {"path": "profile default-scheduler: filter: NodePorts", "left": "runs", "right": None},
    ]
    assert run("config", "diff", right).out == ran.out.replace(left, "defaults")
    same = run("config", "diff", left)
    assert (same.code, same.out) == (0, "")
    assert run("config", "diff", left, "/does/not/exist").code == 2


# --- defaults, explain, schema


def test_defaults(run, write):
    ran = run("config", "defaults")
    assert ran.code == 0
    assert run("config", "diff", *write(ran.out)).code == 0
    assert json.loads(run("config", "defaults", "-o", "json").out) == yaml.safe_load(ran.out)


def test_explain(run):
    ran = run("config", "explain", "leaderElection.leaseDuration")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert "FIELD:      leaderElection.leaseDuration <duration>" in lines
    assert "DEFAULT:    15s" in lines
    assert json.loads(run("config", "explain", "NodePorts", "-o", "json").out)["type"] == "plugin"
    ran = run("config", "explain", "leaderElecton")
    assert ran.code == 2
    assert ran.err.endswith("hint: did you mean leaderElection?\n")
