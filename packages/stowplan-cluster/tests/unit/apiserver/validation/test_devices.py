"""Validation of resource claims, slices and device classes."""

import pytest

GROUP = "resource.k8s.io/v1"
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
CLAIM = {
    "apiVersion": GROUP,
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"devices": {"requests": [REQUEST]}},
}
TEMPLATE = {
    "apiVersion": GROUP,
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "t", "namespace": "default"},
    "spec": {"spec": CLAIM["spec"]},
}
CLASS = {
    "apiVersion": GROUP,
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.example.com"},
    "spec": {"selectors": [{"cel": {"expression": "true"}}]},
}
SLICE = {
    "apiVersion": GROUP,
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "a"}, "v": {"version": "1.0.0-rc.1+b"}}}],
    },
}
RULE = {
    "apiVersion": "resource.k8s.io/v1beta2",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "r"},
    "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "a.b/c", "effect": "NoExecute"}},
}
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
ALLOCATION = {"devices": {"results": [RESULT]}}
CONSUMER = {"resource": "pods", "name": "p", "uid": "1"}
REFERENCE = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"


@pytest.mark.parametrize("obj", [CLAIM, TEMPLATE, CLASS, SLICE, RULE], ids=lambda obj: obj["kind"])
def test_valid_objects(server, obj):
    assert server.refusals(obj) == []


@pytest.mark.parametrize(
    ("obj", "path", "value", "expected"),
    [
        pytest.param(
            CLAIM,
            "spec.devices.requests",
            [{"name": "a"}],
            ["spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"],
            id="empty request",
        ),
        pytest.param(
            CLAIM,
            "spec.devices.requests",
            [REQUEST, REQUEST],
            ['spec.devices.requests[1]: Duplicate value: "gpu"'],
            id="request twice",
        ),
        pytest.param(
            CLAIM,
            "spec.devices.requests",
            [REQUEST] * 33,
            ["spec.devices.requests: Too many: 33: must have at most 32 items"],
            id="too many requests",
        ),
        pytest.param(
            CLAIM,
            "spec.devices.requests.0.exactly.count",
            -1,
            ["spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero"],
            id="count",
        ),
        pytest.param(
            CLAIM,
            "spec.devices.requests.0.exactly.selectors",
            [{}],
            ["spec.devices.requests[0].exactly.selectors[0].cel: Required value"],
            id="no expression",
        ),
        pytest.param(
            CLASS,
            "spec.selectors.0.cel.expression",
            "device.nope == 1",
            [
                'spec.selectors[0].cel.expression: Invalid value: "device.nope == 1": compilation failed: '
                "ERROR: <input>:1:7: undefined field 'nope'\n | device.nope == 1\n | ......^"
            ],
            id="an expression that does not compile",
        ),
        pytest.param(
            CLAIM,
            "spec.devices.requests.0.exactly.selectors",
            [{"cel": {"expression": "device.driver"}}],
            [
                'spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "device.driver": '
                "must evaluate to bool or the unknown type, not string"
            ],
            id="an expression that is not a bool",
        ),
        pytest.param(
            CLAIM,
            "spec.devices.constraints",
            [{"requests": ["nic"], "matchAttribute": "example.com/numa"}],
            [f'spec.devices.constraints[0].requests[0]: Invalid value: "nic": {REFERENCE}'],
            id="constraint on no request",
        ),
        pytest.param(
            CLAIM,
            "spec.devices.constraints",
            [{"matchAttribute": "numa"}],
            [
                'spec.devices.constraints[0].matchAttribute: Invalid value: "numa": '
                "a fully qualified name must be a domain and a name separated by a slash"
            ],
            id="attribute without domain",
        ),
        pytest.param(
            SLICE,
            "spec.nodeName",
            None,
            [
                "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
                "`perDeviceNodeSelection` is required"
            ],
            id="nowhere",
        ),
        pytest.param(
            SLICE,
            "spec.allNodes",
            True,
            [
                'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, '
                "`allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set"
            ],
            id="here and everywhere",
        ),
        pytest.param(
            SLICE,
            "spec.devices",
            [{"name": "a"}, {"name": "a"}],
            ['spec.devices[1]: Duplicate value: "a"'],
            id="device twice",
        ),
        pytest.param(
            SLICE,
            "spec.devices.0.attributes",
            {"v": {"version": "1"}},
            [
                'spec.devices[0].attributes[v].version: Invalid value: "1": '
                "must be a string compatible with semver.org spec 2.0.0"
            ],
            id="version",
        ),
        pytest.param(
            SLICE,
            "spec.devices.0.attributes",
            {"v": {}},
            ['spec.devices[0].attributes[v]: Invalid value: "": exactly one value must be specified'],
            id="attribute without value",
        ),
        pytest.param(
            SLICE,
            "spec.devices.0.taints",
            [{"key": "a", "effect": "Maybe"}],
            [
                'spec.devices[0].taints[0].effect: Unsupported value: "Maybe": '
                'supported values: "NoExecute", "NoSchedule", "None"'
            ],
            id="taint",
        ),
        pytest.param(
            SLICE,
            "spec.pool.resourceSliceCount",
            0,
            ["spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero"],
            id="pool of no slices",
        ),
    ],
)
def test_single_errors(server, obj, path, value, expected):
    assert server.refusals(obj, path, value) == expected


