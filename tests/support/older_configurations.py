"""Configurations of older versions and policies, as people wrote them: name -> document.

Each was valid in its release, and uses something that v1 expresses differently.
"""

from stowplan.kube.config.older.policy import PREDICATES, PRIORITIES

GROUP = "kubescheduler.config.k8s.io"


def config(version, **fields):
    return {"apiVersion": f"{GROUP}/{version}", "kind": "KubeSchedulerConfiguration", **fields}


def policy(**fields):
    return {"apiVersion": "v1", "kind": "Policy", **fields}


def named(*names, **more):
    return [{"name": name, **more} for name in names]


def _samples():
    yield from _of_versions()
    yield (
        "v1alpha1: all fields",
        config(
            "v1alpha1",
            schedulerName="mine",
            algorithmSource={"provider": "ClusterAutoscalerProvider"},
            hardPodAffinitySymmetricWeight=10,
            healthzBindAddress="0.0.0.0:10251",
            metricsBindAddress="0.0.0.0:10251",
            disablePreemption=True,
            bindTimeoutSeconds=300,
            leaderElection={"leaderElect": True, "lockObjectName": "a", "lockObjectNamespace": "b"},
            plugins={"postFilter": {"enabled": named("TaintToleration"), "disabled": named("*")}},
            unknown=1,
        ),
    )
    yield "v1alpha1: no preemption wanted, but there", config("v1alpha1", disablePreemption=False)
    yield (
        "v1alpha2: profiles",
        config(
            "v1alpha2",
            disablePreemption=True,
            leaderElection={"resourceLock": "endpointsleases"},
            profiles=[
                {
                    "schedulerName": "a",
                    "plugins": {"score": {"disabled": named("*")}, "preScore": {"disabled": named("*")}},
                },
                {"schedulerName": "b", "pluginConfig": [{"name": "NodeLabel", "args": {"presentLabels": ["zone"]}}]},
            ],
            extenders=[{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter", "nodeCacheCapable": True}],
        ),
    )
    yield (
        "v1beta1: retired plugins",
        config(
            "v1beta1",
            profiles=[
                {
                    "plugins": {
                        "filter": {"enabled": named("NodeLabel")},
                        "score": {
                            "disabled": named("NodeResourcesLeastAllocated", "NodePreferAvoidPods"),
                            "enabled": [
                                {"name": "RequestedToCapacityRatio", "weight": 5},
                                {"name": "NodeLabel", "weight": 2},
                            ],
                        },
                    },
                    "pluginConfig": [
                        {
                            "name": "RequestedToCapacityRatio",
                            "args": {
                                "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
                                "resources": [{"name": "example.com/gpu", "weight": 3}],
                            },
                        },
                        {
                            "name": "NodeLabel",
                            "args": {
                                "apiVersion": f"{GROUP}/v1beta1",
                                "kind": "NodeLabelArgs",
                                "absentLabels": ["gone"],
                                "presentLabelsPreference": ["ssd"],
                            },
                        },
                    ],
                }
            ],
        ),
    )
    yield (
        "v1beta1: two strategies",
        config(
            "v1beta1",
            profiles=[
                {
                    "plugins": {"score": {"enabled": [{"name": "NodeResourcesMostAllocated", "weight": 5}]}},
                    "pluginConfig": [
                        {"name": "NodeResourcesMostAllocated", "args": {"resources": [{"name": "cpu", "weight": 3}]}}
                    ],
                }
            ],
        ),
    )
    yield (
        "v1beta1: spreading",
        config(
            "v1beta1",
            profiles=[
                {
                    "plugins": {
                        "score": {"enabled": named("SelectorSpread", weight=1), "disabled": named("PodTopologySpread")}
                    },
                    "pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "List"}}],
                }
            ],
        ),
    )
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    yield (
        "v1beta1: constraints",
        config(
            "v1beta1",
            profiles=[{"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultConstraints": [constraint]}}]}],
        ),
    )
    yield (
        "v1beta1: volume limits off",
        config("v1beta1", profiles=[{"plugins": {"filter": {"disabled": named("EBSLimits", "GCEPDLimits")}}}]),
    )
    yield (
        "v1beta2: weights",
        config(
            "v1beta2",
            healthzBindAddress="",
            percentageOfNodesToScore=30,
            profiles=[
                {
                    "schedulerName": "packing",
                    "plugins": {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 10}]}},
                    "pluginConfig": [
                        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
                    ],
                },
                {
                    "schedulerName": "plain",
                    "plugins": {"multiPoint": {"enabled": named("NodePorts")}, "filter": {"disabled": named("*")}},
                },
            ],
        ),
    )
    yield (
        "v1beta3: multiPoint",
        config(
            "v1beta3",
            profiles=[
                {
                    "plugins": {
                        "multiPoint": {
                            "enabled": [{"name": "NodeAffinity", "weight": 9}],
                            "disabled": named("ImageLocality"),
                        },
                        "filter": {"disabled": named("AzureDiskLimits")},
                    }
                }
            ],
        ),
    )
    yield from _policies()


