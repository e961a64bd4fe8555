"""The files of the page: all of them, nothing but them, and what a browser may do with them."""

import pytest

from stowplan.api.api_errors import MethodNotAllowed, NotFound
from stowplan.api.users import ANONYMOUS_USER
from stowplan.page.assets import asset_pages, assets
from stowplan.serving.requests.messages import Request

PREFIX = "/stowplan/"


def get(path, method="GET"):
    page = asset_pages(PREFIX)[PREFIX]
    return page(Request(method=method, path=PREFIX + path, user=ANONYMOUS_USER))


def test_the_page_and_all_that_it_loads_is_there():
    index = get("").body.decode()
    loaded = [part.split('"')[0] for part in index.replace('href="', 'src="').split('src="')[1:]]
    assert "assets/page.js" in loaded
    for name in loaded:
        assert get(name).status == 200


def test_nothing_is_loaded_from_elsewhere():
    index = get("").body
    assert b"//" not in index.replace(b"<!doctype", b"")
    assert b"<script>" not in index
    assert b"style=" not in index


@pytest.mark.parametrize("name", ["", "assets/page.js", "assets/page.css", "data.js"])
def test_a_browser_may_load_and_run_nothing_else(name):
    headers = dict(get(name).headers)
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ["nope", "assets/", "assets/../plan.py", "assets/%2e%2e/plan.py", "/etc/passwd"])
def test_no_other_file_has_a_name(name):
    with pytest.raises(NotFound):
        get(name)


def test_they_can_be_read_only():
    with pytest.raises(MethodNotAllowed):
        get("", method="POST")


def test_the_page_is_small():
    assert sum(map(len, assets().values())) < 1 << 20
