"""Prefer nodes that already have the pod's images, scaled by how widely each image is spread.

An image counts with its size times the share of nodes that have it; otherwise pods would concentrate on the few nodes
with a rare image. The image index has the rows of each image, so the cost is a few sums per distinct image, cached
until a node changes.

Upstream: pkg/scheduler/framework/plugins/imagelocality.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.cluster.arrays import Ints
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads, ReadsNoObjects, TemplateSigned
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import MAX_SCORE, ScorePlugin
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.in_tree.image_locality.declaration import DECLARATION

_MB = 1024 * 1024
#: Sizes at or below which the score is 0, and sizes per container from which it is the maximum.
MIN_BYTES, MAX_BYTES_PER_CONTAINER = 23 * _MB, 1000 * _MB


class ImageLocality(ScorePlugin, TemplateSigned, ReadsNoObjects):
    declaration = DECLARATION
    short_name = "images"
    reads = Reads.NODES
    in_range = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        #: Images of volumes were part of the sum before they were part of its limit.
        self._counts_volumes = handle.features.emulated_version >= V1_37

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        table, names = nodes.table, pod.shape.image_names
        if not table.images:
            return np.zeros(len(nodes), np.int64)
        spec = pod.pod.spec
        containers = len(spec.init_containers) + len(spec.containers)
        if self._counts_volumes:
            containers += sum(volume.image is not None for volume in spec.volumes)
        key = ("ImageLocality", names, containers)
        return nodes.take(table.memo(key, lambda: _scores(table, names, containers)))


def _scores(table: NodeTable, names: tuple[str, ...], containers: int) -> Ints:
    held = np.zeros(table.n, np.int64)
    for name in names:
        image = table.images.get(name)
        if image is not None:
            # Parity: compute the share first, then the product, in floats; the other order can round differently.
            spread = float(len(image.rows)) / float(table.count)
            held[list(image.rows)] += int(float(image.size) * spread)
    most = MAX_BYTES_PER_CONTAINER * containers
    clamped = np.where(held < MIN_BYTES, MIN_BYTES, np.minimum(held, most))
    scores: Ints = MAX_SCORE * (clamped - MIN_BYTES) // (most - MIN_BYTES)
    return scores
