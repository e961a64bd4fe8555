"""Claims with immediate binding: which volume they get, or where one is provisioned."""

import pytest

from stowplan.drivers.virtual_time.immediate_claims import ImmediateClaims
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import Node, PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.scheduler.framework.requests import Create, Delete, Update
from stowplan.testing import a_node
from support.plugins.claims import AT_ONCE, WAITS, ZONE, a_class, claim, held, volume

KINDS = {"StorageClass": StorageClass, "PersistentVolumeClaim": PersistentVolumeClaim}
KINDS |= {"PersistentVolume": PersistentVolume, "Node": Node}
LOCAL = "kubernetes.io/no-provisioner"


class Storage:
    def __init__(self, *objects):
        self.store = ObjectStore()
        self.claims = ImmediateClaims(self.store)
        self.put(*objects)

    def put(self, *objects):
        for one in objects:
            self.write(Create(obj=convert(one, KINDS[one["kind"]])))

    def write(self, request):
        [change] = self.store.write(request, 0.0)
        self.claims.follow(change)

    def served(self):
        """Claim -> its volume, or @ and the zone in which one is provisioned."""
        if not self.claims.are_due:
            return {}
        return {
            found.claim.metadata.name: found.volume.metadata.name if found.volume else f"@{found.topology[ZONE]}"
            for found in self.claims.served()
        }


def node(name, zone):
    return {"kind": "Node", **a_node(name).labels({ZONE: zone}).obj()}


ZONES = [node("n1", "a"), node("n2", "b"), node("n3", "b"), node("n4", "c")]


@pytest.mark.parametrize(
    ("wanted", "offered", "gets"),
    [
        pytest.param({}, [volume("big", size="5Gi"), volume("fits", size="2Gi")], "fits", id="the smallest"),
        pytest.param({}, [volume("small", size="1Mi")], None, id="none is large enough"),
        pytest.param({}, [volume("v", class_name="other")], None, id="another class"),
        pytest.param({"modes": ["ReadWriteMany"]}, [volume("v")], None, id="another access mode"),
        pytest.param({"spec": {"volumeMode": "Block"}}, [volume("v")], None, id="another volume mode"),
        pytest.param(
            {"spec": {"selector": {"matchLabels": {"disk": "ssd"}}}},
            [volume("a"), volume("b", metadata={"labels": {"disk": "ssd"}})],
            "b",
            id="a selector",
        ),
        pytest.param({}, [volume("v", phase="Released")], None, id="not free"),
        pytest.param({}, [volume("a"), volume("z", spec=held(uid=""), phase="")], "z", id="reserved for it"),
        pytest.param({}, [volume("z", spec=held("other"))], None, id="reserved for another"),
        pytest.param({"spec": {"volumeName": "b"}}, [volume("a"), volume("b")], "b", id="it names one"),
        pytest.param({"spec": {"volumeName": "b"}}, [volume("a")], None, id="it names one that is not there"),
    ],
)
def test_the_volume_of_a_claim(wanted, offered, gets):
    storage = Storage(a_class(mode=AT_ONCE, provisioner=LOCAL), claim("c", **wanted), *offered)
    assert storage.served() == ({} if gets is None else {"c": gets})


def test_a_volume_goes_to_one_claim():
    storage = Storage(a_class(mode=AT_ONCE, provisioner=LOCAL), claim("c"), claim("d"), volume("v"))
    assert storage.served() == {"c": "v"}
    promised = volume("v", spec=held("c"))
    storage.write(Update(obj=convert(promised, PersistentVolume)))
    storage.put(volume("w"))
    assert storage.served() == {"d": "w"}


def test_claims_without_an_existing_class_only_get_existing_volumes():
    storage = Storage(claim("c", class_name=""), claim("d"), volume("v", class_name=""), *ZONES)
    assert storage.served() == {"c": "v"}
    storage.put(a_class(mode=None))
    assert storage.served()["d"].startswith("@")


def test_wait_for_first_consumer_claims_are_bound_only_to_named_volumes():
    named = claim("d", spec={"volumeName": "v"})
    storage = Storage(a_class(mode=WAITS), claim("c"), named, volume("v"), volume("w"), *ZONES)
    assert storage.served() == {"d": "v"}
    storage.put(volume("x"))
    assert storage.served() == {}


def test_the_claims_of_a_set_are_spread_over_the_zones():
    storage = Storage(a_class(mode=AT_ONCE), *ZONES, *(claim(f"data-db-{i}") for i in range(6)))
    found = list(storage.served().values())
    assert sorted(found) == ["@a", "@a", "@b", "@b", "@c", "@c"]
    assert found[:3] == found[3:]


def test_the_topologies_that_the_class_allows():
    storage = Storage(a_class(mode=AT_ONCE, zones=["b"]), *ZONES, *(claim(f"c-{i}") for i in range(3)))
    assert set(storage.served().values()) == {"@b"}


def test_waiting_claims_are_served_by_new_nodes_and_forgotten_when_deleted():
    storage = Storage(a_class(mode=AT_ONCE), claim("c"), claim("d"))
    assert storage.served() == {}
    storage.write(Delete(kind=PersistentVolumeClaim, namespace="default", name="d"))
    storage.put(node("n1", "a"))
    assert storage.served() == {"c": "@a"}
    storage.put(node("n2", "a"))
    assert storage.served() == {}


def test_a_bound_claim_no_longer_waits():
    storage = Storage(a_class(mode=AT_ONCE), claim("c"))
    bound = convert(claim("c", volume="v"), PersistentVolumeClaim)
    storage.write(Update(obj=bound))
    storage.put(*ZONES)
    assert storage.served() == {}
