"""Claims of pod groups: shared by pods that are scheduled together, and reserved for the group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan import Cluster
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.types import ResourceClaim
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.in_tree.common.resource_claims import ClaimError
from stowplan.scheduler.in_tree.dynamic_resources.group_claims import consumer_of, is_reserved
from stowplan.testing import a_node, a_pod
from support.plugins.devices import a_claim, a_class, a_device, a_slice, allocation, exactly
from support.plugins.storage import of

SHARING = {"GenericWorkload": True, "GangScheduling": True}
RESERVING = {**SHARING, "DRAWorkloadResourceClaims": True}


def a_group(name="g", *, entries=(), statuses=(), min_count=2):
    return of(
        "PodGroup",
        name,
        "scheduling.k8s.io/v1alpha2",
        metadata={"namespace": "default", "uid": f"{name}-uid"},
        spec={"schedulingPolicy": {"gang": {"minCount": min_count}}, "resourceClaims": list(entries)},
        status={"resourceClaimStatuses": list(statuses)},
    )


def member(name, claim="c", group="g"):
    pod = a_pod(name).claims_devices(claim).obj()
    pod["spec"]["schedulingGroup"] = {"podGroupName": group}
    return pod


def entry_of(pod):
    return pod["spec"]["resourceClaims"][0]


def nodes(count=2):
    for n in range(count):
        yield a_node(f"n{n}").obj()
        yield a_slice(f"n{n}", a_device("g0"), nodeName=f"n{n}")


def scheduled(*objects, gates=RESERVING):
    cluster = Cluster(list(objects), feature_gates=gates, emulated_version="1.36")
    decisions = {decision.pod.name: decision for decision in cluster.schedule()}
    claims = {claim.metadata.name: claim for claim in cluster.state.objects.all(ResourceClaim)}
    assert len(cluster.state.in_flight) == 0
    return decisions, claims


def users(claim):
    return [(user.api_group, user.resource, user.name, user.uid) for user in claim.status.reserved_for]


@pytest.mark.parametrize("gates", [SHARING, RESERVING])
def test_pods_of_a_group_share_an_unallocated_claim(gates):
    pods = [member(f"p{i}") for i in range(3)]
    decisions, claims = scheduled(
        a_class(), *nodes(), a_claim("c", exactly()), a_group(min_count=3), *pods, gates=gates
    )
    assert len({decision.node_name for decision in decisions.values()}) == 1
    assert all(decision.node_name for decision in decisions.values())
    assert sorted(user[2] for user in users(claims["c"])) == ["p0", "p1", "p2"]
    assert len(claims["c"].status.allocation.devices.results) == 1


def test_a_groups_claim_is_reserved_once_for_the_group():
    pods = [member(f"p{i}") for i in range(3)]
    group = a_group(entries=[entry_of(pods[0])], min_count=3)
    decisions, claims = scheduled(a_class(), *nodes(), a_claim("c", exactly()), group, *pods)
    assert all(decision.node_name for decision in decisions.values())
    assert users(claims["c"]) == [("scheduling.k8s.io", "podgroups", "g", "g-uid")]


def test_without_the_gate_group_claims_are_ignored():
    pods = [member(f"p{i}") for i in range(2)]
    group = a_group(entries=[entry_of(pods[0])])
    _, claims = scheduled(a_class(), *nodes(), a_claim("c", exactly()), group, *pods, gates=SHARING)
    assert [user[1] for user in users(claims["c"])] == ["pods", "pods"]


def test_a_pending_allocation_of_the_group_restricts_other_members_to_its_node():
    full = [a_pod("full").on("n0").requests(cpu=3).obj()]
    small = [a_node("n0").allocatable(cpu=4, pods=10).obj(), a_slice("n0", a_device("g0"), nodeName="n0")]
    large = [a_node("n1").allocatable(cpu=8, pods=10).obj()]
    pods = [member(f"p{i}") for i in range(2)]
    for pod in pods:
        pod["spec"]["containers"][0].setdefault("resources", {})["requests"] = {"cpu": "1"}
    decisions, _ = scheduled(a_class(), *small, *large, *full, a_claim("c", exactly()), a_group(), *pods)
    assert [decision.node_name for decision in decisions.values()] == ["", ""]


def test_a_pod_with_an_unknown_group_waits():
    pod = member("p")
    decisions, _ = scheduled(
        a_class(), *nodes(), a_claim("c", exactly()), pod, gates={**RESERVING, "GangScheduling": False}
    )
    assert 'podgroup.scheduling.k8s.io "g" not found' in str(decisions["p"])


def reserved_for_group(name="g"):
    return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": name, "uid": f"{name}-uid"}


def test_a_group_that_fits_nowhere_loses_its_reservation():
    """Its devices are on a node that no longer exists."""
    status = allocation("g0", pool="n9")
    status["allocation"]["nodeSelector"] = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}]
    }
    status["reservedFor"] = [reserved_for_group()]
    pods = [member(f"p{i}") for i in range(2)]
    group = a_group(entries=[entry_of(pods[0])])
    objects = [a_class(), *nodes(), a_claim("c", exactly(), status=status), group, *pods]
    cluster = Cluster(objects, feature_gates=RESERVING, emulated_version="1.36")
    told = []
    while decisions := cluster.schedule():
        told.append(decisions[0].node_name or decisions[0].message.partition(". ")[2].partition(",")[0])
    assert told[:2] == ["ResourceClaim unreserved for PodGroup", "deallocation of ResourceClaim completed"]
    assert told[2] in ("n0", "n1")
    (claim,) = cluster.state.objects.all(ResourceClaim)
    assert users(claim) == [("scheduling.k8s.io", "podgroups", "g", "g-uid")]


def test_a_group_with_a_pod_on_a_node_keeps_its_reservation():
    status = allocation("g0", pool="n9")
    status["allocation"]["nodeSelector"] = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}]
    }
    status["reservedFor"] = [reserved_for_group()]
    placed, pod = member("p0"), member("p1")
    placed["spec"]["nodeName"] = "n9"
    group = a_group(entries=[entry_of(pod)])
    objects = [a_class(), *nodes(), a_node("n9").allocatable(cpu=0, pods=1).obj(), group, placed, pod]
    cluster = Cluster(
        [*objects, a_claim("c", exactly(), status=status)], feature_gates=RESERVING, emulated_version="1.36"
    )
    (decision,) = cluster.schedule()
    assert "still not schedulable" in decision.message


def info(pod):
    return ClusterState().pod_info(decode_object(pod))


names = st.sampled_from(["a", "b", None])


@given(names, names, st.sampled_from(["x", "y"]), names, names, st.sampled_from(["x", "y"]))
def test_the_consumer_of_a_claim(claim, template, entry, group_claim, group_template, group_entry):
    """The plain rule: the group, if all three names are equal."""

    def fields(name, claim, template):
        return {"name": name, "resourceClaimName": claim, "resourceClaimTemplateName": template}

    pod = member("p")
    pod["spec"]["resourceClaims"] = [fields(entry, claim, template)]
    pod["metadata"]["uid"] = "p-uid"
    group = decode_object(a_group(entries=[fields(group_entry, group_claim, group_template)]))
    one = info(pod)
    if group_claim is None and group_template is None:
        with pytest.raises(ClaimError):
            consumer_of(one, one.pod.spec.resource_claims[0], group)
        return
    found = consumer_of(one, one.pod.spec.resource_claims[0], group)
    same = (entry, claim, template) == (group_entry, group_claim, group_template)
    assert found.uid == ("g-uid" if same else "p-uid")
    assert consumer_of(one, one.pod.spec.resource_claims[0], None).uid == "p-uid"


@pytest.mark.parametrize(
    ("user", "of_groups", "expected"),
    [
        ({"resource": "pods", "name": "p", "uid": "p-uid"}, False, True),
        ({"resource": "pods", "name": "p", "uid": "other"}, True, False),
        (reserved_for_group(), True, True),
        (reserved_for_group(), False, False),
        (reserved_for_group("h"), True, False),
    ],
)
def test_whether_a_claim_is_reserved_for_the_pod(user, of_groups, expected):
    pod = member("p")
    pod["metadata"]["uid"] = "p-uid"
    claim = decode_object(a_claim("c", exactly(), status={"reservedFor": [user]}))
    assert is_reserved(claim, info(pod), of_groups=of_groups) is expected
