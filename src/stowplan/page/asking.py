"""What requests of the routes below /stowplan/ have in common: whom they are about, and how much is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.api.api_errors import BadRequest

if TYPE_CHECKING:
    from stowplan.serving.requests.messages import Request

#: Entries of a list, unless told otherwise, and at most.
FEW, MOST = 100, 1000


def key_of(request: Request, route: str) -> str:
    """The namespace and name after a route, which ends with a slash; raise BadRequest."""
    key = request.path.removeprefix(route)
    namespace, _, name = key.partition("/")
    if not namespace or not name or "/" in name:
        raise BadRequest(f"{route}<namespace>/<pod>: which pod? got {key!r}")
    return key


def limit_of(request: Request) -> int:
    """How many entries are wanted; raise BadRequest."""
    text = request.first("limit", str(FEW))
    if not text.isascii() or not text.isdigit():
        raise BadRequest(f"limit: want a number up to {MOST}, got {text!r}")
    return min(int(text), MOST)
