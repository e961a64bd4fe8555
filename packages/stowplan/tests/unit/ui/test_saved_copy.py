"""A saved copy of the page: its data is a script, with any names of objects."""

import json

import pytest

from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.ask.offline import Cluster
from stowplan.ui.cluster_inspection import ClusterInspection
from stowplan.ui.plan import plan_of
from stowplan.ui.saved_copy import save_copy
from stowplan.ui.source_records import ConfigurationRecord, SourceRecord
from stowplan.ui.timeline_routes import Timelines
from support.what_if.objects import node, pod

MARKUP = "</script><script>alert(1)</script>\u2028\u2029<!--"


@pytest.fixture
def saved(tmp_path):
    marked = pod("web")
    marked["metadata"]["labels"] = {"app": MARKUP}
    cluster = Cluster([node("a"), marked, pod("other")])
    source = SourceRecord(mode="static", title=MARKUP, can=("plan",))
    save_copy(
        tmp_path / "deep" / "copy",
        plan_of(cluster.state),
        source=source,
        configuration=ConfigurationRecord(profiles=()),
        timelines=Timelines({}),
        answers=ClusterInspection(ClusterSource(cluster, {})),
    )
    return tmp_path / "deep" / "copy"


def test_the_page_is_saved_too(saved):
    assert (saved / "index.html").read_bytes().startswith(b"<!doctype html>")
    assert (saved / "assets" / "page.js").stat().st_size > 1000


def test_the_data_equals_that_of_a_server(saved):
    data = json.loads((saved / "data.js").read_text().removeprefix("globalThis.stowplanData = ").removesuffix(";\n"))
    assert data["source"]["title"] == MARKUP
    pods = data["plan"]["pods"]
    assert sorted(pods["key"]) == ["default/other", "default/web"]
    assert pods["labelSets"][pods["labels"][pods["key"].index("default/web")]] == {"app": MARKUP}
    assert data["pending"]["counts"] == {"placeable": 2}
    assert data["explain"]["default/web"]["node"] == "a"


def test_names_cannot_end_the_script(saved):
    text = (saved / "data.js").read_text()
    assert not set("<\u2028\u2029") & set(text)
