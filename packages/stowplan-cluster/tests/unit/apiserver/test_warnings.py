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
    amounts = {"requests": {"memory": "1Gi", "cpu": "100m"}, "limits": {"ephemeral-storage": "1k"}}
    assert of_containers({"resources": amounts}) == []


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
    ],
)
def test_warnings_of_pods(spec, expected):
    assert of_pod(**spec) == expected


def test_fractional_bytes():
    assert of_containers({"resources": {"requests": {"memory": "100m"}}}) == [
        'spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer'
    ]


def test_templates_are_warned_about_when_they_change():
    resource = CATALOGUE.of_storage("deployments.apps")
    old = {
        "metadata": {"name": "x"},
        "spec": {"replicas": 1, "template": {"spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}}},
    }
    new = copy.deepcopy(old)
    assert warnings_of_update(resource, new, old, "") == []
    new["spec"]["replicas"] = 2
    (warning,) = warnings_of_update(resource, new, old, "")
    assert warning.startswith("spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since")
    assert warnings_of_update(resource, new, old, "status") == []


def test_pods_are_warned_about_on_create_only():
    old = {"metadata": {"name": "x"}, "spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}}
    assert warnings_of_update(CATALOGUE.of_storage("pods"), old, {**old, "spec": {}}, "") == []


STORED_ONLY = [one for one in BUILT_IN if one.stored_only and one.kind != "PodTemplate"]


@pytest.mark.parametrize("resource", STORED_ONLY, ids=lambda one: f"{one.kind} {one.version}")
def test_kinds_that_would_do_something_in_a_real_cluster(resource):
    new = {"kind": resource.kind, "spec": {"a": 1}}
    [warning] = warnings_of_create(resource, new)
    assert warning.startswith(f"this server stores {resource.kind} objects only: ")
    assert warnings_of_update(resource, new, {"kind": resource.kind}, "") == []


def test_what_they_do_not_do_is_named():
    def effect(storage):
        return warnings_of(storage, {})[0].partition(": ")[2]

    assert effect("networkpolicies.networking.k8s.io") == "it blocks nothing"
    assert effect("ingressclasses.networking.k8s.io") == "no controller here acts on it"
    assert warnings_of("podtemplates", {}) == []
