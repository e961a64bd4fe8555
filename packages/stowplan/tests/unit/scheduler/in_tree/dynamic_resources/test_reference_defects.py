"""Defects of the reference that are corrected here (docs/reference/differences.md); other tests cover the others."""

from stowplan import Cluster
from stowplan.kube.api.types import ResourceClaim
from stowplan.testing import a_node, a_pod
from support.plugins.devices import DRIVER, a_claim, a_class, a_device, a_slice, allocation, exactly

OTHER = "other.example.com"


def placed(*objects):
    cluster = Cluster([a_node("n").allocatable({"cpu": 4, "pods": 10, "example.com/plugged": 2}).obj(), *objects])
    return cluster, {one.pod.name: one.node_name for one in cluster.schedule()}


def pool_of(driver):
    """A pool called `p` with counters for one device."""
    fields = {"pool": "p", "count": 2, "nodeName": "n", "driver": driver}
    return [
        a_slice(f"{driver}-counters", counters={"set": {"slots": "1"}}, **fields),
        a_slice(driver, a_device("g0", consumes={"set": {"slots": "1"}}), **fields),
    ]


def test_counters_of_pools_with_the_same_name_are_separate_per_driver():
    taken = a_claim("x", exactly(), status=allocation("g0"))
    wanted = a_claim("c", exactly("r", selectors=(f'device.driver == "{OTHER}"',)))
    pod = a_pod("p").claims_devices("c").obj()
    assert placed(a_class(), *pool_of(DRIVER), *pool_of(OTHER), taken, wanted, pod)[1] == {"p": "n"}


def test_a_share_without_capacities_consumes_the_devices_counters_once():
    fields = {"pool": "p", "count": 2, "nodeName": "n"}
    device = a_device("g0", consumes={"set": {"slots": "1"}}, allowMultipleAllocations=True)
    slices = [a_slice("a", counters={"set": {"slots": "1"}}, **fields), a_slice("b", device, **fields)]
    share = {"shareID": "00000000-0000-4000-8000-000000000000"}
    taken = a_claim("x", exactly(), status=allocation("g0", **share))
    pod = a_pod("p").claims_devices("c").obj()
    assert placed(a_class(), *slices, taken, a_claim("c", exactly()), pod)[1] == {"p": "n"}


def test_resources_of_device_plugins_need_no_claim_if_others_do():
    served = a_class("plugged", extendedResourceName="example.com/plugged")
    slices = a_slice("n", a_device("g0"), nodeName="n")
    wants = {"example.com/plugged": 1}
    pod = a_pod("p").claims_devices("c").requests(wants).limits(wants).obj()
    cluster, nodes = placed(a_class(), served, slices, a_claim("c", exactly()), pod)
    assert nodes == {"p": "n"}
    assert [claim.metadata.name for claim in cluster.state.objects.all(ResourceClaim)] == ["c"]
