"""Validate volume sources of pods and PersistentVolumes: exactly one, and complete.

Upstream: pkg/apis/core/validation (ValidateVolumes, validateVolumeSource).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stowplan.kube.api.quantity import parse_quantity
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.claims import check_claim_spec
from stowplan_cluster.apiserver.validation.downward_api import (
    VOLUME_FIELDS,
    check_field_reference,
    check_resource_reference,
)
from stowplan_cluster.apiserver.validation.field_errors import Errors
from stowplan_cluster.apiserver.validation.metadata import check_template_metadata
from stowplan_cluster.apiserver.validation.names import (
    check_key_paths,
    check_mode,
    check_no_backsteps,
    check_non_reserved_path,
)

# Validate downward API and projected volumes.
#
# Of certificate sources only paths and names are validated.
#
# Upstream: pkg/apis/core/validation (validateProjectionSources, validateDownwardAPIVolumeFile).

_SOURCES = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")
_MIN_TOKEN_SECONDS, _MAX_TOKEN_SECONDS = 10 * 60, 1 << 32


def _check_downward_items(errors: Errors, path: str, items: list[JsonObject] | None) -> None:
    for item in items or ():
        # Parity: without the item's index.
        _check_downward_item(errors, path, item)


def _check_downward_item(errors: Errors, path: str, item: JsonObject) -> None:
    errors.check_required_fields(path, item, ("path",))
    check_non_reserved_path(errors, f"{path}.path", item.get("path", ""))
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        check_field_reference(errors, f"{path}.fieldRef", field, VOLUME_FIELDS)
        if resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.invalid(path, "resource", detail)
    elif resource is not None:
        check_resource_reference(errors, f"{path}.resourceFieldRef", resource, in_volume=True)
    else:
        errors.required(path, "one of fieldRef and resourceFieldRef is required")
    check_mode(errors, f"{path}.mode", item.get("mode"))


def check_projected(errors: Errors, path: str, volume: JsonObject) -> None:
    check_mode(errors, f"{path}.defaultMode", volume.get("defaultMode"))
    seen: set[str] = set()
    for index, source in enumerate(volume.get("sources") or ()):
        at = f"{path}.sources[{index}]"
        _check_source(errors, path, at, source)
        for target, blamed in _targets(source):
            if target in seen:
                errors.invalid(path, blamed, "conflicting duplicate paths")
            seen.add(target)
        if sum(name in source for name in _SOURCES) > 1:
            errors.forbidden(at, "may not specify more than 1 volume type per source")


def _check_source(errors: Errors, path: str, at: str, source: JsonObject) -> None:
    for name in ("secret", "configMap"):
        if (reference := source.get(name)) is not None:
            errors.check_required_fields(f"{at}.{name}", reference, ("name",))
            check_key_paths(errors, f"{at}.{name}.items", reference.get("items"))
    if (downward := source.get("downwardAPI")) is not None:
        _check_downward_items(errors, f"{at}.downwardAPI", downward.get("items"))
    if (token := source.get("serviceAccountToken")) is not None:
        _check_token(errors, path, f"{at}.serviceAccountToken", token)
    if (bundle := source.get("clusterTrustBundle")) is not None:
        _check_bundle(errors, f"{at}.clusterTrustBundle", bundle)
    if (certificate := source.get("podCertificate")) is not None:
        errors.check_required_fields(f"{at}.podCertificate", certificate, ("signerName",))


def _check_token(errors: Errors, path: str, at: str, token: JsonObject) -> None:
    seconds = token.get("expirationSeconds", 0)
    if seconds < _MIN_TOKEN_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
        errors.invalid(f"{at}.expirationSeconds", seconds, detail)
    if seconds > _MAX_TOKEN_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.invalid(f"{at}.expirationSeconds", seconds, detail)
    # Parity: the path is the volume's, not the source's.
    if token.get("path"):
        check_non_reserved_path(errors, f"{path}.path", token["path"])
    else:
        errors.required(f"{path}.path")


def _check_bundle(errors: Errors, at: str, bundle: JsonObject) -> None:
    named = [name for name in ("name", "signerName") if name in bundle]
    if len(named) > 1:
        errors.invalid(at, bundle, "only one of name and signerName may be used")
    elif not named:
        errors.required(at, "either name or signerName must be specified")
    errors.check_required_fields(at, bundle, ("path",))
    check_non_reserved_path(errors, f"{at}.path", bundle.get("path", ""))


def _targets(source: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the files of a source, each with the value to report if it conflicts."""
    for name in ("secret", "configMap"):
        reference = source.get(name) or {}
        for item in reference.get("items") or ():
            if item.get("path"):
                yield item["path"], reference.get("name", "")
    for item in (source.get("downwardAPI") or {}).get("items") or ():
        if item.get("path"):
            yield item["path"], item["path"]
    if "clusterTrustBundle" in source:
        target = source["clusterTrustBundle"].get("path", "")
        yield target, target


SourceRule = Callable[[Errors, str, JsonObject], None]

_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")

#: Sources of which only required fields are validated. Most of them also exist for PersistentVolumes.
_REQUIRED_FIELDS = {
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "quobyte": ("registry", "volume"),
    "flexVolume": ("driver",),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "flocker": (),
    "fc": (),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "storageos": (),
    "scaleIO": ("gateway", "system", "volumeName"),
}


def check_csi_driver_name(errors: Errors, path: str, name: str) -> None:
    if not name:
        errors.required(path)
        return
    if len(name) > names.MAX_LABEL:
        errors.too_long(path, names.MAX_LABEL)
    errors.check_texts(path, name, names.dns_subdomain(name.lower()))


