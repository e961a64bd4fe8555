"""In-tree volumes migrated to CSI drivers.

Cloud volume types once compiled into Kubernetes are now served by CSI drivers. The objects are unchanged, so code that
deals with drivers has to translate them: to the driver, its volume handle, and its topology label. Volumes that cannot
be translated raise TranslationError.

There are two checks for migration: limits assume it on every node with a CSINode (`Migration.counted`); a volume's
affinity is translated for nodes whose CSINode lists the plugin in an annotation (`is_migrated_on`).

Upstream: k8s.io/csi-translation-lib; isCSIMigrationOn and isPluginMigratedToCSIOnNode of the scheduler's plugins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from stowplan.kube.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from stowplan.kube.api.label_selectors import IN
from stowplan.kube.api.types import CSINode, PersistentVolume, Volume
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.in_tree.common.annotations import AZURE_RESOURCE_GROUP, MIGRATED_PLUGINS

_BETA_ZONE, _BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
#: Separates zones in a volume's label.
_ZONE_SEPARATOR = "__"


class TranslationError(ValueError):
    """A volume that cannot be translated to its CSI driver."""


class Migration(PlainStruct, frozen=True):
    """A volume kind and the driver that now serves it."""

    #: The volume source field, in a pod or in a PersistentVolume.
    field: str
    #: Name of the in-tree plugin, which is the provisioner in storage classes.
    plugin: str
    driver: str
    #: Volume handle of a PersistentVolume.
    handle: Callable[[PersistentVolume], str]
    #: Volume handle of an inline volume, given the pod's namespace.
    inline_handle: Callable[[Volume, str], str]
    #: Whether the scheduler treats the kind as a CSI volume.
    counted: bool = True
    #: The node label that the driver uses for zones; None: the affinity of a volume is not translated.
    zone_key: str | None = None


# -- drivers -----------------------------------------------------------------------------------------------------------


def migration_of(volume: Volume | PersistentVolume) -> Migration | None:
    """The migration of a volume (of a pod, or a PersistentVolume)."""
    source = _source_of(volume)
    return next((migration for migration in MIGRATIONS if getattr(source, migration.field) is not None), None)


def _source_of(volume: Volume | PersistentVolume) -> Any:
    """The object that has the volume source fields."""
    return volume.spec if isinstance(volume, PersistentVolume) else volume


def migration_of_provisioner(provisioner: str) -> Migration | None:
    """The migration of the in-tree plugin that a class has as provisioner."""
    return _BY_PLUGIN.get(provisioner)


def is_migrated_on(node: CSINode | None, migration: Migration) -> bool:
    """Whether the kind's volumes are served by the driver on the node."""
    if node is None or not migration.counted:
        return False
    return migration.plugin in node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


def inline_handle(volume: Volume, namespace: str) -> tuple[str, str] | None:
    """(driver, handle) of an inline volume; None if it is not migrated."""
    migration = migration_of(volume)
    if migration is None:
        return None
    try:
        return migration.driver, migration.inline_handle(volume, namespace)
    except TranslationError as problem:
        raise TranslationError(f"converting volume({volume.name}) from inline to csi: {problem}") from None


# -- handles -----------------------------------------------------------------------------------------------------------


def _ebs_handle(volume: Volume | PersistentVolume, _namespace: str = "") -> str:
    source = _source_of(volume).aws_elastic_block_store
    volume_id: str = source.volume_id
    if not volume_id.startswith("aws://"):
        return volume_id
    name = unquote(_url_path(volume_id)).strip("/")
    if not re.fullmatch(r"vol-[^/]*", name):
        raise _ebs_error(f"Invalid format for AWS volume ({volume_id})")
    return name


def _url_path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError as error:
        raise _ebs_error(f"Invalid disk name ({url}): {error}") from None


def _ebs_error(problem: str) -> TranslationError:
    return TranslationError(f"failed to translate Kubernetes ID to EBS Volume ID {problem}")


def _gce_handle(volume: PersistentVolume) -> str:
    assert volume.spec.gce_persistent_disk is not None
    labels, disk = volume.metadata.labels, volume.spec.gce_persistent_disk.pd_name
    zones = (labels.get(_BETA_ZONE) or labels.get(_ZONE, "")).split(_ZONE_SEPARATOR)
    if len(zones) > 1:
        return f"projects/UNSPECIFIED/regions/{_gce_region(zones)}/disks/{disk}"
    return f"projects/UNSPECIFIED/zones/{zones[0] or 'UNSPECIFIED'}/disks/{disk}"


def _gce_region(zones: list[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            problem = f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            raise TranslationError(f"failed to get region from zones: {problem}")
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        got = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{got}]"
        )
    return regions.pop()


def _gce_inline_handle(volume: Volume, _namespace: str) -> str:
    assert volume.gce_persistent_disk is not None
    return f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{volume.gce_persistent_disk.pd_name}"


def _azure_disk_handle(volume: Volume | PersistentVolume, _namespace: str = "") -> str:
    source = _source_of(volume).azure_disk
    if source.kind is not None and source.kind.lower() != "managed":
        raise TranslationError(f"kind({source.kind}) is not supported in csi migration")
    uri: str = source.disk_uri
    return uri


