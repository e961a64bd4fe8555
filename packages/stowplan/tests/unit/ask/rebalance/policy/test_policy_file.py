"""Reading policies: defaults, and every problem with its field and line."""

import pytest

from stowplan.ask.rebalance import read_policy
from stowplan.ask.rebalance.policy.arguments import DEFAULT_PROTECTIONS, LOCAL_STORAGE, WITH_CLAIMS
from stowplan.ask.rebalance.policy.policy_file import BALANCE, DESCHEDULE, STRATEGIES
from stowplan.kube.api.manifest_files import LoadError

HEAD = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}


def a_policy(*configs, enabled=(), point="deschedule", **more):
    config = [{"name": name, "args": args} for name, args in configs]
    return {
        **HEAD,
        **more,
        "profiles": [{"name": "p", "pluginConfig": config, "plugins": {point: {"enabled": list(enabled)}}}],
    }


def problems(policy):
    with pytest.raises(LoadError) as raised:
        read_policy(policy)
    return [error.removeprefix("policy: profiles[0].") for error in raised.value.errors]


def test_an_empty_policy():
    found = read_policy(HEAD)
    assert (found.profiles, found.node_selector, found.total) == ((), "", None)


def test_all_fields():
    found = read_policy(
        a_policy(
            ("RemoveFailedPods", None),
            ("LowNodeUtilization", {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50.5}}),
            enabled=["RemoveFailedPods"],
            nodeSelector="pool=a",
            maxNoOfPodsToEvictPerNode=1,
            maxNoOfPodsToEvictPerNamespace=2,
            maxNoOfPodsToEvictTotal=3,
            gracePeriodSeconds=0,
            metricsProviders=[{"source": "Prometheus", "prometheus": {"url": "http://prometheus"}}],
        )
    )
    assert (found.per_node, found.per_namespace, found.total) == (1, 2, 3)
    assert (found.node_selector, found.grace_period_seconds) == ("pool=a", 0)
    assert found.prometheus.url == "http://prometheus"
    [(strategy, arguments)] = found.profiles[0].strategies[DESCHEDULE]
    assert strategy is STRATEGIES["RemoveFailedPods"]
    assert arguments.min_pod_lifetime_seconds == 3600
    assert found.profiles[0].strategies[BALANCE] == ()


