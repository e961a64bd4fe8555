"""What is said of users' plugins that raise."""

import re

#: What ends a process, or a task, keeps its type: that is all there is to say of it.
_TYPE = re.compile(r"\b(?!CancelledError)\w+(?:Error|Exception): (?=.* \([\w.<>-]+:\d+ in [\w<>]+\))")
_PLACE = re.compile(r" \([\w.<>-]+:\d+ in [\w<>]+\)")


def in_short(text):
    """Without the type and the place of what was raised, which tests/framework/test_raised.py looks at."""
    return _PLACE.sub("", _TYPE.sub("", text))
