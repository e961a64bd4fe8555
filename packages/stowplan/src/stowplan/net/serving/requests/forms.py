"""Content negotiation by the Accept header.

The first clause, by weight, that can be served wins. Interactive tools get indented JSON.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation, handlers/responsewriters;
github.com/munnerz/goautoneg.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import field

from stowplan.kube.api.api_errors import ApiError, NotAcceptable, Status
from stowplan.kube.api.decode import to_dict
from stowplan.kube.api.yaml_text import to_yaml
from stowplan.kube.structs import PlainStruct
from stowplan.net.serving.requests.messages import JSON, NO_SNIFF, Response

Headers = Mapping[str, str]

YAML = "application/yaml"
PLAIN_TEXT = "text/plain"

#: Maximum number of clauses that are parsed.
_MAX_CLAUSES = 100
_PEOPLE = ("curl", "Wget", "Mozilla/5.0")
_TRUE = ("1", "t", "T", "true", "TRUE", "True")


class Target(PlainStruct, frozen=True):
    """The kind of object to convert the response to."""

    group: str = ""
    version: str = ""
    kind: str = ""


class Form(PlainStruct, frozen=True):
    media_type: str = JSON
    target: Target | None = None
    pretty: bool = False

    @property
    def kind(self) -> str:
        """The kind; "" for the unconverted object."""
        return "" if self.target is None else self.target.kind

    @property
    def version(self) -> str:
        """Of that kind."""
        return "" if self.target is None else self.target.version

    @property
    def content_type(self) -> str:
        if self.target is None:
            return self.media_type
        return f"{self.media_type};g={self.target.group};v={self.target.version};as={self.target.kind}"

    def encoded(self, obj: Any) -> bytes:
        if self.media_type == YAML:
            return as_yaml(obj)
        body = as_json(obj)
        # Parity: only the compact form ends with a newline.
        return msgspec.json.format(body, indent=2) if self.pretty else body + b"\n"


def as_json(obj: Any) -> bytes:
    """As encoded by Go, with HTML characters escaped."""
    body = msgspec.json.encode(obj)
    return body.replace(b"&", rb"\u0026").replace(b"<", rb"\u003c").replace(b">", rb"\u003e")


class Clause(PlainStruct, frozen=True):
    """A clause of an Accept header."""

    type: str
    subtype: str
    quality: float = 1.0
    parameters: dict[str, str] = field(default_factory=dict)

    @property
    def rank(self) -> tuple[float, bool, bool]:
        return (-self.quality, self.type == "*", self.subtype == "*")

    @property
    def target(self) -> Target | None:
        asked = self.parameters
        if not asked.keys() & {"as", "g", "v"}:
            return None
        return Target(group=asked.get("g", ""), version=asked.get("v", ""), kind=asked.get("as", ""))

    def covers(self, media_type: str) -> bool:
        main, _, sub = media_type.partition("/")
        return (self.type, self.subtype) in ((main, sub), (main, "*"), ("*", "*"))


def negotiate(accept: str, media_types: Collection[str], *, allows: Callable[[str, Clause], bool]) -> Form:
    """NotAcceptable unless `allows` accepts a media type, with the parameters of its clause."""
    for clause in clauses(accept):
        for media_type in media_types:
            if clause.covers(media_type) and allows(media_type, clause):
                pretty = clause.parameters.get("pretty") == "1"
                return Form(media_type, clause.target, pretty=pretty)
    raise NotAcceptable(f"only the following media types are accepted: {', '.join(media_types)}")


def clauses(header: str) -> list[Clause]:
    """The clauses, best first."""
    return sorted(_clauses(header), key=lambda clause: clause.rank)


def _clauses(header: str) -> Iterator[Clause]:
    for part in header.split(",")[:_MAX_CLAUSES]:
        media_type, *rest = part.split(";")
        main, slash, sub = media_type.strip().partition("/")
        if not slash and main == "*":
            sub = "*"
        if not sub or "/" in sub:
            continue
        pairs = (pair.split("=") for pair in rest)
        parameters = {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2 and pair[1]}
        yield Clause(main, sub, _quality(parameters.pop("q", "1")), parameters)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def wants_pretty(asked: str, user_agent: str) -> bool:
    """Whether a person reads the response: because of `?pretty=`, or of the client's user agent."""
    return asked in _TRUE if asked else user_agent.startswith(_PEOPLE)


def status_object(status: Status) -> dict[str, Any]:
    fields = to_dict(status)
    kind = {"kind": fields.pop("kind"), "apiVersion": fields.pop("apiVersion")}
    return {**kind, "metadata": {}, "status": status.status, **fields}


def error_response(error: ApiError, headers: Headers, query: Mapping[str, list[str]]) -> Response:
    """The error as a Status object, even for clients that request something else."""
    pretty = wants_pretty(query.get("pretty", [""])[0], headers.get("User-Agent", ""))
    form = Form(pretty=pretty)
    if accept := headers.get("Accept"):
        try:
            form = negotiate(accept, (JSON, YAML), allows=lambda media_type, clause: clause.target is None)
        except NotAcceptable:
            form = Form(pretty=True)
    if pretty and not form.pretty:
        form = Form(form.media_type, pretty=True)
    status = error.status
    return Response(form.encoded(status_object(status)), status.code, form.content_type, error_headers(error))


def error_headers(error: ApiError) -> tuple[tuple[str, str], ...]:
    # The text of a 403 contains names from the request.
    headers = NO_SNIFF if error.status.code == 403 else ()
    if error.retry_after_seconds > 0:
        headers = (*headers, ("Retry-After", str(error.retry_after_seconds)))
    return headers


def as_yaml(obj: Any) -> bytes:
    return to_yaml(obj, sort_keys=True).encode()
