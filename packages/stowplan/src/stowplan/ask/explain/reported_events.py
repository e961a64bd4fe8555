"""When Events happened last, and how often, whichever of the two APIs wrote them."""

from __future__ import annotations

import re

from stowplan.kube.api.types import Event

#: The fraction of a second in a time.
_FRACTION = re.compile(r"(?<=:\d\d)\.\d+(?=Z)")


def last_reported_time(event: Event) -> str:
    """When it last happened, in the API's time format."""
    series = event.series.last_observed_time if event.series is not None else None
    return series or event.event_time or event.deprecated_last_timestamp or event.metadata.creation_timestamp or ""


def times_reported(event: Event) -> int:
    return event.series.count if event.series is not None else max(1, event.deprecated_count)


def seconds_of(text: str) -> str:
    """Times as conditions have them; some sources are more precise than others."""
    return _FRACTION.sub("", text)
