"""The page of a running scheduler shows changes of the cluster at once."""

import pytest
from playwright.sync_api import expect

from support.browser.pages import run
from support.processes.api_client import Client
from support.what_if.objects import node, pod


@pytest.fixture
def live(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gates = "--feature-gates=GenericWorkload=true"
    with run("up", "--nodes", "4", gates, "--kubeconfig-out", str(tmp_path / "kubeconfig")) as said:
        yield said.split()[-1], tmp_path / "kubeconfig"


def test_pods_are_created_moved_and_deleted(page, live):
    address, kubeconfig = live
    client = Client(kubeconfig)
    page.goto(address)
    expect(page.locator(".sum")).to_contain_text("4 nodes, 0 pods scheduled, 0 pending")
    expect(page.locator(".state")).to_contain_text("live")
    client("/api/v1/namespaces/default/pods", pod("web-0"))
    expect(page.locator(".sum")).to_contain_text("1 pod scheduled")
    expect(page.locator(".legend")).to_contain_text("default/web 1")
    client("/api/v1/namespaces/default/pods", pod("big", cpu="640"))
    expect(page.locator(".pending-pods")).to_contain_text("Insufficient cpu")
    expect(page.locator(".legend")).to_contain_text("default/big 1")
    client.delete("/api/v1/namespaces/default/pods/web-0")
    expect(page.locator(".sum")).to_contain_text("0 pods scheduled")
    page.goto(f"{address.partition('#')[0]}#/workbench")
    page.get_by_role("button", name="Add to the trial").click()
    expect(page.locator(".figures").get_by_role("row", name="Nodes")).to_contain_text("+1")
    page.goto(f"{address.partition('#')[0]}#/pod/default/big")
    expect(page.locator(".story")).to_contain_text("attempt 1")


def test_waking_events_are_shown(page, live):
    address, kubeconfig = live
    client = Client(kubeconfig)
    client("/api/v1/namespaces/default/pods", pod("big", cpu="640"))
    page.goto(address)
    expect(page.locator(".pending-pods")).to_contain_text("Insufficient cpu")
    client("/api/v1/nodes", node("larger", cpu="700"))
    expect(page.locator(".sum")).to_contain_text("5 nodes, 1 pod scheduled, 0 pending")
    page.goto(f"{address.partition('#')[0]}#/queue")
    row = page.get_by_role("region", name="Requeue events").get_by_role("row", name="NodeAdd")
    expect(row.get_by_role("link", name="Node larger")).to_be_visible()
    expect(row).to_contain_text("default/big")
    expect(row).to_contain_text("NodeResourcesFit")


def test_a_lost_connection_is_shown(open_tab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_tab() as tab:
        with run("up", "--nodes", "2", "--kubeconfig-out", str(tmp_path / "kubeconfig")) as said:
            tab.page.goto(said.split()[-1])
            expect(tab.page.locator(".state")).to_contain_text("live")
        expect(tab.page.locator(".state")).to_contain_text("connection lost")
        # The last state can still be viewed.
        expect(tab.page.locator(".sum")).to_contain_text("2 nodes")
        # The browser itself logs an error for the closed port.
        assert all("ERR_CONNECTION_REFUSED" in complaint for complaint in tab.complaints)
        tab.complaints.clear()
