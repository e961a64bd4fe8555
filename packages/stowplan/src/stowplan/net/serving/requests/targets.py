"""Parse a request target into path and query parameters.

Callers reject malformed ones: the secure port and an API server have different messages.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

Query = dict[str, list[str]]

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def bad_escape(raw: str) -> str:
    """The first malformed escape (`%zz`, `%`); "" if there is none."""
    found = _BAD_ESCAPE.search(raw)
    return "" if found is None else raw[found.start() : found.start() + 3]


def parse_query(text: str, *, limit: int, errors: str) -> Query:
    """All values by parameter; ValueError for more than `limit`, UnicodeDecodeError if `errors` is "strict"."""
    query: Query = {}
    for name, value in parse_qsl(text, keep_blank_values=True, errors=errors, max_num_fields=limit):
        query.setdefault(name, []).append(value)
    return query
