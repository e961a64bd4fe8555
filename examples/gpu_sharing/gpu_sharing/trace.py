"""The openb trace: nodes and pods of a production cluster with shared GPUs, from its CSV files.

Published as cluster-trace-gpu-v2023 in Alibaba's clusterdata and with the paper's simulator. Files may be packed with
gzip. Of a pod's columns only those are read that the experiment uses; `gpu_spec` may be missing, as in some of its
workloads.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gpu_sharing.devices import NODE_GPUS
from gpu_sharing.fragmentation import PodKind
from gpu_sharing.request import GPU_COUNT, GPU_MILLI, GPU_MODEL, PREFIX, WHOLE, GpuRequestError, request_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

T = TypeVar("T")

NAMESPACE = "paib-gpu"
#: What a node of the experiment takes at most.
PODS_PER_NODE = 1001


class TraceError(ValueError):
    """A file that cannot be used: says where (file and line) and why."""


@dataclass(frozen=True, slots=True)
class TraceNode:
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str

    def manifest(self) -> dict[str, Any]:
        """The node as an API server has it."""
        amounts = {
            "cpu": f"{self.cpu_milli}m",
            "memory": f"{self.memory_mib}Mi",
            "pods": str(PODS_PER_NODE),
            NODE_GPUS: str(self.gpus),
            PREFIX + "gpu-milli": str(WHOLE * self.gpus),
        }
        labels = {"kubernetes.io/hostname": self.name} | ({GPU_MODEL: self.model} if self.model else {})
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels},
            "status": {"capacity": amounts, "allocatable": amounts},
        }


@dataclass(frozen=True, slots=True)
class TracePod:
    name: str
    memory_mib: int
    kind: PodKind

    @property
    def total_milli(self) -> int:
        return self.kind.gpu_count * self.kind.gpu_milli

    def annotations(self) -> dict[str, str]:
        kind = self.kind
        if not self.total_milli:
            return {}
        found = {GPU_MILLI: str(kind.gpu_milli), GPU_COUNT: str(kind.gpu_count)}
        return found | ({GPU_MODEL: kind.models} if kind.models else {})

    def manifest(self) -> dict[str, Any]:
        amounts = {"cpu": f"{self.kind.cpu_milli}m", "memory": f"{self.memory_mib}Mi"}
        container = {"name": "main", "image": "main", "resources": {"requests": amounts, "limits": amounts}}
        metadata = {"name": self.name, "namespace": NAMESPACE, "annotations": self.annotations()}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def read_nodes(path: Path) -> list[TraceNode]:
    """The nodes of a file that have GPUs, by name."""
    columns = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
    nodes = _Rows(path, columns, _node).read(name=lambda node: node.name)
    found = sorted((node for node in nodes if node.gpus), key=lambda node: node.name)
    if not found:
        raise TraceError(f"{path}: no node with GPUs")
    return found


def read_pods(path: Path) -> list[TracePod]:
    """The pods of a file, by name."""
    columns = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    found = sorted(_Rows(path, columns, _pod).read(name=lambda pod: pod.name), key=lambda pod: pod.name)
    if not found:
        raise TraceError(f"{path}: no pods")
    return found


class _Row:
    """One row, by column."""

    def __init__(self, values: Mapping[str, str | None]) -> None:
        self._values = values

    def text(self, column: str) -> str:
        return (self._values.get(column) or "").strip()

    def number(self, column: str) -> int:
        text = self.text(column)
        if not (text.isascii() and text.isdigit()):
            raise ValueError(f'column {column}: "{text}" is not a number of 0 or more')
        return int(text)


def _node(row: _Row) -> TraceNode:
    amounts = (row.number(column) for column in ("cpu_milli", "memory_mib", "gpu"))
    return TraceNode(_name(row, "sn"), *amounts, row.text("model"))


def _pod(row: _Row) -> TracePod:
    numbers = [row.number(column) for column in ("cpu_milli", "gpu_milli", "num_gpu")]
    pod = TracePod(_name(row, "name"), row.number("memory_mib"), PodKind(*numbers, row.text("gpu_spec")))
    try:
        request_of(pod.annotations())
    except GpuRequestError as e:
        raise ValueError(str(e)) from e
    return pod


def _name(row: _Row, column: str) -> str:
    name = row.text(column)
    if not name:
        raise ValueError(f"column {column}: a name is missing")
    return name


class _Rows(Generic[T]):
    """The rows of a file, each made into something; errors say where."""

    def __init__(self, path: Path, columns: tuple[str, ...], make: Callable[[_Row], T]) -> None:
        self._path, self._columns, self._make = path, columns, make

    def read(self, *, name: Callable[[T], str]) -> list[T]:
        seen: dict[str, int] = {}
        found = []
        for line, made in self._made():
            first = seen.setdefault(name(made), line)
            if first != line:
                raise TraceError(f'{self._path}:{line}: "{name(made)}" is already in line {first}')
            found.append(made)
        return found

    def _made(self) -> Iterator[tuple[int, T]]:
        path = self._path
        try:
            with path.open("rb") as raw:
                packed = raw.read(2) == b"\x1f\x8b"
            with gzip.open(path, "rt", newline="") if packed else path.open(newline="", encoding="utf-8") as file:
                reader = csv.DictReader(file)
                missing = [column for column in self._columns if column not in (reader.fieldnames or ())]
                if missing:
                    raise TraceError(f"{path}: no column {', '.join(missing)} in the first line")
                for values in reader:
                    try:
                        yield reader.line_num, self._make(_Row(values))
                    except ValueError as e:
                        raise TraceError(f"{path}:{reader.line_num}: {e}") from e
        except (OSError, EOFError, UnicodeDecodeError, csv.Error) as e:
            raise TraceError(f"{path}: cannot be read: {getattr(e, 'strerror', None) or e}") from e
