"""The reference's observed results for each row of the specification's checklist, and validation messages."""

import pytest

from stowplan import load_config
from stowplan.kube.config import ConfigError

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
LABEL_KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def load(gates=None, **fields):
    return load_config({**HEADER, **fields}, feature_gates=gates)


def refusal(gates=None, **fields):
    with pytest.raises(ConfigError) as caught:
        load(gates, **fields)
    return str(caught.value)


def args(name, **fields):
    return {"profiles": [{"pluginConfig": [{"name": name, "args": fields}]}]}


def disabled(point, *names):
    return {"plugins": {point: {"disabled": [{"name": name} for name in names]}}}


# -- accepted


def test_a_header_alone_gives_the_defaults():
    assert load() == load_config()
    written = load_config().to_dict()
    assert {key: value for key, value in written.items() if key != "profiles"} == {
        **HEADER,
        "clientConnection": {
            "acceptContentTypes": "",
            "burst": 100,
            "contentType": "application/vnd.kubernetes.protobuf",
            "kubeconfig": "",
            "qps": 50,
        },
        "enableContentionProfiling": True,
        "enableProfiling": True,
        "leaderElection": {
            "leaderElect": True,
            "leaseDuration": "15s",
            "renewDeadline": "10s",
            "resourceLock": "leases",
            "resourceName": "kube-scheduler",
            "resourceNamespace": "kube-system",
            "retryPeriod": "2s",
        },
        "parallelism": 16,
        "percentageOfNodesToScore": 0,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 10,
    }


def test_an_encoded_configuration_loads_again():
    config = load_config()
    assert load_config(config.to_dict()) == config


@pytest.mark.parametrize(
    "election",
    [
        pytest.param(
            {"leaderElect": False, "leaseDuration": "-1s", "resourceLock": "foo"}, id="no election, no checks"
        ),
        pytest.param({"retryPeriod": "9s"}, id="the retry period is checked by the elector"),
        pytest.param({"leaseDuration": "0s", "resourceName": ""}, id="zero is unset"),
    ],
)
def test_leader_election_that_loads(election):
    assert load(leaderElection=election)


@pytest.mark.parametrize(
    ("given", "qps", "burst"), [({"qps": 0, "burst": 0}, 50, 100), ({"qps": -1, "burst": 0}, -1, 100)]
)
def test_zero_client_limits_are_unset(given, qps, burst):
    written = load(clientConnection=given).to_dict()["clientConnection"]
    assert (written["qps"], written["burst"]) == (qps, burst)


@pytest.mark.parametrize(
    ("given", "contention"),
    [
        ({}, True),
        ({"enableProfiling": False}, False),
        ({"enableProfiling": False, "enableContentionProfiling": True}, True),
        ({"enableContentionProfiling": False}, False),
    ],
)
def test_contention_profiling_follows_profiling(given, contention):
    assert load(**given).enable_contention_profiling is contention


def test_arguments_of_a_disabled_fit_are_never_checked():
    profile = {
        **disabled("multiPoint", "NodeResourcesFit"),
        "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {}}}],
    }
    assert load(profiles=[profile]).profiles[0].plugin_args("NodeResourcesFit") is None


# -- refused by validation

