"""Scenarios and search spaces as documents; see `stowplan.kube.config.typed_documents`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from stowplan.kube.config import typed_documents
from stowplan.kube.config.typed_documents import Document, FieldPath, Problem, ScalarTypes
from stowplan_lab.simulation.definition.amounts import Distribution, Rate, Span, Times, Usage
from stowplan_lab.simulation.scenario_errors import ScenarioError

__all__ = ["AMOUNTS", "Document", "FieldPath", "Problem", "read_document"]

AMOUNTS = ScalarTypes((Span, Rate, Distribution, Times, Usage), lists=(Distribution, Times, Usage))


def read_document(source: str | os.PathLike[str] | Mapping[str, Any], what: str) -> Document:
    """Read a file, or a mapping with the content of one; raises ScenarioError."""
    return typed_documents.read_document(source, what, ScenarioError, AMOUNTS)
