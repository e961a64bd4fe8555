"""A pod group of a cluster that is only followed is evaluated as a whole, although another scheduler runs there."""

import pytest
from playwright.sync_api import expect

from support.browser.pages import run, served
from support.page.gangs import preempting
from support.processes.api_client import Client
from support.scheduling.groups import a_group, member


@pytest.fixture
def followed(tmp_path, monkeypatch):
    """The page of `stowplan ui` for a cluster with a gang that does not fit."""
    monkeypatch.chdir(tmp_path)
    kubeconfig = tmp_path / "kubeconfig"
    with run("up", "--nodes", "2", "--kubeconfig-out", str(kubeconfig)):
        client = Client(kubeconfig)
        client(
            "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
            a_group("train", gang=3, mode={"single": {}}),
        )
        for number in range(3):
            client("/api/v1/namespaces/default/pods", member(f"train-{number}", "train", cpu="30"))
        with run("ui", "--kubeconfig", str(kubeconfig), "--pod-groups") as said:
            yield said.split()[-1]


def test_a_gang_that_does_not_fit(page, followed):
    page.goto(followed)
    expect(page.locator(".sum")).to_contain_text("3 pending")
    page.goto(f"{followed.partition('#')[0]}#/pod/default/train-0")
    page.get_by_role("region", name="Pod group").get_by_role("link", name="default/train").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Group default/train")
    whole = page.get_by_role("region", name="As a whole")
    expect(whole).to_contain_text("It does not fit")
    row = whole.get_by_role("row", name="all nodes")
    expect(row).to_contain_text("90 cpu")
    expect(page.get_by_role("region", name="Pods of the group").get_by_role("row")).to_have_count(4)


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_a_gang_that_would_preempt(page, tmp_path, version):
    with served(tmp_path, preempting(), f"--emulated-version={version}") as address:
        page.goto(address)
        page.locator(".sum").wait_for()
        page.goto(f"{address.partition('#')[0]}#/group/default/train")
        whole = page.get_by_role("region", name="As a whole")
        expect(whole).to_contain_text("It fits once pods have been evicted")
        expect(whole.locator(".victims")).to_contain_text("2 pods would be evicted for it: default/low-0 default/low-1")
        members = page.get_by_role("region", name="Pods of the group")
        if version == "1.36":
            # Since then, a gang preempts as a whole only.
            expect(members.get_by_role("columnheader", name="Victims")).to_be_visible()
            for number in range(2):
                expect(members.get_by_role("row", name=f"default/train-{number}")).to_contain_text("default/low-")
        whole.get_by_role("link", name="default/low-0").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("low-0")


def test_gangs_on_the_page_of_their_scheduler(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kubeconfig = tmp_path / "kubeconfig"
    gate = "--feature-gates=GenericWorkload=true"
    with run("up", "--nodes", "2", gate, "--kubeconfig-out", str(kubeconfig)) as said:
        client = Client(kubeconfig)
        for group, cpu in (("fits", "1"), ("large", "60")):
            client(
                "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
                a_group(group, gang=2, mode={"single": {}}),
            )
            for number in range(2):
                client("/api/v1/namespaces/default/pods", member(f"{group}-{number}", group, cpu=cpu))
        address = said.split()[-1]
        page.goto(address)
        expect(page.locator(".sum")).to_contain_text("2 pods scheduled, 2 pending")
        page.goto(f"{address.partition('#')[0]}#/pod/default/fits-0")
        expect(page.locator(".verdict")).to_contain_text("It is on node-")
        page.goto(f"{address.partition('#')[0]}#/pod/default/large-0")
        expect(page.locator(".verdict")).to_contain_text("It does not fit on any node")
        expect(page.get_by_role("heading", name="What would help")).to_be_visible()
