"""The routes of timelines: the history of a recording or a simulation, optionally with a second one.

    /stowplan/time?track=NAME     its times, figures and marks
    /stowplan/frames?track=NAME   its initial plan, and the changes of each frame

A timeline is computed on first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from stowplan.api.api_errors import BadRequest
from stowplan.engine.input_log.recording import RecordingError
from stowplan.inspection.records import document, encoded
from stowplan.page.asking import track_of
from stowplan.serving.requests.messages import JSON, Response
from stowplan.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from stowplan.inspection.records import Record
    from stowplan.page.timeline import Timeline
    from stowplan.serving.requests.messages import Page, Request


class Timelines(PlainStruct):
    """Timelines by the names of their tracks, each with the function that computes it."""

    made_by: Mapping[str, Callable[[], Timeline]]
    _known: dict[str, Timeline] = field(default_factory=dict)

    @property
    def tracks(self) -> tuple[str, ...]:
        return tuple(self.made_by)

    def pages(self, prefix: str) -> dict[str, Page]:
        def time(request: Request) -> Response:
            track = track_of(request, self.tracks)
            return _json(self.timeline(track).time_record(track))

        def frames(request: Request) -> Response:
            track = track_of(request, self.tracks)
            return _json(self.timeline(track).frames_record(track))

        return {f"{prefix}time": time, f"{prefix}frames": frames}

    def timeline(self, track: str) -> Timeline:
        """Raises BadRequest if its recording cannot be played."""
        if track not in self._known:
            try:
                self._known[track] = self.made_by[track]()
            except RecordingError as error:
                raise BadRequest(str(error)) from error
        return self._known[track]

    def documents(self) -> dict[str, Any]:
        """All of them, for a saved copy."""
        found = {track: self.timeline(track) for track in self.tracks}
        return {
            "time": {track: document(timeline.time_record(track)) for track, timeline in found.items()},
            "frames": {track: document(timeline.frames_record(track)) for track, timeline in found.items()},
        }


def _json(record: Record) -> Response:
    return Response(encoded(record), content_type=JSON)
