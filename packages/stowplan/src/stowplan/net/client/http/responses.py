"""HTTP responses, and the typed error of an unsuccessful one.

An API server reports errors as a Status. Intermediaries (load balancers, proxies, login pages) respond with HTML or
plain text; then the error is derived from the HTTP code, with upstream's message, and quotes the body, so that users
can recognize its origin.

Upstream: staging/src/k8s.io/apimachinery/pkg/api/errors (NewGenericServerResponse), client-go/rest/request.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import msgspec

from stowplan.kube.api.api_errors import ApiError, Status, StatusCause, StatusDetails, error_of
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.resources import ApiResource
from stowplan.kube.structs import PlainStruct

_QUOTED = 200
_LONGEST_RETRY_AFTER = 86400.0

#: Upstream's interpretation of an HTTP code without a Status.
_GENERIC = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", "the server refused the request"),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    406: ("NotAcceptable", "the server was unable to respond with a content type that the client supports"),
    409: ("Conflict", "the server reported a conflict"),
    410: ("Expired", "the server no longer keeps what was asked for"),
    413: ("RequestEntityTooLarge", "the server found the request too large"),
    415: ("UnsupportedMediaType", "the server does not understand the content type of the request"),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: (
        "Timeout",
        "the server was unable to return a response in the time allotted, but may still be processing the request",
    ),
}

_status_decoder = msgspec.json.Decoder(Status)


class Subject(PlainStruct, frozen=True):
    """The subject of a request, for messages."""

    method: str
    resource: ApiResource | None = None
    name: str = ""

    def __str__(self) -> str:
        if self.resource is None:
            return self.method.lower()
        return " ".join(part for part in (self.method.lower(), str(self.resource), self.name) if part)


class Answer(PlainStruct, frozen=True):
    code: int
    #: With lower-case names, or case-insensitive.
    headers: Mapping[str, str]
    body: bytes
    #: How often the request was sent until this response.
    tries: int = 1

    @property
    def ok(self) -> bool:
        return 200 <= self.code < 300

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_json(self) -> bool:
        """Whether the content type is JSON or missing."""
        return self.content_type in ("", "application/json") or self.content_type.endswith("+json")

    def not_json(self) -> str:
        return f"no Kubernetes API answered but something with {self.media}: {self.quoted()}"

    @property
    def media(self) -> str:
        return f"content type {self.content_type}" if self.content_type else "no content type"

    def quoted(self) -> str:
        """The start of the body, for messages."""
        text = re.sub(r"\s+", " ", self.body[: 4 * _QUOTED].decode("utf-8", "replace")).strip()
        return go_quote(text[:_QUOTED])


def api_error(answer: Answer, subject: Subject, *, now: float) -> ApiError:
    """The error of an unsuccessful response; `now` in seconds since the epoch."""
    retry_after = retry_after_seconds(answer.headers, now=now) or 0
    status = _status_of(answer.body)
    if status is None:
        return error_of(_generic_status(answer, subject, int(retry_after)), http_code=answer.code)
    details = status.details or StatusDetails()
    if retry_after and not details.retry_after_seconds:
        status = msgspec.structs.replace(status, details=_retried(details, int(retry_after)))
    return error_of(status, http_code=answer.code)


def _retried(details: StatusDetails, seconds: int) -> StatusDetails:
    return msgspec.structs.replace(details, retry_after_seconds=seconds)


def _status_of(body: bytes) -> Status | None:
    try:
        status = _status_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    # With defaults any JSON object decodes as a Status; a real one has its kind, and a reason or message.
    return status if b'"Status"' in body and (status.reason or status.message) else None


def _generic_status(answer: Answer, subject: Subject, retry_after: int) -> Status:
    reason, message = _GENERIC.get(answer.code, ("", ""))
    if answer.code == 409 and subject.method == "POST":
        reason = "AlreadyExists"
    if not message:
        reason, message = _unlisted(answer)
    message = f"{message} ({subject})"
    if answer.body.strip():
        message = f"{message}: {answer.not_json()}"
    cause = StatusCause(reason="UnexpectedServerResponse", message=answer.quoted())
    resource = subject.resource
    details = StatusDetails(
        name=subject.name,
        group=resource.group if resource else "",
        kind=resource.plural if resource else "",
        causes=(cause,),
        retry_after_seconds=retry_after,
    )
    return Status(message=message, reason=reason, code=answer.code, details=details)


def _unlisted(answer: Answer) -> tuple[str, str]:
    if 300 <= answer.code < 400:
        target = answer.headers.get("location", "").partition("?")[0]
        where = f"to {target} " if target else ""
        return "", (
            f"the server redirects {where}(HTTP {answer.code}), which is not followed as credentials would go along; "
            "name the server's own address"
        )
    if answer.code >= 500:
        return "InternalError", f"an error on the server (HTTP {answer.code}) has prevented the request from succeeding"
    return "", f"the server responded with the status code {answer.code} but did not return more information"


def retry_after_seconds(headers: Mapping[str, str], *, now: float) -> float | None:
    """The value of Retry-After, a number of seconds or a date; None if it is missing or invalid."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(min(int(text[:10]), _LONGEST_RETRY_AFTER))
    try:
        return min(max(0.0, parsedate_to_datetime(text).timestamp() - now), _LONGEST_RETRY_AFTER)
    except (ValueError, OverflowError):
        return None
