"""What-if questions about pods with device claims: copies have their own claims, and devices are allocated."""

from stowplan import Cluster
from stowplan.ask.explain.text.overview import Group
from stowplan.ask.what_if import drain, fit, survive
from stowplan.ask.what_if.claims import release_claims
from stowplan.ask.what_if.relief import relief
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.types import ResourceClaim
from stowplan.testing import a_node, a_pod
from support.plugins.devices import a_claim, a_class, a_device, a_slice, allocation, exactly


def gpu_node(name, devices):
    sized = a_node(name).allocatable(cpu=4000, memory="64Gi", pods=100).obj()
    return [sized, a_slice(name, *(a_device(f"g{i}") for i in range(devices)), nodeName=name)]


def worker(name, node="", device=""):
    """A ReplicaSet's pod with a claim from a template."""
    pod = a_pod(name).obj()
    metadata = pod["metadata"]
    metadata["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "w", "controller": True}
    ]
    metadata["uid"] = f"{name}-uid"
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    pod.setdefault("status", {})["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu-x"}]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": metadata["uid"], "controller": True}
    status = {}
    if node:
        pod["spec"]["nodeName"] = node
        user = {"resource": "pods", "name": name, "uid": owner["uid"]}
        status = {**allocation(device, pool=node), "reservedFor": [user]}
        here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [here]}
    return [pod, a_claim(f"{name}-gpu-x", exactly(), status=status, ownerReferences=[owner])]


def cluster_of(*parts):
    return Cluster([a_class(), *(obj for part in parts for obj in part)])


def claims(cluster):
    return {claim.metadata.name: claim for claim in cluster.state.objects.all(ResourceClaim)}


def test_copies_allocate_devices():
    cluster = cluster_of(gpu_node("a", 2), gpu_node("b", 3), worker("w-1", "a", "g0"))
    before = claims(cluster)
    record = fit(cluster, "default/w-1")
    assert (record.fits, record.per_node) == (4, {"a": 1, "b": 3})
    assert [limit.reason for limit in record.limited_by] == ["cannot allocate all claims"]
    assert claims(cluster) == before


def test_added_nodes_have_devices():
    cluster = cluster_of(gpu_node("a", 2), worker("w-1", "a", "g0"))
    record = fit(cluster, "default/w-1", replicas=4)
    assert record.fits == 1
    assert [(one.like, one.count) for one in record.nodes_to_add] == [("a", 2)]


def test_a_shared_claim_is_shared():
    shared = a_claim("c", exactly())
    cluster = cluster_of(gpu_node("a", 1), gpu_node("b", 1), [shared])
    pod = decode_object(a_pod("p").claims_devices("c").obj())
    record = fit(cluster, pod, replicas=5)
    assert (record.fits, len(record.per_node)) == (5, 1)


def test_a_drain_moves_pods_to_free_devices():
    cluster = cluster_of(
        gpu_node("a", 2), gpu_node("b", 2), worker("w-1", "a", "g0"), worker("w-2", "a", "g1"), worker("w-3", "b", "g0")
    )
    before = claims(cluster)
    record = drain(cluster, ["a"])
    assert [(move.pod, move.to) for move in record.moves] == [("default/w-1", "b")]
    (stranded,) = record.stranded
    assert stranded.pod == "default/w-2"
    assert "1 cannot allocate all claims" in stranded.reason
    assert claims(cluster) == before


def test_rolling_drains_free_devices():
    cluster = cluster_of(gpu_node("a", 1), gpu_node("b", 2), worker("w-1", "a", "g0"), worker("w-2", "b", "g0"))
    record = drain(cluster, ["a", "b"], rolling=1)
    # Two pods leave b, and a has one device; the other pod returns to its own.
    assert (record.moves[0].pod, record.moves[0].to) == ("default/w-1", "b")
    assert (len(record.moves), record.stranded) == (3, ())


def test_devices_are_freed_by_the_last_user_of_a_claim():
    pod = a_pod("p").claims_devices("c").obj()
    pod["metadata"] |= {"uid": "p-uid"}
    pod["spec"]["nodeName"] = "a"
    user = {"resource": "pods", "name": "p", "uid": "p-uid"}
    held = a_claim("c", exactly(), status={**allocation("g0", pool="a"), "reservedFor": [user]})
    cluster = cluster_of(gpu_node("a", 1), [pod, held])
    with cluster.transaction():
        cluster.evict("default/p")
        release_claims(cluster, [decode_object(pod)])
        assert claims(cluster)["c"].status.allocation is None
    assert claims(cluster)["c"].status.allocation is not None


def test_a_workload_without_pods_gets_claims_from_the_template():
    cluster = cluster_of(gpu_node("a", 3), worker("w-1", "a", "g0"))
    template = a_pod("new").obj()
    template["spec"]["resourceClaims"] = [{"name": "mine", "resourceClaimTemplateName": "t"}]
    assert fit(cluster, decode_object(template)).fits == 2


def lone(name, node, device):
    """A pod without a controller, with a named claim."""
    pod, claim = worker(name, node, device)
    pod["metadata"].pop("ownerReferences")
    claim["metadata"].pop("ownerReferences")
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}]
    return [pod, claim]


def test_pods_lost_with_a_node_free_their_devices():
    """Both nodes reach the devices: those of the lost pod serve the recreated one."""
    shared = a_slice("pool", a_device("g0"), a_device("g1"), allNodes=True)
    nodes = [a_node(name).allocatable(cpu=4000, memory="64Gi", pods=100).obj() for name in ("a", "b")]
    away, lost = worker("w-1", "a", "g0"), lone("solo", "a", "g1")
    for part in (away, lost):
        part[1]["status"]["allocation"]["devices"]["results"][0]["pool"] = "pool"
        del part[1]["status"]["allocation"]["nodeSelector"]
    waiting = worker("w-2")
    cluster = cluster_of([shared, *nodes], away, lost, waiting)
    record = survive(cluster, by="node")
    loss = next(one for one in record.losses if one.lost == "a")
    assert (loss.gone, loss.stranded) == (("default/solo",), ())


def test_relief_frees_devices():
    cluster = cluster_of(gpu_node("a", 1), lone("solo", "a", "g0"), worker("w-1"))
    (found,) = [
        one for one in relief(cluster, [Group(cluster.explain("default/w-1"))]) if "move default/solo" in one.text
    ]
    assert found.pods == 1


def test_a_template_that_is_not_used_yet():
    cluster = cluster_of(gpu_node("a", 2))
    pod = a_pod("new").obj()
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    pod = decode_object(pod)
    assert fit(cluster, pod).fits == 0
    spec = decode_object(a_claim("c", exactly("r", count=1))).spec
    assert fit(cluster, pod, claim_templates={"default/t": spec}).fits == 2
    assert fit(cluster, pod, claim_templates={"other/t": spec}).fits == 0
