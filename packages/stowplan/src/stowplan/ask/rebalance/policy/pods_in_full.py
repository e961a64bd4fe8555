"""What policies read of pods beyond what the scheduler reads: states of containers, and finished pods.

A cluster's pods have only the fields that decisions need. The rest is decoded from the objects' JSON, pod by pod, when
a policy asks.
"""

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


class PodInFull(ApiStruct, frozen=True, kw_only=True):
    status: Statuses = Statuses()


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
