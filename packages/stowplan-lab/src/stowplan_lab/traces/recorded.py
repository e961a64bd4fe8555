"""A recording as a trace: the pods that arrived while it was recorded, and its initial nodes.

    trace: {format: recording, file: cluster.recording}

Pods arrive at their recorded times, and run for as long as they had a node. A pod that still exists at the end runs
forever; one that was deleted without having had a node runs for its lifetime. Pods that had a node at the start arrive
first, at 0, and are scheduled like all others. Gated pods arrive when their gates were removed.

Not included: nodes that were added or removed later, and other objects that pods refer to, such as claims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.history.recordings.recording_files import entries_of, files_of_run, header_of
from stowplan.kube.api.meta import ApiStruct, controller_of
from stowplan.kube.api.pod import FINISHED, Pod, PodStatus
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node
from stowplan.scheduler.engine.dumped import objects_of
from stowplan.scheduler.engine.input_log.recording import RecordingError
from stowplan.scheduler.engine.inputs import Changes
from stowplan_lab.traces.trace import Arrival, TraceError


class RecordingOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    file: str
    #: If false, pods of DaemonSets are left out: the scenario may have the DaemonSet, and other nodes.
    daemon_sets: bool = True


def open_recording(options: Mapping[str, Any], folder: Path) -> RecordedTrace:
    try:
        read = msgspec.convert(dict(options), RecordingOptions)
    except msgspec.ValidationError as error:
        raise TraceError(f"{error}: want file, the path of a recording, and perhaps daemonSets") from None
    path = str(folder / read.file)
    try:
        files = files_of_run(path)
        header_of(files[0])
        return RecordedTrace(files, daemon_sets=read.daemon_sets)
    except RecordingError as error:
        raise TraceError(str(error)) from None


class _PodInterval:
    """The lifetime of a pod."""

    __slots__ = ("bound", "came", "went")

    def __init__(self, came: float) -> None:
        self.came = came
        self.bound: float | None = None
        self.went: float | None = None

    @property
    def lifetime(self) -> float | None:
        if self.went is None:
            return None
        return self.went - (self.came if self.bound is None else self.bound)


class RecordedTrace:
    """Reads the recording twice: deletion times must be known at arrival."""

    def __init__(self, files: list[str], *, daemon_sets: bool) -> None:
        self.skipped = 0
        self._files = files
        self._daemon_sets = daemon_sets

    @property
    def count(self) -> int | None:
        return None

    def nodes(self) -> Iterator[Node]:
        began = None
        for now, change in self._changes(Node):
            if began is None:
                began = now
            if now > began or change.old is not None:
                return
            assert change.new is not None
            yield change.new

    def arrivals(self) -> Iterator[Arrival]:
        intervals = self._intervals()
        names: Counter[tuple[str, str]] = Counter()
        begin = None
        for now, change in self._changes(Pod):
            if begin is None:
                begin = now
            pod = change.new
            if pod is None or not self._is_arrival(change):
                continue
            metadata = pod.metadata
            names[metadata.namespace, metadata.name] += 1
            interval = intervals[metadata.uid]
            yield Arrival(
                round(now - begin, 6), _fresh(pod, names[metadata.namespace, metadata.name]), interval.lifetime
            )

    def _is_arrival(self, change: Change[Any]) -> bool:
        old: Any = change.old
        new: Any = change.new
        if new.spec.scheduling_gates or new.status.phase in FINISHED:
            return False
        if not self._daemon_sets:
            owner = controller_of(new.metadata)
            if owner is not None and owner.kind == "DaemonSet":
                return False
        return old is None or bool(old.spec.scheduling_gates)

    def _intervals(self) -> dict[str, _PodInterval]:
        found: dict[str, _PodInterval] = {}
        for now, change in self._changes(Pod):
            pod = change.new or change.old
            assert pod is not None
            interval = found.get(pod.metadata.uid)
            if interval is None or (change.new is not None and self._is_arrival(change)):
                interval = found[pod.metadata.uid] = _PodInterval(now)
            if pod.spec.node_name and interval.bound is None:
                interval.bound = now
            if change.new is None:
                interval.went = now
        return found

    def _changes(self, kind: type[ApiStruct]) -> Iterator[tuple[float, Change[Any]]]:
        """Changes of objects of a kind, starting with the existing ones."""
        try:
            header = header_of(self._files[0])
            for _, obj in () if header.dump is None else objects_of(header.dump):
                if type(obj) is kind:
                    yield header.now, Change(None, obj)
            for entry in entries_of(self._files):
                if isinstance(entry.input, Changes) and entry.input.kind is kind:
                    for change in entry.input.changes:
                        yield entry.now, change
        except RecordingError as error:
            raise TraceError(str(error)) from None


def _fresh(pod: Pod, times: int) -> Pod:
    """The pod as created; a number makes a repeated name unique."""
    metadata = replace(
        pod.metadata,
        name=pod.metadata.name if times == 1 else f"{pod.metadata.name}-{times}",
        resource_version="",
        deletion_timestamp=None,
        deletion_grace_period_seconds=None,
    )
    spec = replace(pod.spec, node_name="") if pod.spec.node_name else pod.spec
    return replace(pod, metadata=metadata, spec=spec, status=PodStatus())
