"""The page's static files.

They are built from `page/` at the top of the repository and included in the package, so nothing is loaded from
elsewhere. All of them are read once: no name from a client becomes a path. The headers forbid browsers to run or load
anything else, whatever the names of objects contain.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from stowplan.kube.api.api_errors import MethodNotAllowed, NotFound
from stowplan.net.serving.requests.messages import Page, Request, Response

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
)
INDEX, SCRIPT, STYLE, ICON = "index.html", "assets/page.js", "assets/page.css", "assets/icon.svg"
#: Starts the first requests while the browser loads the script.
FIRST = "assets/first.js"


@cache
def assets() -> dict[str, bytes]:
    """The page's files by their path below the page."""
    folder = files("stowplan.ui").joinpath("static")
    return {name: folder.joinpath(name).read_bytes() for name in (INDEX, SCRIPT, STYLE, ICON, FIRST)}


def asset_pages(prefix: str) -> dict[str, Page]:
    """The routes of the files below a prefix, which ends with a slash."""

    def page(request: Request) -> Response:
        name = request.path.removeprefix(prefix) or INDEX
        content = assets().get(name)
        if content is None:
            raise NotFound(f"{request.path}: there is no such page")
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"{request.path} can be read only")
        return Response(content, content_type=_TYPES[name.rpartition(".")[2]], headers=HEADERS)

    return {prefix: page, f"{prefix}assets/": page}