def _of_versions():
    for version in ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3"):
        yield f"{version}: nothing said", config(version)
        yield (
            f"{version}: settings",
            config(
                version,
                percentageOfNodesToScore=7,
                podInitialBackoffSeconds=2,
                podMaxBackoffSeconds=20,
                enableProfiling=False,
                clientConnection={"qps": 100, "burst": 200, "kubeconfig": "/etc/kubernetes/scheduler.conf"},
                leaderElection={"leaderElect": False},
            ),
        )


def _policies():
    yield "Policy: nothing said", policy()
    yield "Policy: nothing wanted", policy(predicates=[], priorities=[])
    yield "Policy: of the group", {**policy(predicates=[]), "apiVersion": f"{GROUP}/v1"}
    for name in PREDICATES:
        yield f"Policy: predicate {name}", policy(predicates=named(name), priorities=[])
    for name in PRIORITIES:
        # The first is not supported, the second requires arguments.
        if name not in ("ResourceLimitsPriority", "RequestedToCapacityRatio"):
            yield f"Policy: priority {name}", policy(predicates=[], priorities=named(name, weight=3))
    strategies = ("LeastRequestedPriority", "MostRequestedPriority", "RequestedToCapacityRatioPriority")
    yield "Policy: three strategies", policy(priorities=named(*strategies, weight=2))
    yield (
        "Policy: arguments",
        policy(
            predicates=[
                {"name": "rack", "argument": {"labelsPresence": {"labels": ["rack"], "presence": True}}},
                {"name": "old", "argument": {"labelsPresence": {"labels": ["old"], "presence": False}}},
            ],
            priorities=[
                {"name": "ssd", "weight": 2, "argument": {"labelPreference": {"label": "ssd", "presence": True}}},
                {"name": "slow", "weight": 2, "argument": {"labelPreference": {"label": "slow", "presence": False}}},
                {
                    "name": "gpus",
                    "weight": 4,
                    "argument": {
                        "requestedToCapacityRatioArguments": {
                            "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
                            "resources": [{"name": "example.com/gpu", "weight": 2}],
                        }
                    },
                },
            ],
            hardPodAffinitySymmetricWeight=10,
            alwaysCheckAllPredicates=True,
            unknown=1,
        ),
    )
    yield (
        "Policy: affinity",
        policy(priorities=named("InterPodAffinityPriority", weight=1), hardPodAffinitySymmetricWeight=50),
    )
    yield (
        "Policy: extenders",
        policy(
            extenders=[
                {
                    "urlPrefix": "https://127.0.0.1:1/x/",
                    "filterVerb": "filter",
                    "prioritizeVerb": "prioritize",
                    "BindVerb": "bind",
                    "weight": 5,
                    "enableHttps": True,
                    "tlsConfig": {"insecure": True},
                    "httpTimeout": 100_000_000,
                    "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
                    "ignorable": True,
                }
            ]
        ),
    )


OLDER = dict(_samples())
