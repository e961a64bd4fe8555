"""Validation of resource claims, slices and device classes."""

GROUP = "resource.k8s.io/v1"
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
CLAIM = {
    "apiVersion": GROUP,
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"devices": {"requests": [REQUEST]}},
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


def test_the_status_of_a_taint_rule_has_at_most_eight_conditions(server):
    good = {"status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [{"type": f"T{i}", **good} for i in range(9)]
    told = server.update_refusals(RULE, "status", {"conditions": conditions}, subresource="status")
    assert told == ["status.conditions: Too many: 9: must have at most 8 items"]