FIT = (
    "initializing profiles: creating profile for scheduler name default-scheduler: initializing plugin "
    '"NodeResourcesFit": '
)
P0 = "profiles[0].pluginConfig[0].args."
REMOVED = 'was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param(
            {"profiles": [{}, {}]},
            "[profiles[0].schedulerName: Required value, profiles[1].schedulerName: Required value, "
            "profiles[1].schedulerName: Duplicate value: {}]",
            id="no names",
        ),
        pytest.param(
            {"leaderElection": {"renewDeadline": "-1s", "resourceLock": "endpoints"}},
            '[leaderElection.renewDeadline: Invalid value: "-1s": must be greater than zero, '
            'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"]',
            id="negative deadline, other lock",
        ),
        pytest.param(
            {"profiles": [{"plugins": {"queueSort": {"enabled": [{"name": "A"}, {"name": "B"}]}}}]},
            "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled",
            id="two queue sorts",
        ),
        pytest.param(
            {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "EBSLimits"}]}}}]},
            f'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": {REMOVED}',
            id="removed plugin",
        ),
        pytest.param(
            {"profiles": [{"pluginConfig": [{"name": "EBSLimits"}]}]},
            f'profiles[0].pluginConfig[0]: Invalid value: "EBSLimits": {REMOVED}',
            id="removed plugin's arguments",
        ),
        pytest.param(
            args("NodeResourcesFitArgs", a=1),
            'profiles[0].pluginConfig[0].args: Invalid value: {"a":1}: has to match plugin args',
            id="the kind's name for the plugin's",
        ),
        pytest.param(
            {
                "profiles": [
                    {
                        **disabled("multiPoint", "InterPodAffinity"),
                        "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 300}}],
                    }
                ]
            },
            f"{P0}hardPodAffinityWeight: Invalid value: 300: not in valid range [0, 100]",
            id="arguments of a disabled plugin",
        ),
        pytest.param(
            args("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0),
            f"[{P0}minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as "
            f"minCandidateNodesAbsolute, {P0}minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same "
            "time as minCandidateNodesPercentage]",
            id="preemption without candidates",
        ),
        pytest.param(
            args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu"}, {"name": "cpu", "weight": 2}]),
            f'[{P0}resources[1].name: Duplicate value: "cpu", {P0}resources[1].weight: Invalid value: 2: must be 1]',
            id="balanced allocation",
        ),
        pytest.param(
            args(
                "PodTopologySpread",
                defaultingType="Foo",
                defaultConstraints=[{"topologyKey": "a", "whenUnsatisfiable": "Foo", "labelSelector": {}}],
            ),
            f'[{P0}defaultingType: Unsupported value: "Foo": supported values: "System", "List", '
            f"{P0}defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf), "
            f'{P0}defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Foo": supported values: '
            f'"DoNotSchedule", "ScheduleAnyway", {P0}defaultConstraints[0].labelSelector: Forbidden: '
            "constraint must not define a selector, as they deduced for each pod]",
            id="spread constraint",
        ),
        pytest.param(
            args("DynamicResources", filterTimeout="-1s", bindingTimeout="500ms"),
            f'[{P0}filterTimeout: Invalid value: "-1s": must be zero or positive, '
            f'{P0}bindingTimeout: Invalid value: "500ms": must be at least 1 second]',
            id="timeouts",
        ),
        pytest.param(
            {"extenders": [{"managedResources": [{"name": name} for name in ("a/b", "a/b", "requests.a/b", "")]}]},
            '[extenders[0].managedResources[1].name: Invalid value: "a/b": duplicate extender managed resource name, '
            'extenders[0].managedResources[2].name: Invalid value: "requests.a/b": is an invalid extended '
            "resource name, "
            'extenders[0].managedResources[3].name: Invalid value: "": name part must be non-empty, '
            f'extenders[0].managedResources[3].name: Invalid value: "": name part {LABEL_KEY}]',
            id="managed resources",
        ),
        pytest.param(
            args("NodeResourcesFit", scoringStrategy={"type": "<none>"}),
            rf'{FIT}scoringStrategy.type: Unsupported value: "\u003cnone\u003e": supported values: "LeastAllocated", '
            '"MostAllocated", "RequestedToCapacityRatio"',
            id="strategy shown as JSON",
        ),
        pytest.param(
            args("NodeResourcesFit", scoringStrategy={"type": "RequestedToCapacityRatio"}),
            f"{FIT}scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is "
            "RequestedToCapacityRatio",
            id="strategy without shape",
        ),
        pytest.param(
            args("NodeResourcesFit", scoringStrategy={"type": "MostAllocated", "requestedToCapacityRatio": {}}),
            f"{FIT}scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not "
            "RequestedToCapacityRatio",
            id="strategy with a shape too many",
        ),
        pytest.param(
            args("NodeResourcesFit", ignoredResourceGroups=["a/b"]),
            f"{FIT}ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'",
            id="resource group",
        ),
        pytest.param(
            {
                "profiles": [
                    {
                        "plugins": {"filter": {"enabled": [{"name": "Nope"}]}},
                        "pluginConfig": [
                            {
                                "name": "NodeResourcesFit",
                                "args": {
                                    "scoringStrategy": {
                                        "type": "RequestedToCapacityRatio",
                                        "requestedToCapacityRatio": {"shape": [{"utilization": 101, "score": 11}]},
                                    }
                                },
                            }
                        ],
                    }
                ]
            },
            f"{FIT}[scoringStrategy.requestedToCapacityRatio.shape[0].utilization: Invalid value: 101: not in "
            "valid range "
            "[0, 100], scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: not in valid range "
            "[0, 10]]",
            id="a bad argument wins over an unknown plugin",
        ),
        pytest.param(
            {"extenders": [{"tlsConfig": {"insecure": True, "caFile": "/nope"}}]},
            "couldn't build extenders: specifying a root certificates file with the insecure flag is not allowed",
            id="insecure with authority",
        ),
        pytest.param(
            {"extenders": [{"tlsConfig": {"caFile": "/nope"}}]},
            "couldn't build extenders: open /nope: no such file or directory",
            id="missing certificate",
        ),
        pytest.param(
            {
                "profiles": [disabled("multiPoint", "NodeResourcesFit")],
                "extenders": [{"managedResources": [{"name": "a/b", "ignoredByScheduler": True}]}],
            },
            "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config",
            id="a resource to ignore without Fit",
        ),
    ],
)
def test_refused(fields, expected):
    assert refusal(**fields) == expected


