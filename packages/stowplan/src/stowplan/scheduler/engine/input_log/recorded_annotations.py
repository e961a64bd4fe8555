"""Which annotations a recording keeps.

Annotations may contain sensitive data: notes of tools, addresses, whole manifests. Those that plugins declare
(`Plugin.reads_annotations`) are kept, because decisions depend on them. All others are replaced by one annotation with
their digest: a change of annotations is an event that may wake pods, so a replay must see that something changed, but
not what. The digest is keyed with a secret that is not stored, so that values cannot be guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.kube.api.custom_objects import CustomObject
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.pod import CONFIG_SOURCE, EVICT, MIRROR, PREFER_NO_EVICTION
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Pod
from stowplan.scheduler.engine.dumped import EngineDump
from stowplan.scheduler.engine.inputs import Answer, Changes, Input
from stowplan.scheduler.framework.requests import Done

#: Replaces all annotations that are not kept; its value changes when one of them does.
OTHERS = "stowplan.dev/other-annotations"
#: Marks that questions about a recording read: those of static pods, and of pods that are to be evicted or not.
ALWAYS_KEPT = frozenset({MIRROR, CONFIG_SOURCE, EVICT, PREFER_NO_EVICTION})


class RecordedAnnotations:
    def __init__(self, kept: Iterable[str], *, secret: bytes) -> None:
        """`kept` are annotation keys, `secret` up to 64 random bytes."""
        self._kept = ALWAYS_KEPT.union(kept)
        self._secret = secret

    def of_input(self, input_: Input) -> Input:
        """The input with filtered annotations."""
        if isinstance(input_, Changes):
            return Changes(input_.kind, [Change(self._of(one.old), self._of(one.new)) for one in input_.changes])
        if isinstance(input_, Answer) and isinstance(input_.outcome, Done):
            value = input_.outcome.value
            if isinstance(value, ApiStruct):
                return Answer(input_.number, Done(self._of(value)))
        return input_

    def of_dump(self, dump: EngineDump) -> EngineDump:
        """The dump with filtered annotations."""
        state, placements = dump.state, dump.state.placements
        nodes = replace(placements.nodes, rows=[self._of(node) for node in placements.nodes.rows])
        pods = [replace(one, pod=self._of(one.pod)) for one in placements.pods]
        return replace(
            dump,
            state=replace(
                state,
                placements=replace(placements, nodes=nodes, pods=pods),
                objects=[(name, self._of(obj)) for name, obj in state.objects],
                assumed=[(name, self._of(obj)) for name, obj in state.assumed],
                nominations=[(name, self._of_pods(pods)) for name, pods in state.nominations],
                pending=self._of_pods(state.pending),
            ),
            evictions=replace(
                dump.evictions,
                preemptions=[replace(one, preemptor=self._of(one.preemptor)) for one in dump.evictions.preemptions],
            ),
        )

    def _of_pods(self, pods: Sequence[Pod]) -> list[Pod]:
        return [self._of(pod) for pod in pods]

    def _of(self, obj: Any) -> Any:
        """An object, or the content of a custom one, with filtered annotations."""
        if obj is None:
            return None
        if isinstance(obj, CustomObject):
            return replace(obj, content=self._of_content(obj.content), metadata=self._of_metadata(obj.metadata))
        if isinstance(obj, Mapping):
            return self._of_content(obj)
        metadata = self._of_metadata(obj.metadata)
        return obj if metadata is obj.metadata else replace(obj, metadata=metadata)

    def _of_metadata(self, metadata: Any) -> Any:
        annotations = metadata.annotations
        if not annotations or annotations.keys() <= self._kept:
            return metadata
        return replace(metadata, annotations=self._reduced(annotations))

    def _of_content(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        annotations = (content.get("metadata") or {}).get("annotations")
        if not annotations or annotations.keys() <= self._kept:
            return content
        return {**content, "metadata": {**content["metadata"], "annotations": self._reduced(annotations)}}

    def _reduced(self, annotations: Mapping[str, str]) -> dict[str, str]:
        found = {key: value for key, value in annotations.items() if key in self._kept}
        others = sorted(item for item in annotations.items() if item[0] not in self._kept)
        digest = blake2b(msgspec.json.encode(others), digest_size=8, key=self._secret)
        return found | {OTHERS: digest.hexdigest()}
