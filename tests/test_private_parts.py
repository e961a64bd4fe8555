"""Private parts of other people's packages: each use is listed, bounded in pyproject, and there.

What a package does not promise may change with any release. So the release is bounded from above, and when the bound is
raised this page says first what is gone.
"""

import ast
import asyncio
import inspect
import re
import sys
import tomllib
from pathlib import Path

import pytest
from aiohttp import web, web_protocol
from aiohttp.streams import EMPTY_PAYLOAD
from OpenSSL import SSL, _util

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"

#: Distribution -> names that are used of it without its promise.
USED = {
    "aiohttp": {
        "_ErrInfo",
        "_cleanup_server",
        "_current_request",
        "_kwargs",
        "_make_server",
        "_messages",
        "_request_count",
        "_waiter",
    },
    "pyOpenSSL": {"_NoOverlappingProtocols", "_context", "_util"},
    # Documented under these names for extensions and debuggers.
    "python": {"_current_frames", "_getframe", "_unregister_task"} | {"_processes"},  # terminate_workers() from 3.14 on
}
LISTED = frozenset().union(*USED.values())


def trees():
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCES.rglob("*.py"))}


def own_names(tree):
    """Private names that our own code defines: functions, classes, variables, attributes, slots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def used_names(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("stowplan"):
            for part in ((node.module or "").split("."), *(alias.name.split(".") for alias in node.names)):
                yield from ((name, node.lineno) for name in part)


def test_every_use_is_listed():
    sources = trees()
    ours = {name for tree in sources.values() for name in own_names(tree)}
    found = {
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path, tree in sources.items()
        for name, line in used_names(tree)
        if re.match(r"_[A-Za-z]", name) and name not in ours and name not in LISTED
    }
    assert not found, "private names of other packages: list them here, and bound the package in pyproject.toml"


@pytest.mark.parametrize("distribution", sorted(USED.keys() - {"python"}))
def test_the_package_is_bounded_from_above(distribution):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [wanted] = [text for text in project["dependencies"] if re.match(rf"{distribution}\b", text)]
    assert re.search(r"<\d", wanted), f"{wanted!r} takes any release to come"


async def test_parts_of_aiohttp_are_as_we_know_them():
    connection = web.Server(lambda request: None, access_log=None)()
    assert not connection._messages
    assert connection._request_count == 0
    assert connection._waiter is None
    assert connection._current_request is None
    assert web.Server(lambda request: None, access_log=None)._kwargs == {"access_log": None}
    assert inspect.iscoroutinefunction(web.BaseRunner._make_server)
    assert inspect.iscoroutinefunction(web.BaseRunner._cleanup_server)
    error = web_protocol._ErrInfo(status=431, exc=ValueError(), message="")
    assert (error.status, error.message) == (431, "")
    connection._messages.append((error, EMPTY_PAYLOAD))


def test_parts_of_openssl_are_as_we_know_them():
    context = SSL.Context(SSL.TLS_METHOD)
    lib = _util.lib
    lib.ERR_clear_error()
    assert lib.SSL_CTX_set1_curves_list(context._context, b"X25519:P-256") == 1
    assert lib.SSL_CTX_set1_curves_list(context._context, b"no such curve") == 0
    lib.ERR_clear_error()
    assert isinstance(SSL.NO_OVERLAPPING_PROTOCOLS, SSL._NoOverlappingProtocols)


def test_parts_of_python_are_as_we_know_them():
    assert sys._getframe().f_code.co_name == "test_parts_of_python_are_as_we_know_them"
    assert sys._getframe() in sys._current_frames().values()
    assert callable(asyncio.tasks._unregister_task)
