"""Validation of nodes, namespaces, priority classes, budgets, leases and pod groups."""

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
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b", "namespace": "default"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
}
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "n1", "namespace": "kube-node-lease"},
    "spec": {"leaseDurationSeconds": 40},
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
ONE_POLICY = "must specify exactly one of: `basic`, `gang`"


@pytest.mark.parametrize(
    "obj", [NODE, NAMESPACE, PRIORITY, BUDGET, LEASE, GROUP, WORKLOAD], ids=lambda obj: obj["kind"]
)
def test_valid_objects(server, obj):
    assert server.refusals(obj) == []


@pytest.mark.parametrize(
    ("obj", "path", "value", "expected"),
    [
        pytest.param(
            NODE,
            "spec.taints",
            [TAINT, TAINT | {"value": "y"}],
            'metadata.taints[1]: Duplicate value: {"key":"gpu","value":"y","effect":"NoSchedule"}: '
            "taints must be unique by key and effect pair",
            id="taint twice",
        ),
        pytest.param(NODE, "spec.taints", [{"key": "a"}], "metadata.taints[0].effect: Required value", id="no effect"),
        pytest.param(
            NODE,
            "spec.taints",
            [{"key": "a", "effect": "X"}],
            'metadata.taints[0].effect: Unsupported value: "X": '
            'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
            id="effect",
        ),
        pytest.param(
            NODE,
            "status.capacity",
            {"example.com/gpu": "1500m"},
            'status.capacity.example.com/gpu: Invalid value: "1500m": must be an integer',
            id="half a device",
        ),
        pytest.param(
            NODE,
            "status.allocatable",
            {"cpu": "-1"},
            'status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0',
            id="negative",
        ),
        pytest.param(
            NODE,
            "spec.podCIDRs",
            ["10.0.0.0"],
            'spec.podCIDRs[0]: Invalid value: "10.0.0.0": must be a valid CIDR '
            "value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            id="no range",
        ),
        pytest.param(
            NODE,
            "status.declaredFeatures",
            ["B", "A"],
            'status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically',
            id="features in order",
        ),
        pytest.param(
            NAMESPACE,
            "spec.finalizers",
            ["mine"],
            'spec.finalizers: Invalid value: "mine": name is neither a standard '
            "finalizer name nor is it fully qualified",
            id="finalizer",
        ),
        pytest.param(
            PRIORITY,
            "value",
            1_000_000_001,
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
            id="priority too high",
        ),
        pytest.param(
            PRIORITY,
            "metadata.name",
            "system-mine",
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
            "error: system-mine is not a known system priority class",
            id="system name",
        ),
        pytest.param(
            PRIORITY,
            "metadata.name",
            "system-node-critical",
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
            "error: value of system-node-critical PriorityClass must be 2000001000",
            id="system value",
        ),
        pytest.param(
            BUDGET,
            "spec.maxUnavailable",
            1,
            'spec: Invalid value: {"minAvailable":1,"selector":{"matchLabels":{"a":"b"}},"maxUnavailable":1}: '
            "minAvailable and maxUnavailable cannot be both set",
            id="budget both ways",
        ),
        pytest.param(
            BUDGET,
            "spec.minAvailable",
            "101%",
            'spec.minAvailable: Invalid value: "101%": must not be greater than 100%',
            id="more than all",
        ),
        pytest.param(
            BUDGET,
            "spec.minAvailable",
            "few",
            'spec.minAvailable: Invalid value: "few": a valid percent string must be a numeric string followed by an '
            "ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            id="no percentage",
        ),
        pytest.param(
            LEASE,
            "spec.leaseDurationSeconds",
            0,
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            id="lease without duration",
        ),
        pytest.param(
            GROUP,
            "spec.schedulingPolicy",
            {},
            'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`',
            id="no policy",
        ),
        pytest.param(
            GROUP,
            "spec.schedulingPolicy",
            {"basic": {}, "gang": {"minCount": 1}},
            f'spec.schedulingPolicy: Invalid value: "{{`basic`, `gang`}}": {ONE_POLICY}',
            id="two policies",
        ),
        pytest.param(
            GROUP,
            "spec.schedulingPolicy.gang.minCount",
            0,
            "spec.schedulingPolicy.gang.minCount: Required value",
            id="gang of none",
        ),
        pytest.param(
            GROUP,
            "spec.schedulingConstraints",
            {"topology": [{"key": "a"}, {"key": "b"}]},
            "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
            id="two topologies",
        ),
        pytest.param(
            GROUP,
            "spec.priority",
            1_000_000_001,
            "spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000",
            id="group priority",
        ),
        pytest.param(
            WORKLOAD, "spec.podGroupTemplates", [], "spec.podGroupTemplates: Required value", id="no templates"
        ),
    ],
)
def test_single_errors(server, obj, path, value, expected):
    assert server.refusals(obj, path, value) == [expected]


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
