"""Shared parameters of requests below /stowplan/: the subject, and limits."""

from __future__ import annotations

from math import isfinite, nan
from typing import TYPE_CHECKING

from stowplan.api.api_errors import BadRequest, NotFound
from stowplan.api.whole_numbers import whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.serving.requests.messages import Request

#: Default and maximum number of entries of a list.
FEW, MOST = 100, 1000


def key_of(request: Request, route: str) -> str:
    """The namespace and name after a route, which ends with a slash; raises BadRequest."""
    key = request.path.removeprefix(route)
    namespace, _, name = key.partition("/")
    if not namespace or not name or "/" in name:
        raise BadRequest(f"{route}<namespace>/<pod>: which pod? got {key!r}")
    return key


def track_of(request: Request, tracks: Sequence[str]) -> str:
    """The requested track, by default the first; raises NotFound."""
    track = request.first("track", tracks[0])
    if track not in tracks:
        raise NotFound(f"track {track!r} not found; there is {', '.join(map(repr, tracks))}")
    return track


def time_of(request: Request) -> float | None:
    """The requested moment in seconds since the epoch, None for the end; raises BadRequest."""
    text = request.first("at")
    try:
        found = float(text) if text else None
    except ValueError:
        found = nan
    if found is not None and not isfinite(found):
        raise BadRequest(f"at: want seconds since the epoch, got {text!r}")
    return found


def limit_of(request: Request) -> int:
    """The requested number of entries; raises BadRequest."""
    text = request.first("limit", str(FEW))
    limit = whole_number(text)
    if limit is None:
        raise BadRequest(f"limit: want a number up to {MOST}, got {text!r}")
    return min(limit, MOST)
