"""Validation of nodes, namespaces, priority classes, budgets, candidates for leases and pod groups."""

import pytest

from stowplan.testing import a_node

TAINT = {"key": "gpu", "value": "x", "effect": "NoSchedule"}
NODE = a_node("n1").obj()
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "blue"}}
PRIORITY = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}
GROUP = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}
WORKLOAD = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "Workload",
    "metadata": {"name": "w", "namespace": "default"},
    "spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]},
}
CANDIDATE = {
    "apiVersion": "coordination.k8s.io/v1beta1",
    "kind": "LeaseCandidate",
    "metadata": {"name": "A_b.c", "namespace": "default"},
    "spec": {
        "leaseName": "l",
        "binaryVersion": "1.36.0",
        "emulationVersion": "1.36.0",
        "strategy": "OldestEmulationVersion",
    },
}


@pytest.mark.parametrize(
    ("obj", "old", "path", "value", "expected"),
    [
        pytest.param(
            NODE,
            ("spec.providerID", "a"),
            "spec.providerID",
            "b",
            'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid',
            id="provider",
        ),
        pytest.param(
            NODE,
            ("spec.podCIDR", "10.0.0.0/24"),
            "spec.podCIDR",
            "10.0.1.0/24",
            'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
            id="range",
        ),
        pytest.param(PRIORITY, (), "value", 7, "value: Forbidden: may not be changed in an update.", id="value"),
        pytest.param(
            PRIORITY,
            (),
            "preemptionPolicy",
            "Never",
            'preemptionPolicy: Invalid value: "Never": field is immutable',
            id="preemption policy",
        ),
        pytest.param(
            GROUP,
            (),
            "spec.schedulingPolicy",
            {"basic": {}},
            "spec.schedulingPolicy: Invalid value: null: field is immutable",
            id="group policy",
        ),
        pytest.param(
            WORKLOAD,
            (),
            "spec.podGroupTemplates.0.name",
            "u",
            "spec.podGroupTemplates: Invalid value: null: field is immutable",
            id="templates",
        ),
        pytest.param(
            CANDIDATE,
            (),
            "spec.leaseName",
            "other",
            'spec.leaseName: Invalid value: "other": field is immutable',
            id="lease",
        ),
    ],
)
def test_immutable_fields(server, obj, old, path, value, expected):
    assert server.update_refusals(obj, path, value, old=old) == [expected]


def test_taints_and_cordons_may_change(server):
    assert server.update_refusals(NODE, "spec.unschedulable", True, "spec.taints", [TAINT]) == []


def test_the_phase_of_a_namespace_follows_its_deletion(server):
    assert server.update_refusals(NAMESPACE, "status.phase", "Terminating", subresource="status") == [
        "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    ]


def test_conditions_of_groups_must_be_complete(server):
    bad = [{"type": "PodGroupScheduled", "status": "Perhaps", "reason": "1"}]
    errors = server.update_refusals(GROUP, "status.conditions", bad, subresource="status")
    assert errors[0] == (
        'status.conditions[0].status: Unsupported value: "Perhaps": supported values: "False", "True", "Unknown"'
    )
    assert errors[1] == "status.conditions[0].lastTransitionTime: Required value"
    assert errors[2].startswith('status.conditions[0].reason: Invalid value: "1": a condition reason must start')


BETA = {**GROUP, "apiVersion": "scheduling.k8s.io/v1beta1"}
_IMMUTABLE = "Invalid value: null: field is immutable"


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("spec.schedulingPolicy.gang.minCount", 1, []),
        (
            "spec.schedulingPolicy.gang.minCount",
            -1,
            ["spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"],
        ),
        ("spec.schedulingPolicy", {"basic": {}}, [f"spec.schedulingPolicy: {_IMMUTABLE}"]),
        ("spec.disruptionMode", {"all": {}}, [f"spec.disruptionMode: {_IMMUTABLE}"]),
        ("spec.preemptionPolicy", "Never", [f"spec.preemptionPolicy: {_IMMUTABLE}"]),
        ("spec.workloadRef", {"workloadName": "w", "templateName": "t"}, [f"spec.workloadRef: {_IMMUTABLE}"]),
    ],
)
def test_only_the_min_count_of_a_gang_can_be_changed_since_v1beta1(server, path, value, expected):
    assert server.update_refusals(BETA, path, value) == expected


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ({}, ['spec.disruptionMode: Invalid value: "": must specify one of: `single`, `all`']),
        (
            {"single": {}, "all": {}},
            [
                'spec.disruptionMode: Invalid value: "{single, all}": must specify exactly one of: `single`, `all`',
            ],
        ),
        ({"all": {}}, []),
    ],
)
def test_modes_of_disruption_since_v1beta1(server, mode, expected):
    group = {**BETA, "spec": {**BETA["spec"], "disruptionMode": mode}}
    assert server.refusals(group) == expected


