"""/debug/flags/v: change log verbosity at run time.

Upstream: staging/src/k8s.io/apiserver/pkg/server/routes/flags.go, component-base/logs (GlogSetter).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.field_errors import go_quote
from stowplan.net.serving.requests.messages import NO_SNIFF, Page, Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable

_INDEX = b"""<html>
<head><title>/debug/flags/</title></head>
<body>
Flags that can be changed with PUT:
<ul><li><a href="/debug/flags/v">v</a></li></ul>
</body>
</html>
"""
_LARGEST = 2**32 - 1
_LARGEST_LEVEL = 2**31 - 1


def debug_flags_pages(set_verbosity: Callable[[int], None]) -> dict[str, Page]:
    """The pages by path."""

    def verbosity(request: Request) -> Response:
        if request.method != "PUT":
            return _response("unsupported http method", 406)
        given = request.body.decode(errors="replace")
        try:
            level = _level(given)
        except ValueError as error:
            return _response(str(error), 400)
        set_verbosity(level)
        return _response(f"successfully set klog.logging.verbosity to {given}", 200)

    return {"/debug/flags": _index, "/debug/flags/": _index, "/debug/flags/v": verbosity}


def _index(request: Request) -> Response:
    return Response(_INDEX, content_type="text/html; charset=utf-8")


def _level(given: str) -> int:
    """ValueError with Go's text."""
    if not (given.isascii() and given.isdigit()):
        raise ValueError(f"strconv.ParseUint: parsing {go_quote(given)}: invalid syntax")
    level = int(given) if len(given) < 20 else _LARGEST + 1
    if level > _LARGEST:
        raise ValueError(f"strconv.ParseUint: parsing {go_quote(given)}: value out of range")
    if level > _LARGEST_LEVEL:
        reason = f"strconv.ParseInt: parsing {go_quote(given)}: value out of range"
        raise ValueError(f"failed set klog.logging.verbosity {given}: {reason}")
    return level


def _response(message: str, status: int) -> Response:
    return Response(f"{message}\n".encode(), status, "text/plain", NO_SNIFF)
