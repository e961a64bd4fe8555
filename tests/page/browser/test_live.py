"""The page beside a scheduler at work: what happens in the cluster is seen at once."""

import pytest
from playwright.sync_api import expect

from support.browser.pages import run
from support.processes.cluster_commands import Client
from support.what_if.objects import pod


@pytest.fixture
def live(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with run("up", "--nodes", "4", "--kubeconfig-out", str(tmp_path / "kubeconfig")) as said:
        yield said.split()[-1], tmp_path / "kubeconfig"


def test_pods_come_move_and_go(page, live):
    address, kubeconfig = live
    client = Client(kubeconfig)
    page.goto(address)
    expect(page.locator(".sum")).to_contain_text("4 nodes, 0 pods stowed, 0 pending")
    expect(page.locator(".state")).to_contain_text("live")
    client("/api/v1/namespaces/default/pods", pod("web-0"))
    expect(page.locator(".sum")).to_contain_text("1 pod stowed")
    client("/api/v1/namespaces/default/pods", pod("big", cpu="640"))
    expect(page.locator(".quay")).to_contain_text("refused by NodeResourcesFit")
    client.delete("/api/v1/namespaces/default/pods/web-0")
    expect(page.locator(".sum")).to_contain_text("0 pods stowed")
    page.goto(f"{address.partition('#')[0]}#/pod/default/big")
    expect(page.locator(".story")).to_contain_text("attempt 1")
