"""Private parts of other packages that we use exist, and the packages are bounded in pyproject.

A package may change private parts in any release, so the release has an upper bound; when the bound is raised, these
tests show what is gone.
"""

import asyncio
import re
import sys
import tomllib

import pytest
from aiohttp import web, web_protocol
from aiohttp.streams import EMPTY_PAYLOAD
from OpenSSL import SSL, _util

from support.paths import ROOT


@pytest.mark.parametrize("distribution", ["aiohttp", "pyOpenSSL"])
def test_the_package_is_bounded_from_above(distribution):
    project = tomllib.loads((ROOT / "packages/stowplan/pyproject.toml").read_text())["project"]
    [wanted] = [text for text in project["dependencies"] if re.match(rf"{distribution}\b", text)]
    assert re.search(r"<\d", wanted), f"{wanted!r} has no upper bound"


async def test_private_parts_of_aiohttp_exist():
    connection = web.Server(lambda request: None, access_log=None)()
    assert not connection._messages
    assert connection._request_count == 0
    assert connection._waiter is None
    assert connection._current_request is None
    assert web.Server(lambda request: None, access_log=None)._kwargs == {"access_log": None}
    error = web_protocol._ErrInfo(status=431, exc=ValueError(), message="")
    assert (error.status, error.message) == (431, "")
    connection._messages.append((error, EMPTY_PAYLOAD))


def test_private_parts_of_openssl_exist():
    context = SSL.Context(SSL.TLS_METHOD)
    lib = _util.lib
    lib.ERR_clear_error()
    assert lib.SSL_CTX_set1_curves_list(context._context, b"X25519:P-256") == 1
    assert lib.SSL_CTX_set1_curves_list(context._context, b"no such curve") == 0
    lib.ERR_clear_error()
    assert isinstance(SSL.NO_OVERLAPPING_PROTOCOLS, SSL._NoOverlappingProtocols)


def test_private_parts_of_python_exist():
    assert sys._getframe().f_code.co_name == "test_private_parts_of_python_exist"
    assert sys._getframe() in sys._current_frames().values()
    assert callable(asyncio.tasks._unregister_task)