def test_protections():
    def of(**args):
        return read_policy(a_policy(("DefaultEvictor", args))).profiles[0].evictor.protections

    assert of() == set(DEFAULT_PROTECTIONS)
    assert of(evictLocalStoragePods=True) == set(DEFAULT_PROTECTIONS) - {LOCAL_STORAGE}
    assert of(ignorePvcPods=True) == {*DEFAULT_PROTECTIONS, WITH_CLAIMS}
    changed = of(podProtections={"defaultDisabled": [LOCAL_STORAGE], "extraEnabled": [WITH_CLAIMS]})
    assert changed == set(DEFAULT_PROTECTIONS) - {LOCAL_STORAGE} | {WITH_CLAIMS}


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (("PodLifetime", {}), 'pluginConfig[0].name: there is no plugin "PodLifetime" here; did you mean PodLifeTime?'),
        (("PodLifeTime", {}), "pluginConfig[0].args: set at least one of maxPodLifeTimeSeconds, states"),
        (("PodLifeTime", {"maxPodLifeTimeSeconds": -1}), "args.maxPodLifeTimeSeconds: want a whole number, 0 or more"),
        (("PodLifeTime", {"states": ["Gone"]}), 'args.states[0]: there is no state "Gone"'),
        (("PodLifeTime", {"conditions": [{}]}), "args.conditions[0]: set at least one of type, status"),
        (
            ("RemoveDuplicates", {"namespaces": {"include": ["a"], "exclude": ["b"]}}),
            "args.namespaces: only one of include and exclude can be set",
        ),
        (("RemovePodsViolatingNodeAffinity", {}), "args.nodeAffinityType: is missing"),
        (
            (
                "RemovePodsViolatingNodeTaints",
                {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
            ),
            'args.labelSelector: "Is" is not a valid label selector operator',
        ),
        (
            ("RemovePodsViolatingTopologySpreadConstraint", {"constraints": ["Never"]}),
            "args.constraints[0]: want DoNotSchedule or ScheduleAnyway",
        ),
        (("RemovePodsHavingTooManyRestarts", {}), "args.podRestartThreshold: want 1 or more"),
        (("HighNodeUtilization", {"thresholds": {"cpu": 101}}), "args.thresholds.cpu: want a percentage from 0 to 100"),
        (("HighNodeUtilization", {}), "args.thresholds: is missing"),
        (
            ("LowNodeUtilization", {"thresholds": {"cpu": 9}, "targetThresholds": {"cpu": 5}}),
            "args.thresholds.cpu: is greater than in targetThresholds",
        ),
        (
            ("LowNodeUtilization", {"thresholds": {"cpu": 1}, "targetThresholds": {"memory": 5}}),
            "args.targetThresholds: want the same resources as in thresholds",
        ),
        (("DefaultEvictor", {"minPodAge": "soon"}), "args.minPodAge:"),
        (("DefaultEvictor", {"noEvictionPolicy": "Always"}), "args.noEvictionPolicy: want Preferred or Mandatory"),
        (("DefaultEvictor", {"nodeSelector": "a in"}), "args.nodeSelector:"),
        (
            ("DefaultEvictor", {"ignorePvcPods": True, "podProtections": {"extraEnabled": [WITH_CLAIMS]}}),
            "args.ignorePvcPods: cannot be set together with podProtections",
        ),
        (
            ("DefaultEvictor", {"podProtections": {"defaultDisabled": [WITH_CLAIMS]}}),
            'podProtections.defaultDisabled[0]: there is no "PodsWithPVC" here',
        ),
    ],
)
def test_problems(config, problem):
    [found] = problems(a_policy(config))
    assert problem in found


def test_plugins_that_are_not_there():
    found = problems(a_policy(enabled=["RemoveDuplicates", "PodLifeTime"]))
    assert found[0].startswith('plugins.deschedule.enabled[0]: there is no plugin "RemoveDuplicates" here; there are ')
    assert found[1:] == ["plugins.deschedule.enabled[1]: PodLifeTime has no entry in pluginConfig"]


@pytest.mark.parametrize(
    ("providers", "problem"),
    [
        ([{"source": "Graphite"}], "metricsProviders[0].source: want KubernetesMetrics or Prometheus"),
        ([{"source": "KubernetesMetrics"}] * 2, "metricsProviders[1].source: KubernetesMetrics is given twice"),
        ([{"source": "Prometheus"}], "metricsProviders[0]: prometheus.url is missing"),
        (
            [{"source": "Prometheus", "prometheus": {"url": "u", "authToken": {}}}],
            "metricsProviders[0].prometheus.authToken: want secretReference",
        ),
    ],
)
def test_metrics_providers(providers, problem):
    [found] = problems({**HEAD, "metricsProviders": providers})
    assert problem in found


def test_lines(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(
        "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\nprofiles:\n- name: p\n  pluginConfig:\n"
        "  - name: DefaultEvictor\n    args:\n      nodeFitt: true\n      minReplicas: many\n"
    )
    assert problems(path) == [
        f"{path}: line 8: profiles[0].pluginConfig[0].args.nodeFitt: there is no such field; did you mean nodeFit?",
        f"{path}: line 9: profiles[0].pluginConfig[0].args.minReplicas: want a whole number, got a string",
    ]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"kind": "Policy"}, "kind: want DeschedulerPolicy, got Policy"),
        ({**HEAD, "apiVersion": "descheduler/v1alpha1"}, "want descheduler/v1alpha2, got descheduler/v1alpha1; strat"),
        ({**HEAD, "nodeSelector": "a in"}, "nodeSelector:"),
    ],
)
def test_other_documents(given, problem):
    [found] = problems(given)
    assert problem in found


def test_no_object(tmp_path):
    (tmp_path / "policy.yaml").write_text("- a\n")
    [found] = problems(tmp_path / "policy.yaml")
    assert found.endswith("want a DeschedulerPolicy")
