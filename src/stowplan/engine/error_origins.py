"""Where a failure comes from in the code: told once a place, as every retry of every pod fails alike.

What the API server refuses is no failure of code. The rest is: mostly a plugin that raised, and whoever wrote it sees
only "'team'" of a KeyError without this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.api.api_errors import ApiError
from stowplan.api.decode import DecodeError
from stowplan.api.port import Unreachable

if TYPE_CHECKING:
    from stowplan.framework.status import Status

_NOT_CODE = (ApiError, Unreachable, DecodeError)


class Origins:
    def __init__(self) -> None:
        #: File and line of what was raised.
        self._told: set[tuple[str, int]] = set()

    def new(self, status: Status) -> BaseException | None:
        """What was raised at first, if it was not yet told of its place."""
        found: BaseException | None = status.error
        while found is not None and found.__cause__ is not None:
            found = found.__cause__
        if found is None or isinstance(found, _NOT_CODE):
            return None
        place = _place(found)
        if place is None or place in self._told:
            return None
        self._told.add(place)
        return found


def _place(raised: BaseException) -> tuple[str, int] | None:
    traceback = raised.__traceback__
    if traceback is None:
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
