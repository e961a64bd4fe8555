"""In-tree volumes translated for the CSI drivers that they migrated to."""

import pytest

from stowplan.kube.api.decode import decode_object as load
from stowplan.scheduler.in_tree.common.csi_migration import (
    MIGRATED_PLUGINS,
    MIGRATIONS,
    TranslationError,
    inline_handle,
    is_migrated_on,
    migrated_affinity,
    migration_of,
    migration_of_provisioner,
)
from stowplan.testing import a_pod
from support.plugins.storage import storage

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
PD = {"gcePersistentDisk": {"pdName": "d"}}


def volume(source, labels=(), terms=None, annotations=(), **spec):
    affinity = {} if terms is None else {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    metadata = {"name": "pv", "labels": dict(labels), "annotations": dict(annotations)}
    return load(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": {**source, **affinity, **spec}}
    )


def inline(source):
    return load(a_pod().volume("v", **source).obj()).spec.volumes[0]


@pytest.mark.parametrize(
    ("source", "driver", "handle"),
    [
        pytest.param(EBS, "ebs.csi.aws.com", "vol-1", id="ebs"),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://eu-1a/vol-2"}}, "ebs.csi.aws.com", "vol-2", id="ebs url"
        ),
        pytest.param(
            PD, "pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", id="gce disk, zone unknown"
        ),
        pytest.param({"cinder": {"volumeID": "c"}}, "cinder.csi.openstack.org", "c", id="cinder"),
        pytest.param(
            {"azureDisk": {"diskName": "d", "diskURI": "/u", "kind": "managed"}}, "disk.csi.azure.com", "/u", id="azure"
        ),
        pytest.param(
            {"vsphereVolume": {"volumePath": "[ds] v.vmdk"}}, "csi.vsphere.vmware.com", "[ds] v.vmdk", id="vsphere"
        ),
        pytest.param({"portworxVolume": {"volumeID": "p"}}, "pxd.portworx.com", "p", id="portworx"),
    ],
)
def test_inline_and_persistent_volumes_have_the_same_handle(source, driver, handle):
    assert inline_handle(inline(source), "ns") == (driver, handle)
    migration = migration_of(volume(source))
    assert (migration.driver, migration.handle(volume(source))) == (driver, handle)


def test_handles_of_file_shares():
    share = {"azureFile": {"secretName": "azure-storage-account-acc-secret", "shareName": "s"}}
    assert inline_handle(inline(share), "ns") == ("file.csi.azure.com", "#acc#s#v#ns")
    assert inline_handle(inline(share), "") == ("file.csi.azure.com", "#acc#s#v#default")
    claimed = volume(
        share, annotations={"kubernetes.io/azure-file-resource-group": "g"}, claimRef={"namespace": "c", "name": "x"}
    )
    assert migration_of(claimed).handle(claimed) == "g#acc#s#pv#c"
    own = volume({"azureFile": {"secretName": "plain", "shareName": "s", "secretNamespace": "sec"}})
    assert migration_of(own).handle(own) == "#plain#s#pv#sec"
    nowhere = volume(share)
    with pytest.raises(TranslationError, match="could not find a secret namespace"):
        migration_of(nowhere).handle(nowhere)


@pytest.mark.parametrize(
    ("labels", "handle"),
    [
        pytest.param({ZONE: "eu-w1-a"}, "zones/eu-w1-a", id="one zone"),
        pytest.param({BETA_ZONE: "eu-w1-b", ZONE: "eu-w1-a"}, "zones/eu-w1-b", id="beta label first"),
        pytest.param({ZONE: "eu-w1-a__eu-w1-b"}, "regions/eu-w1", id="several zones of a region"),
    ],
)
def test_disks_of_gce_are_named_by_their_zones(labels, handle):
    disk = volume(PD, labels)
    assert migration_of(disk).handle(disk) == f"projects/UNSPECIFIED/{handle}/disks/d"


@pytest.mark.parametrize(
    ("source", "labels", "problem"),
    [
        pytest.param(PD, {ZONE: "a__b"}, "zone in unexpected format", id="no zones of gce"),
        pytest.param(PD, {ZONE: "eu-w1-a__us-e1-a"}, r"got: map\[eu-w1:{} us-e1:{}\]", id="two regions"),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://z/snap-1"}}, {}, "Invalid format for AWS volume", id="ebs"
        ),
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws://[z/v"}}, {}, "Invalid disk name", id="ebs, no url"),
        pytest.param(
            {"azureDisk": {"kind": "Shared", "diskURI": "u"}}, {}, r"kind\(Shared\) is not supported", id="azure kind"
        ),
    ],
)
def test_untranslatable_volumes_are_errors(source, labels, problem):
    broken = volume(source, labels)
    with pytest.raises(TranslationError, match=problem):
        migration_of(broken).handle(broken)
    with pytest.raises(TranslationError, match=problem):
        migrated_affinity(broken, migration_of(broken))


