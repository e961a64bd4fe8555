"""What an API server changes or refuses when objects are created, as far as decisions depend on it.

* A claim that names no StorageClass gets the default one.
* A pod that exceeds a ResourceQuota of its namespace is refused. What pods use is counted as on the embedded cluster,
  once per template. Quotas do not change.

What is known of a manifest alone (priorities, requests, ...) is set in templates, see `workloads.templates`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stowplan.ask.loading.admission import with_storage_class
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.api_errors import forbidden
from stowplan.kube.api.decode import to_dict
from stowplan.kube.api.pod import FINISHED, Pod, PodSpec
from stowplan.kube.api.port import Change
from stowplan.kube.api.quotas import CountedPod, CountedQuota
from stowplan.kube.api.storage import default_class
from stowplan.kube.api.types import PersistentVolumeClaim, StorageClass

#: Specs whose usage is kept.
_KEPT_SPECS = 8192


class Admission:
    """A `simulated_cluster.Watcher`."""

    def __init__(self, store: ObjectStore, released: Callable[[Pod], object]) -> None:
        """`released`: called when a pod no longer counts."""
        self._store = store
        self._released = released
        self._quotas: dict[str, list[CountedQuota]] = {}
        #: id of a spec, and whether the pod has finished -> the spec, which is kept so that the id stays valid.
        self._known: dict[tuple[int, bool], tuple[PodSpec, CountedPod]] = {}
        store.admission[PersistentVolumeClaim] = self._claim

    def enforce(self, quotas: Iterable[Mapping[str, Any]]) -> None:
        """Refuse pods from now on that exceed these; those that exist count."""
        for quota in quotas:
            namespace = quota["metadata"].get("namespace") or "default"
            self._quotas.setdefault(namespace, []).append(CountedQuota(dict(quota)))
        self._store.admission[Pod] = self._pod
        for pod in self._store.list(Pod):
            self.changed(Change(None, pod))

    def changed(self, change: Change[Any]) -> None:
        old, new = change.old, change.new
        pod = old if new is None else new
        if type(pod) is not Pod or pod.metadata.namespace not in self._quotas:
            return
        if old is None or new is None or (old.status.phase in FINISHED) != (new.status.phase in FINISHED):
            counted = None if new is None else self._counted(new)
            for quota in self._quotas[pod.metadata.namespace]:
                quota.count(pod.metadata.name, counted)
            if old is not None:
                self._released(pod)

    def _pod(self, pod: Pod) -> Pod:
        for quota in self._quotas.get(pod.metadata.namespace or "default", ()):
            if why := quota.refusal(self._counted(pod)):
                raise forbidden("pods", "", pod.metadata.name, why)
        return pod

    def _claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        return with_storage_class(claim, default_class(self._store.list(StorageClass)))

    def _counted(self, pod: Pod) -> CountedPod:
        key = id(pod.spec), pod.status.phase in FINISHED
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _KEPT_SPECS:
                self._known.clear()
            counted = CountedPod({**to_dict(pod), "status": {"phase": pod.status.phase}})
            known = self._known[key] = pod.spec, counted
        return known[1]
