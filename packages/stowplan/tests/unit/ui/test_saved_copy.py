"""A saved copy of the page: one file with its data, with any names of objects."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.ask.offline import Cluster
from stowplan.ui.cluster_inspection import ClusterInspection
from stowplan.ui.plan import plan_of
from stowplan.ui.saved_copy import save_copy
from stowplan.ui.source_records import ConfigurationRecord, SourceRecord
from stowplan.ui.timeline_routes import Timelines
from support.page.saved import data_of
from support.what_if.objects import node, pod

MARKUP = "</script><script>alert(1)</script>\u2028\u2029<!--"


class Elements(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.all = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.all.append((tag, dict(attrs)))


@pytest.fixture
def saved(tmp_path):
    marked = pod("web")
    marked["metadata"]["labels"] = {"app": MARKUP}
    cluster = Cluster([node("a"), marked, pod("other")])
    source = SourceRecord(mode="static", title=MARKUP, can=("plan",))
    save_copy(
        tmp_path / "deep" / "copy.html",
        plan_of(cluster.state),
        source=source,
        configuration=ConfigurationRecord(profiles=()),
        timelines=Timelines({}),
        answers=ClusterInspection(ClusterSource(cluster, {})),
    )
    return (tmp_path / "deep" / "copy.html").read_text()


def test_the_data_equals_that_of_a_server(saved):
    data = data_of(saved)
    assert data["source"]["title"] == MARKUP
    pods = data["plan"]["pods"]
    assert sorted(pods["key"]) == ["default/other", "default/web"]
    assert pods["labelSets"][pods["labels"][pods["key"].index("default/web")]] == {"app": MARKUP}
    assert data["pending"]["counts"] == {"placeable": 2}
    assert data["explain"]["default/web"]["node"] == "a"


def test_it_loads_nothing_and_runs_the_pages_script_only(saved):
    elements = Elements(saved).all
    loaded = [one.get("src") or one.get("href") for _, one in elements if "src" in one or "href" in one]
    assert [one for one in loaded if not one.startswith("data:image/")] == []
    assert [one.get("id") for tag, one in elements if tag == "script"] == ["data", None]
    (policy,) = (one["content"] for tag, one in elements if one.get("http-equiv") == "Content-Security-Policy")
    script = re.search(r"<script>(.*)</script>", saved, re.DOTALL)[1]
    assert f"script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