def test_errors_of_inline_volumes_have_their_name():
    with pytest.raises(TranslationError, match=r"^converting volume\(v\) from inline to csi: kind\(Dedicated\)"):
        inline_handle(inline({"azureDisk": {"kind": "Dedicated", "diskURI": "u"}}), "ns")


def test_volumes_that_are_not_migrated():
    assert inline_handle(inline({"emptyDir": {}}), "ns") is None
    assert migration_of(volume({"csi": {"driver": "d", "volumeHandle": "h"}})) is None
    assert migration_of_provisioner("d.example.com") is None


def test_provisioners():
    assert {m.plugin: migration_of_provisioner(m.plugin) for m in MIGRATIONS} == {m.plugin: m for m in MIGRATIONS}
    assert [m.plugin for m in MIGRATIONS if not m.counted] == [
        "kubernetes.io/azure-file",
        "kubernetes.io/vsphere-volume",
    ]


def test_migrated_plugins_of_a_node():
    ebs, pd = migration_of(volume(EBS)), migration_of(volume(PD))

    def node(annotations):
        return load(storage("CSINode", "n", metadata={"annotations": annotations}, spec={"drivers": []}))

    here = node({MIGRATED_PLUGINS: "kubernetes.io/aws-ebs,kubernetes.io/vsphere-volume"})
    assert is_migrated_on(here, ebs)
    assert not is_migrated_on(here, pd)
    assert not is_migrated_on(here, migration_of_provisioner("kubernetes.io/vsphere-volume")), "no driver was needed"
    assert not is_migrated_on(node({}), ebs)
    assert not is_migrated_on(None, ebs)


def required(*pairs):
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)} for key, values in pairs]}


EBS_ZONE = "topology.ebs.csi.aws.com/zone"


@pytest.mark.parametrize(
    ("labels", "terms", "expected"),
    [
        pytest.param({}, None, [], id="no labels"),
        pytest.param({}, [required((ZONE, "a"))], [[(EBS_ZONE, "a")]], id="zone"),
        pytest.param({}, [required((BETA_ZONE, "a"))], [[(EBS_ZONE, "a")]], id="beta zone"),
        pytest.param(
            {},
            [required((BETA_ZONE, "a"), (BETA_REGION, "r"))],
            [[(EBS_ZONE, "a"), (REGION, "r")]],
            id="beta region becomes the region",
        ),
        pytest.param(
            {}, [required((ZONE, "a"), (BETA_ZONE, "b"))], [[(EBS_ZONE, "a"), (BETA_ZONE, "b")]], id="one of two labels"
        ),
        pytest.param({ZONE: "b__ a __"}, None, [[(EBS_ZONE, "ab")]], id="zones of the label"),
        pytest.param({BETA_ZONE: "a"}, None, [[(EBS_ZONE, "a")]], id="zones of the beta label"),
        pytest.param({ZONE: " "}, None, [], id="an empty label"),
        pytest.param(
            {ZONE: "a"},
            [required(("host", "h")), required(("host", "i"))],
            [[("host", "h"), (EBS_ZONE, "a")], [("host", "i"), (EBS_ZONE, "a")]],
            id="added to each term",
        ),
        pytest.param({ZONE: "b"}, [required((ZONE, "a"))], [[(EBS_ZONE, "a")]], id="the affinity goes first"),
        pytest.param({}, [required(("host", "h"))], [[("host", "h")]], id="other labels stay"),
    ],
)
def test_translated_node_affinity(labels, terms, expected):
    ebs = volume(EBS, labels, terms)
    selector = migrated_affinity(ebs, migration_of(ebs))
    found = () if selector is None else selector.node_selector_terms
    assert [[(r.key, "".join(r.values)) for r in term.match_expressions] for term in found] == expected


def test_kinds_without_a_zone_label_keep_their_affinity():
    disk = volume({"azureDisk": {"diskURI": "u"}}, {ZONE: "z"}, [required((ZONE, "a"))])
    assert migrated_affinity(disk, migration_of(disk)) is disk.spec.node_affinity.required
