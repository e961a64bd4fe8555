"""Import the openb trace: pods of a production cluster with shared GPUs.

Published as cluster-trace-gpu-v2023 in Alibaba's clusterdata. `file` and `nodes` are the paths of its two CSV files.
GPUs are in annotations, for a plugin that shares them (examples/gpu_sharing); for the in-tree plugins, the pods request
CPU and memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stowplan_lab.traces.csv_trace import CsvTrace, open_csv
from stowplan_lab.traces.trace import TraceError

_PREFIX = "alibabacloud.com/"
_AMOUNTS = {
    "cpu": {"column": "cpu_milli", "suffix": "m"},
    "memory": {"column": "memory_mib", "suffix": "Mi"},
}
_PODS: dict[str, Any] = {
    "name": "name",
    "namespace": "paib-gpu",
    "time": "creation_time",
    "end": "deletion_time",
    "resources": _AMOUNTS,
    "labels": {"qos": "qos"},
    "annotations": {
        _PREFIX + "gpu-milli": "gpu_milli",
        _PREFIX + "gpu-count": "num_gpu",
        _PREFIX + "gpu-card-model": "gpu_spec",
    },
    "sort": True,
}
_NODES: dict[str, Any] = {
    "name": "sn",
    "resources": {**_AMOUNTS, _PREFIX + "gpu-count": "gpu"},
    "labels": {_PREFIX + "gpu-card-model": "model"},
    "pods": 1001,
}
_OPTIONS = ("file", "nodes")


def open_openb(options: Mapping[str, Any], folder: Path) -> CsvTrace:
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown or not isinstance(options.get("file"), str):
        raise TraceError(
            f"{unknown[0] if unknown else 'file'}: want file and nodes, the paths of the trace's CSV files"
        )
    nodes = {"nodes": {**_NODES, "file": options["nodes"]}} if "nodes" in options else {}
    return open_csv({**_PODS, **nodes, "file": options["file"]}, folder)
