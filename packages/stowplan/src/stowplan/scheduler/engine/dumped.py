"""A dump of the whole engine between two steps, as plain values.

An engine loaded from a dump continues exactly like the dumped one: the same inputs give the same effects, byte for
byte, with the same numbers. So a recording can start with a dump, and what is tried from it shows what would have
happened. The restriction: an engine cannot be dumped while something is in progress. What a plugin has started (a
generator, a coroutine, a `CycleState`, a reservation) cannot be serialized, and cannot be undone either, as the plugin
holds it. `Engine.unfinished` lists what is in progress. A driver that pauses scheduling sees it end, except for what
depends on time or on a plugin's decision.

Included: the cluster with all its orders, and what plugins registered with it; the queue; nominations; preemptions
whose victims have not left yet; statuses that are ahead of the watch; the position of sampling and the state of the
random source; the effect numbers. Not included: metrics, stories, and anything that can be recomputed.

    data = encode_dump(engine.dump())
    ...
    other = Engine(config, ...)                    # with the same configuration, plugins and type of random source
    other.load(decode_dump(data))
    other.step(TICK, now)                          # returns when to wake it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.types import CompositePodGroup, Pod, PodGroup, PodStatus
from stowplan.scheduler.cluster.dumped import DumpedPlacements
from stowplan.scheduler.engine.written_objects import as_written, kind_named, read_object, with_name
from stowplan.scheduler.queue.dumped import DumpedQueue

#: Changes with the format.
DUMP_VERSION = 1

#: The cluster's own participants of transactions.
_PLACEMENTS, _OBJECTS, _NOMINATIONS, _PENDING = "nodes and pods", "objects", "nominations", "pending pods"
_ASSUMED, _IN_FLIGHT = "assumed objects", "objects in flight"


class DumpError(ValueError):
    """A dump that cannot be loaded into this engine; says why."""


class UnfinishedDumpError(RuntimeError):
    """The engine cannot be dumped now; says what is in progress."""

    def __init__(self, unfinished: Iterable[str]) -> None:
        self.unfinished = tuple(unfinished)
        listed = "; ".join(self.unfinished[:_LISTED])
        more = len(self.unfinished) - _LISTED
        super().__init__(
            f"cannot dump while something is in progress: {listed}" + (f"; and {more} more" if more > 0 else "")
        )


#: Maximum number of unfinished items that are listed.
_LISTED = 10


class DumpedState(msgspec.Struct, frozen=True, kw_only=True):
    placements: DumpedPlacements
    #: (kind, object), kind by kind.
    objects: list[tuple[str, Any]]
    #: Assumed objects, whose writes the watch has not delivered yet.
    assumed: list[tuple[str, Any]] = msgspec.field(default_factory=list)
    #: Written objects that the watch has not delivered yet.
    in_flight: list[tuple[str, Any]] = msgspec.field(default_factory=list)
    #: Node -> pods, both in the order of nomination.
    nominations: list[tuple[str, list[Pod]]]
    #: In order of appearance of their names.
    pending: list[Pod]
    #: Other participants of transactions -> their dumps.
    others: dict[str, Any]


class DumpedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The API server's response to a pod status write that the watch has not delivered yet."""

    uid: str
    namespace: str
    name: str
    status: PodStatus
    version: int


class DumpedPreemption(msgspec.Struct, frozen=True, kw_only=True):
    """A completed plan, some of whose victims have not left yet."""

    #: For a group, one of its pods.
    preemptor: Pod
    group: PodGroup | None = None
    composite_group: CompositePodGroup | None = None
    node: str
    plugin: str
    #: UIDs.
    leaving: list[str]


class DumpedEvictions(msgspec.Struct, frozen=True, kw_only=True):
    preemptions: list[DumpedPreemption]
    #: Preemptor's UID -> number of its plans in a row that were refused.
    refusals: dict[str, int]


class DumpedOutbox(msgspec.Struct, frozen=True, kw_only=True):
    #: Of the last effect.
    number: int
    #: The earliest wake-up time that the driver knows.
    next_wake: float | None = msgspec.field(name="told")


class DumpedTimer(msgspec.Struct, frozen=True, kw_only=True):
    """The timer of the queue."""

    #: Phase of the one-second interval.
    second: float
    #: When it fires next; None: not set.
    at: float | None


class EngineDump(msgspec.Struct, frozen=True, kw_only=True):
    version: int = DUMP_VERSION
    #: The time of the last step, and the offset of the wall clock.
    now: float
    ahead: float
    #: Whether scheduling is stopped.
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
    """Set a `random.Random` to a state that may have been serialized."""
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
    """From the result of `ClusterState.dump`."""
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
    """(kind, object) of every object that the API server is known to have."""
    state = dump.state
    yield from (("Node", node) for node in state.placements.nodes.rows if node is not None)
    # An assumed pod is as it was tried; the version that the watch delivered is among the pending pods.
    yield from (("Pod", placed.pod) for placed in state.placements.pods if not placed.assumed)
    yield from (("Pod", pod) for pod in state.pending)
    yield from ((name, read_object(kind_named(name), content)) for name, content in state.objects)


def restored_state(dumped: DumpedState) -> dict[str, Any]:
    """To an argument of `ClusterState.load`."""
    return {
        _PLACEMENTS: dumped.placements,
        _OBJECTS: [read_object(kind_named(name), content) for name, content in dumped.objects],
        _ASSUMED: [read_object(kind_named(name), content) for name, content in dumped.assumed],
        _IN_FLIGHT: [read_object(kind_named(name), content) for name, content in dumped.in_flight],
        _NOMINATIONS: dumped.nominations,
        _PENDING: dumped.pending,
        **dumped.others,
    }