def test_the_spec_of_a_claim_is_immutable(server):
    (error,) = server.update_refusals(CLAIM, "spec.devices.requests.0.name", "nic")
    assert error.startswith("spec: Invalid value: {")
    assert error.endswith(": field is immutable")


class TestClaimStatus:
    def refusals(self, server, *changes, old=()):
        return server.update_refusals(CLAIM, *changes, subresource="status", old=old)

    def test_allocated_and_reserved(self, server):
        changes = ("status.allocation", ALLOCATION, "status.reservedFor", [CONSUMER])
        assert self.refusals(server, *changes) == []

    def test_nothing_reserved_without_allocation(self, server):
        assert self.refusals(server, "status.reservedFor", [CONSUMER]) == [
            "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
        ]

    def test_results_answer_requests(self, server):
        wrong = {"devices": {"results": [RESULT | {"request": "nic"}]}}
        assert self.refusals(server, "status.allocation", wrong) == [
            f'status.allocation.devices.results[0].request: Invalid value: "nic": {REFERENCE}'
        ]

    def test_an_allocation_is_immutable(self, server):
        other = {"devices": {"results": [RESULT | {"device": "gpu-1"}]}}
        (error,) = self.refusals(server, "status.allocation", other, old=("status.allocation", ALLOCATION))
        assert error.startswith("status.allocation: Invalid value: {")

    def test_consumers_must_be_complete(self, server):
        changes = ("status.allocation", ALLOCATION, "status.reservedFor", [{"resource": "pods", "name": "p"}])
        assert self.refusals(server, *changes) == ["status.reservedFor[0].uid: Required value"]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        pytest.param("spec.deviceSelector", {}, [], id="all devices"),
        pytest.param("spec.taint.effect", "None", [], id="no effect"),
        pytest.param(
            "spec.taint.effect",
            "PreferNoSchedule",
            [
                'spec.taint.effect: Unsupported value: "PreferNoSchedule": '
                'supported values: "NoExecute", "NoSchedule", "None"'
            ],
            id="unknown effect",
        ),
        pytest.param("spec.taint.effect", "", ["spec.taint.effect: Required value"], id="without effect"),
        pytest.param(
            "spec.deviceSelector.device",
            "A",
            [
                'spec.deviceSelector.device: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case '
                "alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. "
                "'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ],
            id="device",
        ),
    ],
)
def test_taint_rules(server, path, value, expected):
    assert server.refusals(RULE, path, value) == expected


def test_the_status_of_a_taint_rule_has_at_most_eight_conditions(server):
    good = {"status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [{"type": f"T{i}", **good} for i in range(9)]
    told = server.update_refusals(RULE, "status", {"conditions": conditions}, subresource="status")
    assert told == ["status.conditions: Too many: 9: must have at most 8 items"]
