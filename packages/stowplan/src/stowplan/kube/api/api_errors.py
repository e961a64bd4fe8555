"""API server errors (metav1.Status) as typed exceptions.

The embedded API raises them, its HTTP front encodes them, and the client decodes them; so callers of any API catch the
same classes. `reason` determines the class; if it is missing, the HTTP code does.

Upstream: k8s.io/apimachinery/pkg/api/errors.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from stowplan.kube.api.field_errors import aggregate, go_quote
from stowplan.kube.api.meta import ApiStruct, Int32, ListMeta
from stowplan.kube.structs import PlainStruct

# metav1.Status, the API server's report of a failed request.


class StatusCause(ApiStruct, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: Int32 = 0


class Status(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Status"
    metadata: ListMeta = ListMeta()
    status: str = "Failure"
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: Int32 = 0


REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
DUPLICATE = "FieldValueDuplicate"
NOT_SUPPORTED = "FieldValueNotSupported"
FORBIDDEN = "FieldValueForbidden"
INTERNAL = "InternalError"
NOT_FOUND = "FieldValueNotFound"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"
TYPE_INVALID = "FieldValueTypeInvalid"


class FieldError(PlainStruct, frozen=True):
    """A problem with one field: a cause of `Invalid`."""

    reason: str
    field: str
    #: Without the path: `Required value: name or generateName is required`.
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class ApiError(Exception):
    """A request that an API server refused; `status` has the details."""

    reason: ClassVar[str] = ""
    code: ClassVar[int] = 500

    def __init__(self, message: str, *, details: StatusDetails | None = None, code: int | None = None) -> None:
        super().__init__(message)
        self.status = Status(message=message, reason=self.reason, code=code or self.code, details=details)

    @property
    def retry_after_seconds(self) -> int:
        details = self.status.details
        return details.retry_after_seconds if details is not None else 0


class BadRequest(ApiError):
    reason, code = "BadRequest", 400


class Unauthorized(ApiError):
    reason, code = "Unauthorized", 401


class Forbidden(ApiError):
    reason, code = "Forbidden", 403


class NotFound(ApiError):
    reason, code = "NotFound", 404


class MethodNotAllowed(ApiError):
    reason, code = "MethodNotAllowed", 405


class NotAcceptable(ApiError):
    reason, code = "NotAcceptable", 406


class Conflict(ApiError):
    reason, code = "Conflict", 409


class AlreadyExists(ApiError):
    reason, code = "AlreadyExists", 409


class Gone(ApiError):
    reason, code = "Gone", 410


class Expired(ApiError):
    """The requested resourceVersion or continue token is no longer available."""

    reason, code = "Expired", 410


class RequestEntityTooLarge(ApiError):
    reason, code = "RequestEntityTooLarge", 413


class UnsupportedMediaType(ApiError):
    reason, code = "UnsupportedMediaType", 415


class Invalid(ApiError):
    reason, code = "Invalid", 422


class TooManyRequests(ApiError):
    reason, code = "TooManyRequests", 429


class InternalError(ApiError):
    reason, code = "InternalError", 500


class ServerTimeout(ApiError):
    reason, code = "ServerTimeout", 500


class ServiceUnavailable(ApiError):
    reason, code = "ServiceUnavailable", 503


class Timeout(ApiError):
    reason, code = "Timeout", 504


_CLASSES: tuple[type[ApiError], ...] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    Conflict,
    AlreadyExists,
    Gone,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    ServerTimeout,
    ServiceUnavailable,
    Timeout,
)
_BY_REASON = {cls.reason: cls for cls in _CLASSES}
#: The first class of a code is used for responses without a reason.
_BY_CODE = {cls.code: cls for cls in reversed(_CLASSES)}


def error_of(status: Status, *, http_code: int = 0) -> ApiError:
    """The exception for a received Status."""
    code = status.code or http_code or 500
    error = (_BY_REASON.get(status.reason) or _BY_CODE.get(code) or ApiError)(status.message, code=code)
    error.status = status
    return error


def qualified(resource: str, group: str) -> str:
    """A resource as in messages: `pods`, `deployments.apps`."""
    return f"{resource}.{group}" if group else resource


def _details(resource: str, group: str, name: str, *, causes: Sequence[StatusCause] = ()) -> StatusDetails:
    return StatusDetails(name=name, group=group, kind=resource, causes=tuple(causes))


def not_found(resource: str, group: str, name: str) -> NotFound:
    return NotFound(f"{qualified(resource, group)} {go_quote(name)} not found", details=_details(resource, group, name))


def already_exists(resource: str, group: str, name: str) -> AlreadyExists:
    message = f"{qualified(resource, group)} {go_quote(name)} already exists"
    return AlreadyExists(message, details=_details(resource, group, name))


def conflict(resource: str, group: str, name: str, why: str) -> Conflict:
    message = f"Operation cannot be fulfilled on {qualified(resource, group)} {go_quote(name)}: {why}"
    return Conflict(message, details=_details(resource, group, name))


def forbidden(resource: str, group: str, name: str, why: str) -> Forbidden:
    subject = f"{qualified(resource, group)} {go_quote(name)}" if name else qualified(resource, group)
    return Forbidden(f"{subject} is forbidden: {why}", details=_details(resource, group, name))


def invalid(kind: str, group: str, name: str, errors: Iterable[FieldError]) -> Invalid:
    """All problems of an object; unlike in other errors, the details name the kind."""
    listed = list(errors)
    causes = [StatusCause(reason=error.reason, message=error.message, field=error.field) for error in listed]
    message = f"{qualified(kind, group)} {go_quote(name)} is invalid: {aggregate(str(error) for error in listed)}"
    return Invalid(message, details=_details(kind, group, name, causes=causes))
