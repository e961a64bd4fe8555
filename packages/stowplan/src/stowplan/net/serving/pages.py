"""Pages of the secure port: /flagz, /statusz, /configz, /debug/flags/v and /metrics.

The first two are text for people, with a random separator so that it is not parsed; config.k8s.io objects on request.

Upstream: staging/src/k8s.io/apiserver/pkg/server/{flagz,statusz}.
"""

from __future__ import annotations

import asyncio
import datetime
import gzip
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import Times
from stowplan.net.serving.requests.forms import PLAIN_TEXT, YAML, Form, Target, as_json, negotiate, wants_pretty
from stowplan.net.serving.requests.messages import JSON, NO_SNIFF, Page, Request, Response, text

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy


_COMPONENT = "kube-scheduler"
_GROUP = "config.k8s.io"
_VERSIONS = ("v1alpha1", "v1beta1")
_DEPRECATED = "v1alpha1"
_SEPARATORS = (":", ": ", "=", " ")
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees "
    "and is for debugging purposes only."
)
_MEDIA_TYPES = (JSON, YAML, PLAIN_TEXT)


class ProcessStatus(PlainStruct, frozen=True, kw_only=True):
    """The content of /statusz."""

    #: Seconds since the epoch.
    start_time: float
    #: The Python version; the field is named goVersion, like upstream's.
    runtime_version: str
    binary_version: str
    emulation_version: str
    #: The listed paths; only their first parts are shown.
    paths: Sequence[str]


def flagz_page(flags: Callable[[], Mapping[str, str]], *, chance: Callable[[], float]) -> Page:
    """`flags` returns every flag with its value."""
    # Parity: one separator per process here, one per request in /statusz.
    separator = _separator(chance)

    def page(request: Request) -> Response:
        shown = dict(sorted(flags().items()))
        form = _form(request, "Flagz")
        if form.media_type == PLAIN_TEXT:
            lines = (f"{name}{separator}{value}" for name, value in shown.items())
            return text("\n".join(("", f"{_COMPONENT} flagz", _WARNING, *lines, "")))
        return _structured(form, request, {"flags": shown})

    return page


def statusz_page(status: ProcessStatus, *, times: Times) -> Page:
    paths = _folders(status.paths)

    def page(request: Request) -> Response:
        uptime = max(0, int(times.wall_clock() - status.start_time))
        form = _form(request, "Statusz")
        if form.media_type == PLAIN_TEXT:
            return text(_status_text(status, paths, uptime, _separator(times.random)))
        fields = {
            "startTime": f"{_date(status.start_time):%Y-%m-%dT%H:%M:%SZ}",
            "uptimeSeconds": uptime,
            "goVersion": status.runtime_version,
            "binaryVersion": status.binary_version,
            "emulationVersion": status.emulation_version,
            "paths": paths,
        }
        return _structured(form, request, fields)

    return page


def _status_text(status: ProcessStatus, paths: Iterable[str], uptime: int, separator: str) -> str:
    date = _date(status.start_time)
    values = {
        "Started": f"{date:%a %b} {date.day:2} {date:%H:%M:%S UTC %Y}",
        "Up": f"{uptime // 3600} hr {uptime // 60 % 60:02} min {uptime % 60:02} sec",
        "Go version": status.runtime_version,
        "Binary version": status.binary_version,
        "Emulation version": status.emulation_version,
        "Paths": " ".join(paths),
    }
    lines = (f"{name}{separator} {value}" for name, value in values.items())
    return "\n".join(("", f"{_COMPONENT} statusz", _WARNING, "", *lines, ""))


def _date(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)


def _separator(chance: Callable[[], float]) -> str:
    return _SEPARATORS[int(chance() * len(_SEPARATORS))]


def _folders(paths: Iterable[str]) -> list[str]:
    firsts = {"/" + path.split("/")[1] for path in paths}
    return sorted(firsts - {"/"})


def _form(request: Request, kind: str) -> Form:
    """NotAcceptable, unless text, or a version of this kind, is requested."""
    accept = request.headers.get("Accept", "")
    if not accept.strip():
        return Form(PLAIN_TEXT)
    return negotiate(accept, _MEDIA_TYPES, allows=lambda media_type, clause: _allows(media_type, clause.target, kind))


def _allows(media_type: str, target: Target | None, kind: str) -> bool:
    if media_type == PLAIN_TEXT or target is None:
        return media_type == PLAIN_TEXT and target is None
    return (target.group, target.kind) == (_GROUP, kind) and target.version in _VERSIONS


def _structured(form: Form, request: Request, fields: dict[str, Any]) -> Response:
    target = form.target
    assert target is not None
    pretty = wants_pretty(request.first("pretty"), request.headers.get("User-Agent", ""))
    kind = {"kind": target.kind, "apiVersion": f"{target.group}/{target.version}"}
    body = replace(form, pretty=form.pretty or pretty).encoded({**kind, "metadata": {"name": _COMPONENT}, **fields})
    warning = f'299 - "This version of the {target.kind.lower()} endpoint is deprecated. Please use a newer version."'
    headers = (("Warning", warning),) if target.version == _DEPRECATED else ()
    return Response(body, content_type=form.content_type, headers=headers)


# /configz: the configuration in effect.
#
# Upstream: staging/src/k8s.io/component-base/configz.


def configz_page(configuration: Callable[[], dict[str, Any]]) -> Page:
    """`configuration` returns a KubeSchedulerConfiguration with kind and apiVersion."""

    def page(request: Request) -> Response:
        return Response(as_json({"componentconfig": configuration()}), content_type=JSON, headers=NO_SNIFF)

    return page


# /debug/flags/v: change log verbosity at run time.
#
# Upstream: staging/src/k8s.io/apiserver/pkg/server/routes/flags.go, component-base/logs (GlogSetter).

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


# /metrics, /metrics/slis and /metrics/resources, with content negotiation.
#
# Upstream: staging/src/k8s.io/component-base/metrics (HandlerWithReset, HandlerFor); prometheus/promhttp.

#: Accept header -> content type and body.
Render = Callable[[str], tuple[str, bytes] | Awaitable[tuple[str, bytes]]]

_LEVEL = 1


def metrics_page(
    render: Render,
    *,
    reset: Callable[[], None] | None = None,
    shown: Callable[[], bool] = lambda: True,
    process_start: float | None = None,
) -> Page:
    """`reset` is called for DELETE; the page is empty unless it is `shown`."""
    headers = () if process_start is None else (("Process-Start-Time-Unix", str(int(process_start))),)

    async def page(request: Request) -> Response:
        if request.method == "DELETE" and reset is not None:
            reset()
            return text("metrics reset\n")
        if not shown():
            return text("")
        rendered = render(request.headers.get("Accept", ""))
        content_type, body = await rendered if isawaitable(rendered) else rendered
        if not _takes_gzip(request.headers):
            return Response(body, content_type=content_type, headers=headers)
        packed = await asyncio.to_thread(gzip.compress, body, _LEVEL)
        return Response(packed, content_type=content_type, headers=(*headers, ("Content-Encoding", "gzip")))

    return page


def _takes_gzip(headers: CIMultiDictProxy[str]) -> bool:
    codings = (coding.partition(";") for coding in headers.get("Accept-Encoding", "").split(","))
    return any(name.strip() == "gzip" and weight.strip() not in ("q=0", "q=0.0") for name, _, weight in codings)
