"""What an API server changes or refuses when objects are created, as far as decisions depend on it.

* A claim that names no StorageClass gets the default one.
* A pod gets what a LimitRange of its namespace and its RuntimeClass add, and is refused if it is beyond the former's
  limits.
* A pod that exceeds a ResourceQuota of its namespace is refused.

All that is computed once per template, as on the embedded cluster. These objects do not change.

What is known of a manifest alone (priorities, requests, ...) is set in templates, see `workloads.templates`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from stowplan.ask.loading.admission import PodPolicies, with_storage_class
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.api_errors import forbidden
from stowplan.kube.api.decode import to_dict
from stowplan.kube.api.manifest_files import LoadError
from stowplan.kube.api.pod import FINISHED, Pod, PodSpec
from stowplan.kube.api.port import Change
from stowplan.kube.api.quotas import CountedPod, CountedQuota
from stowplan.kube.api.storage import default_class
from stowplan.kube.api.types import PersistentVolumeClaim, StorageClass

#: Specs whose results are kept.
_KEPT_SPECS = 8192


class _Known(NamedTuple):
    """A spec, which is kept so that its id stays valid, and what follows from it."""

    given: PodSpec
    admitted: PodSpec
    why_not: str
    counted: CountedPod


class Admission:
    """A `simulated_cluster.Watcher`."""

    def __init__(self, store: ObjectStore, released: Callable[[Pod], object]) -> None:
        """`released`: called when a pod no longer counts."""
        self._store = store
        self._released = released
        self._policies = PodPolicies(())
        self._quotas: dict[str, list[CountedQuota]] = {}
        #: Namespace, id of a spec, and whether the pod has finished.
        self._known: dict[tuple[str, int, bool], _Known] = {}
        store.admission[PersistentVolumeClaim] = self._claim

    def enforce(self, quotas: Iterable[Mapping[str, Any]], policies: Iterable[Mapping[str, Any]]) -> None:
        """Apply ResourceQuotas, LimitRanges and RuntimeClasses from now on; pods that exist count.

        Raises LoadError.
        """
        self._policies = PodPolicies(policies)
        for quota in quotas:
            metadata = quota["metadata"]
            try:
                counted = CountedQuota(dict(quota))
            except (AttributeError, ValueError) as error:
                raise LoadError([f"ResourceQuota {metadata.get('name')} cannot be understood: {error}"]) from None
            self._quotas.setdefault(metadata.get("namespace") or "default", []).append(counted)
        self._store.admission[Pod] = self._pod
        for pod in self._store.list(Pod):
            self.changed(Change(None, pod))

    def changed(self, change: Change[Any]) -> None:
        old, new = change.old, change.new
        pod = old if new is None else new
        if type(pod) is not Pod or pod.metadata.namespace not in self._quotas:
            return
        if old is None or new is None or (old.status.phase in FINISHED) != (new.status.phase in FINISHED):
            counted = None if new is None else self._of(new).counted
            for quota in self._quotas[pod.metadata.namespace]:
                quota.count(pod.metadata.name, counted)
            if old is not None:
                self._released(pod)

    def _pod(self, pod: Pod) -> Pod:
        known = self._of(pod)
        refusals = (quota.refusal(known.counted) for quota in self._quotas.get(pod.metadata.namespace or "default", ()))
        if why := known.why_not or next(filter(None, refusals), ""):
            raise forbidden("pods", "", pod.metadata.name, why)
        return pod if known.admitted is pod.spec else replace(pod, spec=known.admitted)

    def _claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        return with_storage_class(claim, default_class(self._store.list(StorageClass)))

    def _of(self, pod: Pod) -> _Known:
        key = pod.metadata.namespace, id(pod.spec), pod.status.phase in FINISHED
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _KEPT_SPECS:
                self._known.clear()
            admitted, why = self._policies.applied(pod)
            counted = CountedPod({**to_dict(admitted), "status": {"phase": pod.status.phase}})
            spec = pod.spec if admitted.spec == pod.spec else admitted.spec
            known = self._known[key] = _Known(pod.spec, spec, why, counted)
        return known