def _azure_file_handle(volume: PersistentVolume) -> str:
    source, claim = volume.spec.azure_file, volume.spec.claim_ref
    assert source is not None
    namespace = source.secret_namespace
    if namespace is None and claim is not None:
        namespace = claim.namespace
    if not namespace:
        raise TranslationError("could not find a secret namespace in PersistentVolumeSource or ClaimRef")
    group = volume.metadata.annotations.get(AZURE_RESOURCE_GROUP, "")
    parts = (group, _storage_account(source.secret_name), source.share_name, volume.metadata.name, namespace)
    return "#".join(parts)


def _azure_file_inline_handle(volume: Volume, namespace: str) -> str:
    source = volume.azure_file
    assert source is not None
    account = _storage_account(source.secret_name)
    return "#".join(("", account, source.share_name, volume.name, namespace or "default"))


def _storage_account(secret: str) -> str:
    """The account in a secret's name, or else the name itself."""
    found = re.search(r"azure-storage-account-(.+)-secret", secret)
    return secret if found is None else found[1]


def _plain_handle(field: str, name: str) -> Callable[..., str]:
    """A handle that equals the volume's former name."""

    def handle(volume: Volume | PersistentVolume, _namespace: str = "") -> str:
        known_as: str = getattr(getattr(_source_of(volume), field), name)
        return known_as

    return handle


def _plain(
    field: str, name: str, plugin: str, driver: str, *, counted: bool = True, zone_key: str | None = None
) -> Migration:
    handle = _plain_handle(field, name)
    return Migration(field, plugin, driver, handle, handle, counted, zone_key)


MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        "gce_persistent_disk",
        "kubernetes.io/gce-pd",
        "pd.csi.storage.gke.io",
        _gce_handle,
        _gce_inline_handle,
        zone_key="topology.gke.io/zone",
    ),
    Migration(
        "aws_elastic_block_store",
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
        _ebs_handle,
        _ebs_handle,
        zone_key="topology.ebs.csi.aws.com/zone",
    ),
    _plain(
        "cinder",
        "volume_id",
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        zone_key="topology.cinder.csi.openstack.org/zone",
    ),
    Migration("azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com", _azure_disk_handle, _azure_disk_handle),
    Migration(
        "azure_file",
        "kubernetes.io/azure-file",
        "file.csi.azure.com",
        _azure_file_handle,
        _azure_file_inline_handle,
        counted=False,
    ),
    _plain("vsphere_volume", "volume_path", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", counted=False),
    _plain("portworx_volume", "volume_id", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
)
_BY_PLUGIN = {migration.plugin: migration for migration in MIGRATIONS}


# -- topology ----------------------------------------------------------------------------------------------------------


def migrated_affinity(volume: PersistentVolume, migration: Migration) -> NodeSelector | None:
    """The node affinity of a volume in terms of its driver's labels; raises TranslationError.

    Zones in the affinity are translated; if there are none, those of the volume's label are added to each term.
    """
    migration.handle(volume)
    affinity = volume.spec.node_affinity
    selector = None if affinity is None else affinity.required
    if migration.zone_key is None:
        return selector
    terms = () if selector is None else selector.node_selector_terms
    zone, region = _label_pair(terms, volume.metadata.labels)
    renamed = {}
    if _values(terms, zone):
        renamed[zone] = migration.zone_key
    elif zones := _zones_of_label(volume.metadata.labels, zone):
        wanted = NodeSelectorRequirement(key=migration.zone_key, operator=IN, values=zones)
        terms = tuple(_with(term, wanted) for term in terms or (NodeSelectorTerm(),))
    if region == _BETA_REGION and _values(terms, region):
        renamed[region] = _REGION
    if renamed:
        terms = tuple(_renamed(term, renamed) for term in terms)
    return NodeSelector(node_selector_terms=terms) if terms else selector


def _label_pair(terms: tuple[NodeSelectorTerm, ...], labels: Mapping[str, str]) -> tuple[str, str]:
    """The labels that the volume uses for zone and region."""
    used = {requirement.key for term in terms for requirement in term.match_expressions}
    if _ZONE not in used and (_BETA_ZONE in used or (_ZONE not in labels and _BETA_ZONE in labels)):
        return _BETA_ZONE, _BETA_REGION
    return _ZONE, _REGION


def _values(terms: tuple[NodeSelectorTerm, ...], key: str) -> bool:
    return any(r.values for term in terms for r in term.match_expressions if r.key == key)


def _zones_of_label(labels: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(sorted({zone.strip() for zone in labels.get(key, "").split(_ZONE_SEPARATOR)} - {""}))


def _with(term: NodeSelectorTerm, requirement: NodeSelectorRequirement) -> NodeSelectorTerm:
    return msgspec.structs.replace(term, match_expressions=(*term.match_expressions, requirement))


def _renamed(term: NodeSelectorTerm, keys: Mapping[str, str]) -> NodeSelectorTerm:
    expressions = tuple(msgspec.structs.replace(r, key=keys.get(r.key, r.key)) for r in term.match_expressions)
    return msgspec.structs.replace(term, match_expressions=expressions)
