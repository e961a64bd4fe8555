"""A dump of the whole engine between two steps, as plain values.

What goes on from a dump does so exactly as the dumped engine does: the same inputs give the same effects, byte for
byte, with the same numbers. So a recording may begin with a dump, and whatever is tried out from one is what would have
happened. The price: an engine that is in the middle of something is not dumped. What a plugin has begun (a generator, a
coroutine, a `CycleState`, room that it has set aside) cannot be written down, and it cannot be wound back on the side,
as the plugin keeps it. `Engine.unfinished` says what is under way; a driver that holds its turns back sees it end, but
for what only time or a plugin's word ends.

What is in it: the cluster with all its orders, and what plugins registered with it; the queue; nominations; preemptions
whose victims are still to be seen to leave; statuses that are ahead of the watch; where sampling goes on and the state
of chance; the numbers of effects. What is not: metrics, stories, and what is worked out anew when it is needed.

    data = encode_dump(engine.dump())
    ...
    other = Engine(config, ...)                    # with the same configuration, plugins and kind of chance
    other.load(decode_dump(data))
    other.step(TICK, now)                          # says when it wants to be woken
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from stowplan.api.types import Pod, PodGroup, PodStatus
from stowplan.cluster.dumped import DumpedPlacements
from stowplan.engine.written_objects import as_written, kind_named, read_object, with_name
from stowplan.queue.dumped import DumpedQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stowplan.api.meta import ApiStruct

#: Changes when a dump is written otherwise.
DUMP_VERSION = 1

#: The cluster's own participants of transactions.
_PLACEMENTS, _OBJECTS, _NOMINATIONS, _PENDING = "nodes and pods", "objects", "nominations", "pending pods"
_ASSUMED, _IN_FLIGHT = "assumed objects", "objects in flight"


class DumpError(ValueError):
    """A dump that cannot be loaded here; says why."""


class UnfinishedError(RuntimeError):
    """The engine cannot be dumped now; says what is under way."""

    def __init__(self, unfinished: Iterable[str]) -> None:
        self.unfinished = tuple(unfinished)
        listed = "; ".join(self.unfinished[:_LISTED])
        more = len(self.unfinished) - _LISTED
        super().__init__(f"what is under way cannot be dumped: {listed}" + (f"; and {more} more" if more > 0 else ""))


#: How much of what is under way is named.
_LISTED = 10


class DumpedState(msgspec.Struct, frozen=True, kw_only=True):
    placements: DumpedPlacements
    #: (kind, object), kind by kind.
    objects: list[tuple[str, Any]]
    #: The same of those that are assumed to be others, as what was written was not heard of yet.
    assumed: list[tuple[str, Any]] = msgspec.field(default_factory=list)
    #: Those that were written, of which the watch has not told yet.
    in_flight: list[tuple[str, Any]] = msgspec.field(default_factory=list)
    #: Node -> pods, both in the order of nomination.
    nominations: list[tuple[str, list[Pod]]]
    #: In the order in which their names came.
    pending: list[Pod]
    #: Participant of transactions -> what it says of itself.
    others: dict[str, Any]


class DumpedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server answered of a pod's status, which the watch has not come up to."""

    uid: str
    namespace: str
    name: str
    status: PodStatus
    version: int


class DumpedPreemption(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that was carried out, and whose victims are still to be seen to leave."""

    #: Of a group, one of its pods.
    preemptor: Pod
    group: PodGroup | None = None
    node: str
    plugin: str
    #: UIDs.
    leaving: list[str]


class DumpedEvictions(msgspec.Struct, frozen=True, kw_only=True):
    preemptions: list[DumpedPreemption]
    #: Preemptor's UID -> how many of its plans in a row were refused.
    refusals: dict[str, int]


class DumpedOutbox(msgspec.Struct, frozen=True, kw_only=True):
    #: Of the last effect.
    number: int
    #: The earliest time that the driver knows of.
    told: float | None


class DumpedTimer(msgspec.Struct, frozen=True, kw_only=True):
    """When the queue is looked after."""

    #: Where a second begins.
    second: float
    #: When it rings next; None: it does not.
    at: float | None


class EngineDump(msgspec.Struct, frozen=True, kw_only=True):
    version: int = DUMP_VERSION
    #: The time of the last step, and what the wall clock was ahead of it.
    now: float
    ahead: float
    #: Whether no pod is tried.
    stopped: bool
    #: Profile -> plugins that are switched off.
    switched_off: dict[str, list[str]]
    state: DumpedState
    queue: DumpedQueue
    timer: DumpedTimer
    outbox: DumpedOutbox
    evictions: DumpedEvictions
    statuses: list[DumpedStatus]


def set_chance(random: Any, state: Sequence[Any]) -> None:
    """Set a `random.Random` to a state that may have been written down meanwhile."""
    version, words, gauss = state
    random.setstate((version, tuple(words), gauss))


def encode_dump(dump: EngineDump) -> bytes:
    """As JSON."""
    return msgspec.json.encode(dump)


def decode_dump(data: bytes | str) -> EngineDump:
    try:
        version = msgspec.json.decode(data, type=_Head).version
        if version == DUMP_VERSION:
            return msgspec.json.decode(data, type=EngineDump)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise DumpError(f"no dump of an engine: {e}") from e
    raise DumpError(f"this dump has version {version}, want {DUMP_VERSION}")


class _Head(msgspec.Struct):
    version: int


def dumped_state(parts: dict[str, Any]) -> DumpedState:
    """Of what `ClusterState.dump` gives."""
    others = dict(parts)
    placements = others.pop(_PLACEMENTS)
    nodes = replace(placements.nodes, rows=[node and as_written(node) for node in placements.nodes.rows])
    return DumpedState(
        placements=DumpedPlacements(
            nodes=nodes, pods=[replace(one, pod=as_written(one.pod)) for one in placements.pods]
        ),
        objects=[with_name(obj) for obj in others.pop(_OBJECTS)],
        assumed=[with_name(obj) for obj in others.pop(_ASSUMED)],
        in_flight=[with_name(obj) for obj in others.pop(_IN_FLIGHT)],
        nominations=[(name, [as_written(pod) for pod in pods]) for name, pods in others.pop(_NOMINATIONS)],
        pending=[as_written(pod) for pod in others.pop(_PENDING)],
        others=others,
    )


def objects_of(dump: EngineDump) -> Iterator[tuple[str, ApiStruct]]:
    """(kind, object) of all that the API server was heard to have."""
    state = dump.state
    yield from (("Node", node) for node in state.placements.nodes.rows if node is not None)
    # An assumed pod is as it was when it was tried; what was heard of it stands among the pending ones.
    yield from (("Pod", placed.pod) for placed in state.placements.pods if not placed.assumed)
    yield from (("Pod", pod) for pod in state.pending)
    yield from ((name, read_object(kind_named(name), content)) for name, content in state.objects)


def restored_state(dumped: DumpedState) -> dict[str, Any]:
    """What `ClusterState.load` takes."""
    return {
        _PLACEMENTS: dumped.placements,
        _OBJECTS: [read_object(kind_named(name), content) for name, content in dumped.objects],
        _ASSUMED: [read_object(kind_named(name), content) for name, content in dumped.assumed],
        _IN_FLIGHT: [read_object(kind_named(name), content) for name, content in dumped.in_flight],
        _NOMINATIONS: dumped.nominations,
        _PENDING: dumped.pending,
        **dumped.others,
    }
