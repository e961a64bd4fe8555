"""Warnings for objects that are accepted."""

import copy

import pytest

from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from stowplan_cluster.apiserver.warnings import warnings_of_create, warnings_of_update

CATALOGUE = Catalogue(BUILT_IN)
NULL = "a null labelSelector results in matching no pod"


def warnings_of(storage, obj):
    return warnings_of_create(CATALOGUE.of_storage(storage), {"metadata": {"name": "x"}, **obj})


def of_pod(**spec):
    return warnings_of("pods", {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}})


def of_containers(*containers):
    return of_pod(containers=[{"name": f"c{index}", "image": "i", **one} for index, one in enumerate(containers)])


def test_ordinary_pods_have_no_warnings():
    ports = [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]
    environment = [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]
    amounts = {"requests": {"memory": "1Gi", "cpu": "100m"}, "limits": {"ephemeral-storage": "1k"}}
    assert of_containers({"ports": ports, "env": environment, "resources": amounts}) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
            ['spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead'],
            id="node label",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"topologyKey": "zone"}]},
            [f"spec.topologySpreadConstraints[0].labelSelector: {NULL}"],
            id="spread without selector",
        ),
        pytest.param(
            {
                "affinity": {
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]},
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {}}]
                    },
                }
            },
            [
                f"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: {NULL}",
                "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
                f".podAffinityTerm.labelSelector: {NULL}",
            ],
            id="affinity without selector",
        ),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "values": ["x y"]}]}}
                        ]
                    }
                }
            },
            [
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference"
                ".matchExpressions[0].values[0]: x y is invalid, a valid label must be an empty string or consist of "
                "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
                "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
                "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ],
            id="impossible value",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "rbd": {}}, {"name": "p", "projected": {}}]},
            [
                "spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
                'volume "p" (Projected) has no sources provided',
            ],
            id="volumes",
        ),
        pytest.param(
            {"imagePullSecrets": [{"name": "s"}, {"name": "s"}, {}]},
            [
                'spec.imagePullSecrets[1].name: duplicate name "s"',
                'spec.imagePullSecrets[2].name: invalid empty name ""',
            ],
            id="pull secrets",
        ),
        pytest.param(
            {"terminationGracePeriodSeconds": -1},
            ["spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"],
            id="grace",
        ),
    ],
)
def test_warnings_of_pods(spec, expected):
    assert of_pod(**spec) == expected


def test_fractional_bytes():
    assert of_containers({"resources": {"requests": {"memory": "100m"}}}) == [
        'spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer'
    ]
    claim = {"spec": {"resources": {"requests": {"storage": "1500m"}}}}
    assert warnings_of("persistentvolumeclaims", claim) == [
        'spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer'
    ]


def test_duplicate_variables():
    environment = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    hidden = 'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply'
    assert of_containers({"env": environment}) == [hidden]


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ({}, {}, "duplicate"),
        ({"hostPort": 1}, {}, "overlapping"),
        ({"hostPort": 1}, {"hostPort": 1, "hostIP": "10.0.0.1"}, "dangerously ambiguous"),
        ({"hostPort": 1}, {"hostPort": 2}, None),
    ],
)
def test_conflicting_ports(first, second, clash):
    one, other = ({"ports": [{"containerPort": 80, "protocol": "TCP", **port}]} for port in (first, second))
    warning = f"spec.containers[1].ports[0]: {clash} port definition with spec.containers[0].ports[0]"
    assert of_containers(one, other) == ([warning] if clash else [])


def test_duplicate_port_names():
    one, other = ({"ports": [{"name": "http", "containerPort": number, "protocol": "TCP"}]} for number in (80, 81))
    assert of_containers(one, other) == [
        'spec.containers[1].ports[0]: duplicate port name "http" with spec.containers[0].ports[0], services and '
        "probes that select ports by name will use spec.containers[0].ports[0]"
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"type": "ClusterIP", "externalIPs": ["1.1.1.1"]}, ["spec.externalIPs is deprecated and may no longer be "]),
        (
            {"type": "ClusterIP", "clusterIP": "None", "externalIPs": ["1.1.1.1"], "sessionAffinity": "None"},
            ["spec.externalIPs is ignored for headless services"],
        ),
        ({"type": "ClusterIP", "externalName": "a"}, ['spec.externalName is ignored when spec.type is not "External']),
        ({"type": "ClusterIP", "trafficDistribution": "PreferClose"}, ['spec.trafficDistribution: "PreferClose" is ']),
    ],
    ids=["external", "headless", "name", "distribution"],
)
def test_services(spec, expected):
    found = warnings_of("services", {"spec": spec})
    assert len(found) == len(expected)
    assert all(warning.startswith(start) for warning, start in zip(found, expected, strict=True))


def test_names_with_dots():
    (pod,) = warnings_of("pods", {"metadata": {"name": "a.b"}, "spec": {}})
    assert pod.startswith("metadata.name: this is used in the Pod's hostname, which can result in surprising behavior")
    (deployment,) = warnings_of("deployments.apps", {"metadata": {"name": "a.b"}, "spec": {}})
    assert deployment.startswith("metadata.name: this is used in Pod names and hostnames, which")


def test_templates_are_warned_about_when_they_change():
    resource = CATALOGUE.of_storage("deployments.apps")
    old = {
        "metadata": {"name": "x"},
        "spec": {"replicas": 1, "template": {"spec": {"terminationGracePeriodSeconds": -1}}},
    }
    new = copy.deepcopy(old)
    assert warnings_of_update(resource, new, old, "") == []
    new["spec"]["replicas"] = 2
    (warning,) = warnings_of_update(resource, new, old, "")
    assert warning.startswith("spec.template.spec.terminationGracePeriodSeconds: must be >= 0")
    assert warnings_of_update(resource, new, old, "status") == []


def test_pods_are_warned_about_on_create_only():
    old = {"metadata": {"name": "x"}, "spec": {"terminationGracePeriodSeconds": -1}}
    assert warnings_of_update(CATALOGUE.of_storage("pods"), {**old, "spec": {}}, old, "") == []


INERT = [one for one in BUILT_IN if one.inert and one.kind != "PodTemplate"]


@pytest.mark.parametrize("resource", INERT, ids=lambda one: f"{one.kind} {one.version}")
def test_kinds_that_would_do_something_in_a_real_cluster(resource):
    new = {"kind": resource.kind, "spec": {"a": 1}}
    [warning] = warnings_of_create(resource, new)
    assert warning.startswith(f"this server stores {resource.kind} objects only: ")
    assert warnings_of_update(resource, new, {"kind": resource.kind}, "") == []


def test_what_they_do_not_do_is_named():
    def effect(storage):
        return warnings_of(storage, {})[0].partition(": ")[2]

    assert effect("cronjobs.batch") == "it starts no Jobs"
    assert effect("limitranges") == "pods get no defaults from it, and are not limited"
    assert effect("ingressclasses.networking.k8s.io") == "no controller here acts on it"
    assert warnings_of("podtemplates", {}) == []
