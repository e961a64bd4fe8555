"""Requests of urllib that are expected to fail. Its errors are responses, too, and have to be closed."""

import urllib.error
from contextlib import closing, contextmanager

import pytest


class Refusal:
    body = b""


@contextmanager
def http_error(code):
    """The block must be answered with this status; the refusal has its body afterwards."""
    refusal = Refusal()
    with pytest.raises(urllib.error.HTTPError, match=str(code)) as caught:
        yield refusal
    with closing(caught.value):
        refusal.body = caught.value.read()
