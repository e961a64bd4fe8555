"""What plugins read that is measured: where it comes from, and as which object it is kept.

Plugins do no I/O. A plugin names its sources; a driver asks each of them from time to time, and what one answered last
is an object in the cluster, like any other: results are reused until it changes, and recordings have it. A source that
was never reached has no object. One that fails keeps its last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from stowplan.kube.api.custom_objects import CustomObject
from stowplan.kube.api.decode import convert
from stowplan.kube.api.meta import ApiStruct

T = TypeVar("T", bound=ApiStruct)


class SourceError(Exception):
    """A source does not answer, or not what it should; says why."""


class MeasuringClient(Protocol):
    """How a source gets its answer."""

    def wall_clock(self) -> float:
        """Seconds since the epoch."""
        ...

    async def get_json(
        self,
        url: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        insecure: bool = False,
    ) -> Any:
        """The JSON value of a 200; raises SourceError. `insecure`: certificates are not verified."""

    async def list(self, kind: type[T]) -> Sequence[T]:
        """The objects of the API server, such as metrics.k8s.io's."""
        ...


class Source(msgspec.Struct, frozen=True):
    """Equal sources are asked once, whichever plugins of whichever profiles name them."""

    @property
    def kind(self) -> type[CustomObject]:
        """The kind of the object, which nobody else must have."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The object's name; in log lines, too."""
        raise NotImplementedError

    @property
    def interval(self) -> float:
        """Seconds from one question to the next."""
        return 30.0

    @property
    def timeout(self) -> float:
        """Seconds for an answer."""
        return 55.0

    @property
    def lists(self) -> Sequence[type[ApiStruct]]:
        """The kinds that it lists of the API server: `--rbac` adds them to the printed role."""
        return ()

    async def measure(self, client: MeasuringClient) -> Mapping[str, Any]:
        """The object's content, without metadata; whatever it raises is logged once."""
        raise NotImplementedError


async def answer_of(source: Source, client: MeasuringClient) -> CustomObject:
    """Its answer as the object that plugins read; raises what `measure` raises."""
    content = await source.measure(client)
    return convert({**content, "metadata": {"name": source.name}}, source.kind)
