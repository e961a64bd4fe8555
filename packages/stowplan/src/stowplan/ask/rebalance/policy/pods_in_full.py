"""What policies read of pods beyond what the scheduler reads: states of containers, host paths, and finished pods.

A cluster's pods have only the fields that decisions need. The rest is decoded from the objects' JSON, pod by pod, when
a policy asks.
"""

from typing import Any

import msgspec

from stowplan.kube.api.documents import Documents
from stowplan.kube.api.meta import ApiStruct, Int32
from stowplan.kube.api.types import Pod


class Waiting(ApiStruct, frozen=True, kw_only=True):
    reason: str = ""


class Terminated(ApiStruct, frozen=True, kw_only=True):
    reason: str = ""
    exit_code: Int32 = 0


class ContainerState(ApiStruct, frozen=True, kw_only=True):
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(ApiStruct, frozen=True, kw_only=True):
    restart_count: Int32 = 0
    state: ContainerState = ContainerState()


class Statuses(ApiStruct, frozen=True, kw_only=True):
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""


class _Volume(ApiStruct, frozen=True, kw_only=True):
    host_path: dict[str, Any] | None = None


class _Spec(ApiStruct, frozen=True, kw_only=True):
    volumes: tuple[_Volume, ...] = ()


class PodInFull(ApiStruct, frozen=True, kw_only=True):
    spec: _Spec = _Spec()
    status: Statuses = Statuses()

    @property
    def has_host_path(self) -> bool:
        return any(volume.host_path is not None for volume in self.spec.volumes)


_UNKNOWN = PodInFull()


class PodsInFull:
    def __init__(self, documents: Documents | None = None, finished: tuple[Pod, ...] = ()) -> None:
        """`documents`: those of the cluster's pods; None: nothing more is known of them."""
        self._documents = documents
        #: Pods that have ended and still exist.
        self.finished = finished

    def of(self, pod: Pod) -> PodInFull:
        data = None if self._documents is None else self._documents.kept(pod)
        return _UNKNOWN if data is None else msgspec.json.decode(data, type=PodInFull)
