"""How far a plan has been carried out, kept in the cluster: whoever comes next goes on from there.

The record is a ConfigMap, not a file: a CronJob's next pod may be on another node, and has no disk of this one. It is
written before and after each eviction. Every write names the version that it replaces, so one that was overtaken fails.
"""

import msgspec

from stowplan.ask.rebalance.plan_records import RebalanceRecord
from stowplan.kube.api.api_errors import NotFound
from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.api.port import EvictingApi
from stowplan.kube.api.users import ConfigMap

NAME = "stowplan-rebalance"
_KEY = "record.json"

PLANNED, EVICTING, EVICTED, DONE = "planned", "evicting", "evicted", "done"
RUNNING, FINISHED, STOPPED = "running", "finished", "stopped"


class AppliedMove(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    pod: str
    uid: str
    #: Of its controller.
    owner: str
    from_: str = msgspec.field(name="from")
    to: str
    step: int
    cordons: bool = False
    #: PLANNED, EVICTING (asked for, without an answer yet), EVICTED, or DONE: its replacement runs.
    state: str = PLANNED
    #: The node of its replacement.
    node: str = ""


class ApplyRecord(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    goal: str
    state: str = RUNNING
    #: Why it stopped.
    message: str = ""
    #: How many plans there were: the first one, and those made when the cluster differed.
    plans: int = 1
    moves: list[AppliedMove] = []
    #: Finished pods to delete, by key -> UID.
    removals: dict[str, str] = {}
    #: Nodes to cordon first, those that were cordoned here, and those to uncordon at the end.
    cordon: list[str] = []
    cordoned: list[str] = []
    uncordon: list[str] = []
    #: Controller -> the UIDs that its pods had when the present step began.
    known: dict[str, list[str]] = {}
    #: Pods that moved, in this plan and in earlier ones.
    moved: int = 0
    #: Whether the last plan meets the goal, and what it says beside its moves.
    met: bool = True
    notes: list[str] = []


class RecordStore:
    """The ConfigMap."""

    def __init__(self, api: EvictingApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._version = ""

    async def read(self) -> ApplyRecord | None:
        """The last record; None if there is none, or it cannot be read any more."""
        try:
            found = await self._api.get(ConfigMap, NAME, namespace=self._namespace)
        except NotFound:
            self._version = ""
            return None
        self._version = found.metadata.resource_version
        try:
            return msgspec.json.decode(found.data.get(_KEY, ""), type=ApplyRecord)
        except msgspec.MsgspecError:
            return None

    async def write(self, record: ApplyRecord) -> None:
        data = {_KEY: msgspec.json.encode(record).decode()}
        if not self._version:
            metadata = ObjectMeta(name=NAME, namespace=self._namespace)
            written = await self._api.create(ConfigMap(metadata=metadata, data=data))
        else:
            patch = {"metadata": {"resourceVersion": self._version}, "data": data}
            written = await self._api.patch(ConfigMap, NAME, patch, type_="merge", namespace=self._namespace)
        self._version = written.metadata.resource_version


class Identities(msgspec.Struct, frozen=True):
    """The UIDs of a plan's pods, and of their controllers, by the pods' keys."""

    pods: dict[str, str]
    owners: dict[str, str]


def record_of(plan: RebalanceRecord, ids: Identities) -> ApplyRecord:
    return ApplyRecord(
        goal=plan.goal,
        moves=[
            AppliedMove(
                pod=move.pod,
                uid=ids.pods[move.pod],
                owner=ids.owners[move.pod],
                from_=move.from_,
                to=move.to,
                step=move.step,
                cordons=move.cordons,
            )
            for move in plan.moves
        ],
        removals={one.pod: ids.pods[one.pod] for one in plan.removals},
        cordon=list(plan.cordon),
        uncordon=list(plan.uncordon),
        met=plan.met,
        notes=list(plan.notes),
    )