def test_all_errors_of_added_affinity_are_reported():
    expressions = [
        {"key": "", "operator": "Exists"},
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Bad"},
    ]
    term = {"matchExpressions": expressions, "matchFields": [{"key": "f", "operator": "In", "values": ["a", "b"]}]}
    path = f"{P0}addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": term}],
    }
    assert refusal(**args("NodeAffinity", addedAffinity=affinity)) == (
        f'[{path}matchExpressions[0].key: Invalid value: "": name part must be non-empty; name part {LABEL_KEY}, '
        f"{path}matchExpressions[1].values: Invalid value: null: for 'in', 'notin' operators, values set "
        "can't be empty, "
        f'{path}matchExpressions[2].operator: Unsupported value: "Bad": supported values: "In", "NotIn", "Exists", '
        f'"DoesNotExist", "Gt", "Lt", {path}matchFields[0].values: Invalid value: ["a","b"]: must have one element]'
    )


def test_the_gate_of_the_shape():
    assert refusal({"StorageCapacityScoring": False}, **args("VolumeBinding", bindTimeoutSeconds=0, shape=[])) == (
        f"{P0}shape: Invalid value: []: unexpected field `shape`, remove it or turn on the feature gate "
        "StorageCapacityScoring"
    )


def test_gates_forbid_and_require_arguments():
    gates = {"DRASchedulerFilterTimeout": False, "DRADeviceBindingConditions": False, "StorageCapacityScoring": True}
    assert refusal(gates, **args("DynamicResources", filterTimeout="1s", bindingTimeout="1s")) == (
        f"[{P0}filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled, "
        f"{P0}bindingTimeout: Forbidden: DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is "
        "disabled]"
    )
    profile = load(gates).profiles[0]
    assert [(p.utilization, p.score) for p in profile.plugin_args("VolumeBinding").shape] == [(0, 10), (100, 0)]
    written = {config["name"]: config["args"] for config in load(gates).to_dict()["profiles"][0]["pluginConfig"]}
    assert written["DynamicResources"]["filterTimeout"] is None


# -- extenders


def test_side_effects_of_extenders(caplog):
    caplog.set_level("INFO")
    resources = [{"name": "a/b", "ignoredByScheduler": True}, {"name": "a/c"}]
    config = load(
        profiles=[{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["x/y"]}}]}],
        extenders=[{"urlPrefix": "soft", "ignorable": True, "managedResources": resources}, {"urlPrefix": "hard"}],
    )
    assert [extender["httpTimeout"] for extender in config.to_dict()["extenders"]] == ["5s", "5s"]
    assert [extender.url_prefix for extender in config.extenders_in_call_order] == ["hard", "soft"]
    assert [extender.url_prefix for extender in config.extenders] == ["soft", "hard"]
    assert config.profiles[0].plugin_args("NodeResourcesFit").ignored_resources == ("a/b",)
    assert "Disabling signatures for profile because it has extenders configured." in caplog.messages


def test_an_unknown_scheduler_name_has_no_profile():
    assert load().profile("default-scheduler").percentage_of_nodes_to_score is None
    with pytest.raises(KeyError):
        load().profile("other")
