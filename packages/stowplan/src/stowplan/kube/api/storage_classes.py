"""The default StorageClass: the class of claims that name none.

Upstream: pkg/volume/util/storageclass.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stowplan.kube.api.timestamps import parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MARKS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


class Candidate(NamedTuple):
    """What decides whether a class is the default."""

    name: str
    annotations: Mapping[str, str]
    created: str | None


def is_default_class(annotations: Mapping[str, str]) -> bool:
    return any(annotations.get(mark) == "true" for mark in _MARKS)


def default_class(classes: Iterable[Candidate]) -> str | None:
    """The name of the default class: the newest of several, ties broken by name."""
    marked = (one for one in classes if is_default_class(one.annotations))
    chosen = min(marked, key=lambda one: (-_seconds(one.created), one.name), default=None)
    return None if chosen is None else chosen.name


def _seconds(created: str | None) -> float:
    return parse_timestamp(created) if created else 0.0