REFERENCE = {"workloadName": "w", "templateName": "t"}
COMPOSITE = {
    "apiVersion": "scheduling.k8s.io/v1alpha3",
    "kind": "CompositePodGroup",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"workloadRef": REFERENCE, "schedulingPolicy": {"gang": {"minGroupCount": 2}}},
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"parentCompositePodGroupName": "above", "disruptionMode": {"all": {}}}, []),
        ({"workloadRef": None}, ["spec.workloadRef: Required value"]),
        ({"schedulingPolicy": {"gang": {}}}, ["spec.schedulingPolicy.gang.minGroupCount: Required value"]),
        ({"schedulingPolicy": {}}, ['spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`']),
        ({"parentCompositePodGroupName": ""}, ["spec.parentCompositePodGroupName: Required value"]),
        (
            {"priority": 2 * 10**9},
            ["spec.priority: Invalid value: 2000000000: must be less than or equal to 1000000000"],
        ),
    ],
)
def test_groups_of_groups(server, change, expected):
    spec = {name: value for name, value in {**COMPOSITE["spec"], **change}.items() if value is not None}
    assert server.refusals({**COMPOSITE, "spec": spec}) == expected


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schedulingPolicy", {"gang": {"minGroupCount": 1}}),
        ("disruptionMode", {"all": {}}),
        ("parentCompositePodGroupName", "other"),
    ],
)
def test_nothing_of_a_group_of_groups_can_be_changed(server, path, value):
    assert server.update_refusals(COMPOSITE, f"spec.{path}", value) == [f"spec.{path}: {_IMMUTABLE}"]


def test_a_group_in_a_tree_names_its_workload(server):
    spec = {**BETA["spec"], "parentCompositePodGroupName": "c"}
    assert server.refusals({**BETA, "spec": spec}) == ["spec.workloadRef: Required value"]
    assert server.refusals({**BETA, "spec": {**spec, "workloadRef": REFERENCE}}) == []


def test_templates_of_trees(server):
    def nested(depth):
        template = {"name": "t", "schedulingPolicy": {"basic": {}}}
        below = {"podGroupTemplates": [template]} if depth == 1 else {"compositePodGroupTemplates": [nested(depth - 1)]}
        return {**template, **below}

    def refusals(spec):
        header = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": BETA["metadata"]}
        return server.refusals({**header, "spec": spec})

    assert refusals({"compositePodGroupTemplates": [nested(3)]}) == []
    (deep,) = refusals({"compositePodGroupTemplates": [nested(4)]})
    assert "must not be nested more than 4 levels deep" in deep
    assert refusals({"podGroupTemplates": nested(1)["podGroupTemplates"], "compositePodGroupTemplates": [nested(1)]})
    empty = {"name": "t", "schedulingPolicy": {"basic": {}}}
    told = "spec.compositePodGroupTemplates[0].podGroupTemplates: Required value"
    assert refusals({"compositePodGroupTemplates": [empty]}) == [told]


@pytest.mark.parametrize(
    ("change", "complaints"),
    [
        pytest.param({}, [], id="as it should be"),
        pytest.param({"leaseName": ""}, ["spec.leaseName: Required value"], id="no lease"),
        pytest.param({"binaryVersion": ""}, ["spec.binaryVersion: Required value"], id="no binary version"),
        pytest.param(
            {"binaryVersion": "1.36"},
            [
                'spec.binaryVersion: Invalid value: "1.36": must be a valid semantic version',
                'spec.binaryVersion: Invalid value: "1.36": must be greater than or equal to `emulationVersion`',
            ],
            id="no version",
        ),
        pytest.param(
            {"emulationVersion": "1.37.0"},
            ['spec.binaryVersion: Invalid value: "1.36.0": must be greater than or equal to `emulationVersion`'],
            id="emulates a newer version",
        ),
        pytest.param(
            {"binaryVersion": "1.36.0-rc.1", "emulationVersion": "1.36.0-beta.2"}, [], id="earlier pre-release"
        ),
        pytest.param(
            {"binaryVersion": "1.36.0-beta.2", "emulationVersion": "1.36.0-beta.11"},
            ['spec.binaryVersion: Invalid value: "1.36.0-beta.2": must be greater than or equal to `emulationVersion`'],
            id="numbers in pre-releases",
        ),
        pytest.param(
            {"emulationVersion": ""},
            ["spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'"],
            id="no emulation version",
        ),
        pytest.param({"strategy": ""}, ["spec.strategy: Required value"], id="no strategy"),
        pytest.param({"strategy": "example.com/mine", "emulationVersion": ""}, [], id="custom strategy"),
        pytest.param(
            {"strategy": "Mine"},
            ['spec.strategy.strategy: Unsupported value: "Mine": supported values: "OldestEmulationVersion"'],
            id="unknown strategy",
        ),
    ],
)
def test_candidates(server, change, complaints):
    assert server.refusals({**CANDIDATE, "spec": {**CANDIDATE["spec"], **change}}) == complaints
