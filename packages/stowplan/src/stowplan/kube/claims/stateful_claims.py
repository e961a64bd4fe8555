"""Claims of StatefulSets' pods, named after their template and the pod: a recreated pod gets its claims back.

Upstream: pkg/controller/statefulset/stateful_set_utils.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.api.types import PersistentVolumeClaim, PodSpec
from stowplan.kube.api.volumes import PersistentVolumeClaimTemplate, PersistentVolumeClaimVolumeSource, Volume

POD_NAME, POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
_NOTHING: Mapping[str, str] = MappingProxyType({})


def identity(name: str, ordinal: int) -> dict[str, str]:
    """The labels of a pod."""
    return {POD_NAME: name, POD_INDEX: str(ordinal)}


def claim_name(template: str, pod: str) -> str:
    return f"{template}-{pod}"


def claims_for(
    templates: Iterable[PersistentVolumeClaimTemplate], pod: str, namespace: str, labels: Mapping[str, str] = _NOTHING
) -> Iterator[PersistentVolumeClaim]:
    """`labels`: those of the StatefulSet's selector."""
    for template in templates:
        given = template.metadata
        metadata = ObjectMeta(
            name=claim_name(given.name, pod),
            namespace=namespace,
            labels={**given.labels, **labels},
            annotations=given.annotations,
        )
        yield PersistentVolumeClaim(metadata=metadata, spec=template.spec)


def claim_volumes(templates: Iterable[PersistentVolumeClaimTemplate], pod: str) -> dict[str, Volume]:
    """The volumes of a pod's claims, which replace those of the same name."""
    names = [template.metadata.name for template in templates]
    sources = (PersistentVolumeClaimVolumeSource(claim_name=claim_name(name, pod)) for name in names)
    return {
        name: Volume(name=name, persistent_volume_claim=source) for name, source in zip(names, sources, strict=True)
    }


def with_claims(spec: PodSpec, templates: Iterable[PersistentVolumeClaimTemplate], pod: str) -> PodSpec:
    own = claim_volumes(templates, pod)
    others = (volume for volume in spec.volumes if volume.name not in own)
    return replace(spec, volumes=(*own.values(), *others)) if own else spec
