"""The page's files: complete, no others, and the browser's permissions."""

import pytest

from stowplan.kube.api.api_errors import MethodNotAllowed, NotFound
from stowplan.kube.api.users import ANONYMOUS_USER
from stowplan.net.serving.requests.messages import Request
from stowplan.ui.assets import asset_pages, assets

PREFIX = "/stowplan/"


def get(path, method="GET"):
    page = asset_pages(PREFIX)[PREFIX]
    return page(Request(method=method, path=PREFIX + path, user=ANONYMOUS_USER))


def test_the_page_and_its_files_exist():
    index = get("").body.decode()
    loaded = [part.split('"')[0] for part in index.replace('href="', 'src="').split('src="')[1:]]
    assert "assets/page.js" in loaded
    for name in loaded:
        assert get(name).status == 200


def test_no_external_files():
    index = get("").body
    assert b"//" not in index.replace(b"<!doctype", b"")
    assert b"<script>" not in index
    assert b"style=" not in index


@pytest.mark.parametrize("name", ["", "assets/page.js", "assets/page.css", "assets/first.js"])
def test_content_security_policy(name):
    headers = dict(get(name).headers)
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ["nope", "assets/", "assets/../plan.py", "assets/%2e%2e/plan.py", "/etc/passwd"])
def test_other_files_are_not_served(name):
    with pytest.raises(NotFound):
        get(name)


def test_they_are_read_only():
    with pytest.raises(MethodNotAllowed):
        get("", method="POST")


def test_the_page_is_small():
    assert sum(map(len, assets().values())) < 1 << 20
