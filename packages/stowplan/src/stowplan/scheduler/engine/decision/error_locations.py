"""Log the stack trace of an error once per code location.

Refusals by the API server are not code errors. Other errors are mostly a plugin's: without the stack trace, its author
would only see "'team'" for a KeyError.
"""

from __future__ import annotations

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.port import Unreachable
from stowplan.scheduler.framework.status import Status

_NOT_CODE = (ApiError, Unreachable, DecodeError)


class LoggedLocations:
    def __init__(self) -> None:
        #: File and line that raised.
        self._logged: set[tuple[str, int]] = set()

    def first_error_at(self, status: Status) -> BaseException | None:
        """The exception of the status, if it is the first one from its location."""
        found: BaseException | None = status.error
        while found is not None and found.__cause__ is not None:
            found = found.__cause__
        if found is None or isinstance(found, _NOT_CODE):
            return None
        location = _location(found)
        if location is None or location in self._logged:
            return None
        self._logged.add(location)
        return found


def _location(raised: BaseException) -> tuple[str, int] | None:
    traceback = raised.__traceback__
    if traceback is None:
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
