"""Prefer nodes by a label or an annotation: a number, or a time.

Numbers are truncated before they are compared, so 2.9 and 2.1 are equal. Nodes without a valid value get 0, others 1 to
100. Times are compared as seconds before now; only their differences count, so now does not matter.

Upstream: pkg/nodemetadata in scheduler-plugins.
"""

import re
from collections.abc import Iterator
from typing import ClassVar

import msgspec
import numpy as np

from stowplan.plugins import CycleState, Ints, Mask, Nodes, PodInfo, Reads, ReadsNoObjects, ScorePlugin, TemplateSigned
from stowplan.plugins.arguments import (
    STRING,
    Args,
    FeatureGates,
    Struct,
    aggregate,
    documented,
    invalid,
    kind,
    named_string,
)
from stowplan.plugins.objects import Node
from stowplan_scheduler_plugins.go_times import RFC3339, seconds_at
from stowplan_scheduler_plugins.scores import bounds, truncated

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SOURCES, _TYPES = ("Label", "Annotation"), ("Number", "Timestamp")
_BY_NUMBER, _BY_TIME = ("Highest", "Lowest"), ("Newest", "Oldest")
#: Marks nodes without a valid value.
INVALID = np.iinfo(np.int64).min


class NodeMetadataArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "NodeMetadataArgs",
        metadataKey=documented(STRING, "The label or annotation."),
        metadataSource=documented(named_string("v1.MetadataSourceType"), "Where it is.", choices=_SOURCES),
        metadataType=documented(named_string("v1.MetadataValueType"), "What its values are.", choices=_TYPES),
        scoringStrategy=documented(
            named_string("v1.MetadataScoringStrategyType"),
            "Which values are better: Highest or Lowest numbers, Newest or Oldest times.",
            choices=(*_BY_NUMBER, *_BY_TIME),
        ),
        timestampFormat=documented(STRING, "A layout of Go's package time, by default RFC 3339."),
    )

    metadata_key: str = ""
    metadata_source: str = ""
    metadata_type: str = ""
    scoring_strategy: str = ""
    timestamp_format: str = ""

    def completed(self, features: FeatureGates) -> "NodeMetadataArgs":
        if self.metadata_type != "Timestamp" or self.timestamp_format:
            return self
        return msgspec.structs.replace(self, timestamp_format=RFC3339)

    def validate_at_build(self) -> Iterator[str]:
        problems = list(self._problems())
        if problems:
            yield f"invalid NodeMetadataArgs: {aggregate(problems)}"

    def _problems(self) -> Iterator[str]:
        type_, strategy = self.metadata_type, self.scoring_strategy
        if not self.metadata_key:
            yield invalid("metadataKey", "", "metadataKey cannot be empty")
        if self.metadata_source not in _SOURCES:
            text = 'metadataSource must be either "Label" or "Annotation"'
            yield invalid("metadataSource", self.metadata_source, text)
        if type_ not in _TYPES:
            yield invalid("metadataType", type_, 'metadataType must be either "Number" or "Timestamp"')
        if strategy not in (*_BY_NUMBER, *_BY_TIME):
            text = 'scoringStrategy must be one of "Highest", "Lowest", "Newest", or "Oldest"'
            yield invalid("scoringStrategy", strategy, text)
        elif type_ == "Number" and strategy in _BY_TIME:
            text = 'scoringStrategy "Newest" and "Oldest" are only valid for metadataType "Timestamp"'
            yield invalid("scoringStrategy", strategy, text)
        elif type_ == "Timestamp" and strategy in _BY_NUMBER:
            text = 'scoringStrategy "Highest" and "Lowest" are only valid for metadataType "Number"'
            yield invalid("scoringStrategy", strategy, text)


class NodeMetadata(ScorePlugin, TemplateSigned, ReadsNoObjects):
    name = "NodeMetadata"
    args_type = NodeMetadataArgs
    reads = Reads.NODES

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints:
        table = nodes.table

        def column() -> Ints:
            return np.array([INVALID if node is None else self._value(node) for node in table.nodes], np.int64)

        values: Ints = table.memo((self.name, self.args), column)
        return nodes.take(values)

    def _value(self, node: Node) -> int:
        of_node = node.metadata.labels if self.args.metadata_source == "Label" else node.metadata.annotations
        text = of_node.get(self.args.metadata_key)
        if text is None:
            return INVALID
        if self.args.metadata_type == "Timestamp":
            found = seconds_at(text, self.args.timestamp_format)
        else:
            found = float(text) if _NUMBER.fullmatch(text) else None
        if found is None or abs(found) >= 2**63:
            return INVALID
        return -int(found) if self.args.scoring_strategy in ("Lowest", "Oldest") else int(found)

    def normalize(self, state: CycleState, pod: PodInfo, scores: Ints, feasible: Mask) -> Ints:
        valid: Mask = scores != INVALID
        lowest, highest = bounds(scores, feasible & valid)
        if lowest == highest:
            return valid.astype(np.int64)
        shares = truncated((scores - np.int64(lowest)) * 99, highest - lowest)
        found: Ints = np.where(valid, shares + 1, 0)
        return found
