"""Markup in every field that is shown is displayed as text in every view, and never executed."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import expect

from support.browser.pages import save_page
from support.page.saved import data_of
from support.what_if.objects import node, owned, pod

MARKUP = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


@pytest.fixture
def saved(tmp_path):
    bay = node("a")
    bay["metadata"]["name"] = f"node {MARKUP}"
    bay["metadata"]["labels"] = {f"label {MARKUP}": f"value {MARKUP}", "topology.kubernetes.io/zone": f"zone {MARKUP}"}
    bay["spec"]["taints"] = [{"key": f"taint {MARKUP}", "value": MARKUP, "effect": "PreferNoSchedule"}]
    placed = owned(pod("web"), name=f"owner {MARKUP}")
    placed["metadata"] |= {"name": f"web {MARKUP}", "namespace": f"ns {MARKUP}", "labels": {"app": MARKUP}}
    placed["spec"]["nodeName"] = f"node {MARKUP}"
    waiting = pod("waits", cpu="64")
    waiting["metadata"]["name"] = f"waits {MARKUP}"
    waiting["spec"]["nodeSelector"] = {f"wanted {MARKUP}": MARKUP}
    return save_page(tmp_path, [bay, placed, waiting], title=f"title {MARKUP}").as_uri()


def views(page, saved):
    page.goto(saved)
    page.locator(".sum").wait_for()
    data = data_of(Path(unquote(urlsplit(saved).path)).read_text())
    pods, nodes = data["plan"]["pods"]["key"], data["plan"]["nodes"]["name"]
    part = "encodeURIComponent"
    yield f"{saved}#/plan"
    yield f"{saved}#/plan?as=table"
    for name in nodes:
        yield f"{saved}#/node/" + page.evaluate(f"name => {part}(name)", name)
    for key in pods:
        namespace, _, name = key.partition("/")
        parts = page.evaluate(f"parts => parts.map({part}).join('/')", [namespace, name])
        yield f"{saved}#/pod/{parts}"
        yield f"{saved}#/plan?select=" + page.evaluate(f"key => {part}('pod:' + key)", key)
    yield f"{saved}#/queue"
    yield f"{saved}#/time"
    yield f"{saved}#/configuration"


def test_markup_is_text(page, saved):
    seen = ""
    for place in views(page, saved):
        page.goto(place)
        expect(page.locator("main")).not_to_be_empty()
        page.locator(".picture, .page, .table").first.wait_for()
        assert page.locator("img, iframe, body #page script").count() == 0, place
        seen += page.locator("body").inner_text()
    for word in ("title", "node", "value", "taint", "web", "ns", "owner", "waits", "other title"):
        assert f"{word} {MARKUP}" in seen, word
