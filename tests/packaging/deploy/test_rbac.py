"""The rules of the scheduler's account are those of every cluster's own scheduler, and nothing more."""

import re
from itertools import product

import pytest

from support.processes.deployments import FEATURE_GATES, SECOND_SCHEDULER, SPEC, named, objects, rights

LEASE = "stowplan"
#: Rules of the reference that a second scheduler does not need.
LEFT_OUT = {
    # Coordinated leader election applies to the lease kube-scheduler alone.
    "leasecandidates",
}
#: Rules for feature gates that are off by default: gate -> file.
GATED = {"GenericWorkload": "pod-groups"}
#: Its rule was for a feature gate until 1.36, of which the specification is, and has none since 1.37.
SINCE_1_37 = {("resource.k8s.io", "devicetaintrules", "", verb) for verb in ("get", "list", "watch")}
#: Gate -> its rules since 1.37.
GATED_SINCE_1_37 = {
    "GenericWorkload": {("scheduling.k8s.io", "compositepodgroups", "", verb) for verb in ("get", "list", "watch")}
}
ACCOUNT = {"kind": "ServiceAccount", "name": "stowplan", "namespace": "kube-system"}
RBAC = objects(SECOND_SCHEDULER / "rbac.yaml")
OWN = rights(named(RBAC, "ClusterRole", "stowplan"), named(RBAC, "Role", "stowplan-leader-election"))


def of_a_second_scheduler(reference):
    """The same rights with a lease of its own."""
    return {
        (group, resource, LEASE if name == "kube-scheduler" else name, verb)
        for group, resource, name, verb in reference
        if resource not in LEFT_OUT
    }


def specified(gate=None):
    """The rights in the specification's table, read cell by cell: those without a gate, or of this one."""
    if not SPEC.is_dir():
        pytest.skip("the specification is not available")
    section = (SPEC / "cache-and-events.md").read_text().partition("## 7. Permissions")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")][2:]
    assert len(lines) > 20
    found = set()
    for cells in lines:
        gates = [one for one in (*GATED, "DRADeviceTaintRules") if one in " ".join(cells)]
        if gates == ([gate] if gate else []):
            found |= set(_rights_of(*cells))
    return found


def _rights_of(groups, resources, verbs):
    """Either the verbs have a cell of their own, or each resource has its own."""
    resources, _, name = resources.partition(", name ")
    verbs = re.sub(r" \(.*\)$", "", verbs)
    for resource in re.split(r"; " if ": " in resources else r"[,;] ", resources):
        one, _, own = resource.partition(": ")
        for group, verb in product(groups.split(", "), (own or verbs).split(", ")):
            yield group.strip('"'), one, name, verb


def test_rules_are_exactly_the_specified_ones():
    assert of_a_second_scheduler(specified()) | SINCE_1_37 == OWN


@pytest.mark.parametrize(("gate", "file"), GATED.items())
def test_additional_rules_of_feature_gates(gate, file):
    role, binding = objects(FEATURE_GATES / f"{file}.yaml")
    name = f"stowplan-{file}"
    group = "rbac.authorization.k8s.io"
    assert specified(gate) | GATED_SINCE_1_37[gate] == rights(role)
    assert specified(gate)
    assert binding["roleRef"] == {"apiGroup": group, "kind": "ClusterRole", "name": name}
    assert role["metadata"]["name"] == name
    assert binding["subjects"] == [ACCOUNT]


def test_rules_equal_those_of_a_real_cluster(real):
    role = real.json("get", "clusterrole", "system:kube-scheduler")
    assert of_a_second_scheduler(rights(role)) | SINCE_1_37 == OWN


def test_referenced_roles_exist_in_every_cluster(real):
    made = {(one["kind"], one["metadata"]["name"]) for one in RBAC}
    bound = {(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in RBAC if "roleRef" in one}
    borrowed = bound - made
    assert borrowed == {
        ("ClusterRole", "system:volume-scheduler"),
        ("Role", "extension-apiserver-authentication-reader"),
    }
    for kind, name in borrowed:
        real.kubectl("-n", "kube-system", "get", kind, name)


def test_the_lease_is_its_own_and_only_in_its_namespace():
    lease = {right for right in OWN if right[1] == "leases"}
    assert not lease & rights(named(RBAC, "ClusterRole", "stowplan"))
    assert {name for _, _, name, verb in lease if verb != "create"} == {LEASE}


def test_everything_is_bound_to_the_account_alone():
    bindings = [one for one in RBAC if one["kind"].endswith("Binding")]
    assert len(bindings) == 4
    assert all(one["subjects"] == [ACCOUNT] for one in bindings)


def test_the_metrics_reader_reads_nothing_else():
    assert rights(named(RBAC, "ClusterRole", "stowplan-metrics-reader")) == {
        ("url", path, "", "get") for path in ("/metrics", "/metrics/resources", "/metrics/slis")
    }
