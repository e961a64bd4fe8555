"""Model the StatefulSet controller: pods with stable names, each with claims of its own that outlive it.

Pods are name-0, name-1 and on; one that is lost is made anew under its name once the old one is gone, with the same
claims. Scaling down removes the highest numbers and keeps their claims. Pods start together, as with
`podManagementPolicy: Parallel`.

Upstream: pkg/controller/statefulset.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.api.api_errors import AlreadyExists, ApiError, NotFound
from stowplan.api.types import Pod
from stowplan.api.volumes import PersistentVolumeClaimVolumeSource, Volume
from stowplan.framework.requests import Create
from stowplan.scenarios.workloads import Keeper, named_pod

if TYPE_CHECKING:
    from random import Random

    from stowplan.api.pod import PodSpec
    from stowplan.api.types import PersistentVolumeClaim
    from stowplan.scenarios.workloads import Template
    from stowplan.scenarios.world import World

_POD_NAME, _INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
#: Seconds until it is looked again whether a pod of before has gone.
_AGAIN = 1.0


class StatefulKeeper(Keeper):
    def __init__(self, world: World, template: Template, name: str, chance: Random) -> None:
        super().__init__(world, template, name, chance)
        #: Name -> how many pods of it there were.
        self._times: Counter[str] = Counter()
        #: Name -> its spec, with its claims.
        self._specs: dict[str, PodSpec] = {}
        self._will_look = False

    def _reconcile(self) -> None:
        names = [f"{self._name}-{index}" for index in range(self.replicas)]
        for index, name in enumerate(names):
            if name not in self._active:
                self._make_named(name, index)
        for name in reversed([name for name in self._active if name not in names]):
            self._remove(name)

    def _make_named(self, name: str, index: int) -> None:
        template, metadata = self._template, self._template.pod.metadata
        try:
            self._world.store.get(Pod, metadata.namespace, name)
        except NotFound:
            pass
        else:
            self._look_again()
            return
        pod = named_pod(template.pod, template.workload, name, owner=self._owner, again=self._times[name])
        self._times[name] += 1
        labels = {**metadata.labels, _POD_NAME: name, _INDEX: str(index)}
        self._arrive(replace(pod, metadata=replace(pod.metadata, labels=labels), spec=self._spec_of(name)))

    def _look_again(self) -> None:
        if not self._will_look:
            self._will_look = True
            self._world.later(_AGAIN, self._looked)

    def _looked(self) -> None:
        self._will_look = False
        self._reconcile()

    def _spec_of(self, name: str) -> PodSpec:
        spec = self._template.pod.spec
        if self._template.claims is None:
            return spec
        if name not in self._specs:
            # Claims are named after their template and the pod.
            claims = {claim.metadata.name.removesuffix(f"-{name}"): claim for claim in self._template.claims(name)}
            for claim in claims.values():
                self._claim(claim)
            kept = [volume for volume in spec.volumes if volume.name not in claims]
            own = [
                Volume(
                    name=one, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim.metadata.name)
                )
                for one, claim in claims.items()
            ]
            self._specs[name] = replace(spec, volumes=(*kept, *own))
        return self._specs[name]

    def _claim(self, claim: PersistentVolumeClaim) -> None:
        try:
            self._world.time.write(Create(obj=claim))
        except AlreadyExists:
            # The cluster has had it from the beginning.
            pass
        except ApiError as error:
            self._world.note(f"workload {self._template.workload}: {error}")