def check_host_path(errors: Errors, path: str, source: JsonObject) -> None:
    if not source.get("path"):
        errors.required(f"{path}.path")
        return
    check_no_backsteps(errors, f"{path}.path", source["path"])
    errors.check_supported(f"{path}.type", source.get("type"), _HOST_PATH_TYPES)


def check_local(errors: Errors, path: str, source: JsonObject) -> None:
    if source.get("path"):
        check_no_backsteps(errors, f"{path}.path", source["path"])
    else:
        errors.required(f"{path}.path")


def check_nfs(errors: Errors, path: str, source: JsonObject) -> None:
    errors.check_required_fields(path, source, ("server", "path"))
    directory = source.get("path", "")
    if not directory.startswith("/"):
        errors.invalid(f"{path}.path", directory, "must be an absolute path")


def _check_empty_dir(errors: Errors, path: str, source: JsonObject) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and parse_quantity(limit) < 0:
        errors.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _check_secret(errors: Errors, path: str, source: JsonObject) -> None:
    errors.check_required_fields(path, source, ("secretName",))
    check_mode(errors, f"{path}.defaultMode", source.get("defaultMode"))
    check_key_paths(errors, f"{path}.items", source.get("items"))


def _check_config_map(errors: Errors, path: str, source: JsonObject) -> None:
    errors.check_required_fields(path, source, ("name",))
    check_mode(errors, f"{path}.defaultMode", source.get("defaultMode"))
    check_key_paths(errors, f"{path}.items", source.get("items"))


def _check_downward(errors: Errors, path: str, source: JsonObject) -> None:
    check_mode(errors, f"{path}.defaultMode", source.get("defaultMode"))
    # Parity: the reference leaves out "items" here.
    _check_downward_items(errors, path, source.get("items"))


def _check_csi(errors: Errors, path: str, source: JsonObject) -> None:
    check_csi_driver_name(errors, f"{path}.driver", source.get("driver", ""))
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return
    if not secret.get("name"):
        errors.required(f"{path}.nodePublishSecretRef.name")
    else:
        errors.check_texts(f"{path}.name", secret["name"], names.dns_subdomain(secret["name"]))


def _check_ephemeral(errors: Errors, path: str, source: JsonObject) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        errors.required(f"{path}.volumeClaimTemplate")
        return
    check_template_metadata(errors, f"{path}.volumeClaimTemplate.metadata", template.get("metadata") or {})
    check_claim_spec(errors, f"{path}.volumeClaimTemplate.spec", template.get("spec") or {})


def _check_image(errors: Errors, path: str, source: JsonObject) -> None:
    errors.check_required_fields(path, source, ("reference",))
    errors.check_supported(f"{path}.pullPolicy", source.get("pullPolicy"), _PULL_POLICIES)


def _requires(*fields: str) -> SourceRule:
    def rule(errors: Errors, path: str, source: JsonObject) -> None:
        errors.check_required_fields(path, source, fields)

    return rule


#: Ordered: if a volume has several sources, the first is its type.
_POD_SOURCES: dict[str, SourceRule] = {
    "emptyDir": _check_empty_dir,
    "hostPath": check_host_path,
    **{name: _requires(*fields) for name, fields in _REQUIRED_FIELDS.items()},
    "secret": _check_secret,
    "nfs": check_nfs,
    "downwardAPI": _check_downward,
    "configMap": _check_config_map,
    "projected": check_projected,
    "csi": _check_csi,
    "ephemeral": _check_ephemeral,
    "image": _check_image,
}

#: PersistentVolume sources of which only required fields are validated.
SIMPLE_SOURCES: dict[str, SourceRule] = {
    name: _requires(*fields)
    for name, fields in _REQUIRED_FIELDS.items()
    if name not in ("gitRepo", "persistentVolumeClaim")
}


def check_one_source(errors: Errors, path: str, obj: JsonObject, rules: dict[str, SourceRule]) -> str:
    """Check that there is exactly one source; return its type, "" if there is none."""
    found = ""
    for name, rule in rules.items():
        source = obj.get(name)
        if source is None:
            continue
        if found:
            errors.forbidden(f"{path}.{name}", "may not specify more than 1 volume type")
        else:
            found = name
            rule(errors, f"{path}.{name}", source)
    if not found:
        errors.required(path, "must specify a volume type")
    return found


def check_volumes(errors: Errors, path: str, volumes: list[JsonObject], *, pod_name: str) -> dict[str, JsonObject]:
    """The valid volumes by name. `pod_name` is "" in templates: names of ephemeral claims are unknown then."""
    made = {f"{pod_name}-{volume.get('name', '')}" for volume in volumes if "ephemeral" in volume} if pod_name else ()
    valid: dict[str, JsonObject] = {}
    for index, volume in enumerate(volumes):
        at, before = f"{path}[{index}]", len(errors)
        name = volume.get("name", "")
        source = check_one_source(errors, at, volume, _POD_SOURCES)
        if source == "ephemeral" and pod_name and name:
            _check_claim_name(errors, f"{at}.name", name, f"{pod_name}-{name}")
        _check_volume_name(errors, f"{at}.name", name, valid)
        if len(errors) == before:
            valid[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in made:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.invalid(f"{at}.persistentVolumeClaim.claimName", claim, detail)
    return valid


def _check_volume_name(errors: Errors, path: str, name: str, known: dict[str, JsonObject]) -> None:
    if not name:
        errors.required(path)
    else:
        errors.check_texts(path, name, names.dns_label(name))
    if name in known:
        errors.duplicate(path, name)


def _check_claim_name(errors: Errors, path: str, name: str, claim: str) -> None:
    for complaint in names.dns_subdomain(claim):
        errors.invalid(path, name, f'PVC name "{claim}": {complaint}')
