"""Private parts of other packages: each use is listed here, exists, and is bounded in pyproject.

A package may change private parts in any release, so the release has an upper bound; when the bound is raised, these
tests show what is gone.
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

#: Distribution -> private names that are used.
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


def names_in(source):
    """(private names that this code defines: functions, classes, variables, attributes, slots; names that it uses)."""
    own, used = set(), set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name, ctx=context):
                used.add((name, node.lineno))
                if isinstance(context, ast.Store):
                    own.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Constant(value=str() as name):
                own.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                own.add(name)
            case ast.ImportFrom(module=module) if not (module or "").startswith("stowplan"):
                imported = [module or "", *(alias.name for alias in node.names)]
                used.update((name, node.lineno) for dotted in imported for name in dotted.split("."))
    private = re.compile(r"_[A-Za-z]").match
    return {name for name in own if private(name)}, {(name, line) for name, line in used if private(name)}


@pytest.mark.slow
def test_every_use_is_listed():
    # Trees are not kept: a million nodes would slow the garbage collector down.
    found = {path.relative_to(ROOT): names_in(path.read_text()) for path in sorted(SOURCES.rglob("*.py"))}
    known = LISTED.union(*(own for own, _ in found.values()))
    strange = {
        f"{path}:{line}: {name}" for path, (_, used) in found.items() for name, line in used if name not in known
    }
    assert not strange, "private names of other packages: list them here, and bound the package in pyproject.toml"


@pytest.mark.parametrize(
    ("source", "own", "used"),
    [
        ("import a\na._b()", set(), {("_b", 2)}),
        ("self._b = 1\nself._b", {"_b"}, {("_b", 1), ("_b", 2)}),
        ("def _b(): pass", {"_b"}, set()),
        ("_b = 1", {"_b"}, set()),
        ("__slots__ = ('_b',)", {"_b"}, set()),
        ("from a._b import _c", set(), {("_b", 1), ("_c", 1)}),
        ("from stowplan.a._b import _c", set(), set()),
        ("a.__dict__", set(), set()),
    ],
)
def test_private_names_are_found(source, own, used):
    assert names_in(source) == (own, used)


@pytest.mark.parametrize("distribution", sorted(USED.keys() - {"python"}))
def test_the_package_is_bounded_from_above(distribution):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [wanted] = [text for text in project["dependencies"] if re.match(rf"{distribution}\b", text)]
    assert re.search(r"<\d", wanted), f"{wanted!r} has no upper bound"


async def test_private_parts_of_aiohttp_exist():
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
