"""The text of errors that users' plugins raised."""

import re

#: Exceptions that end a process or a task are described by their type alone.
_TYPE = re.compile(r"\b(?!CancelledError)\w+(?:Error|Exception): (?=.* \([\w.<>-]+:\d+ in [\w<>]+\))")
_PLACE = re.compile(r" \([\w.<>-]+:\d+ in [\w<>]+\)")


def in_short(text):
    """Without the exception's type and location, which test_raised.py covers."""
    return _PLACE.sub("", _TYPE.sub("", text))
