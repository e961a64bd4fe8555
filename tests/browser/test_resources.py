"""What nodes have and who holds it: devices in the plan and its panel."""

import json
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from support.browser.accessibility import violations
from support.browser.pages import served
from support.plugins.devices import DRIVER, a_claim, a_device, a_slice, allocation, exactly
from support.what_if.objects import node, pod

BROKEN = [{"key": "example.com/broken", "effect": "NoSchedule"}]


def with_gpus():
    """A node with four GPUs: two are held by a pod, one is tainted; and a node that has failed."""
    failed = node("failed")
    failed["spec"]["taints"] = [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]
    gpus = [a_device(f"gpu-{i}", **({"taints": BROKEN} if i == 3 else {})) for i in range(4)]
    held = [
        a_claim(
            f"held-{i}",
            exactly(),
            status={
                **allocation(f"gpu-{i}", pool="n"),
                "reservedFor": [{"resource": "pods", "name": "train", "uid": "default/train"}],
            },
        )
        for i in range(2)
    ]
    return [node("n"), failed, pod("train", nodeName="n"), a_slice("n", *gpus, nodeName="n"), *held]


@pytest.fixture(scope="module")
def gpus(tmp_path_factory):
    with served(tmp_path_factory.mktemp("gpus"), with_gpus()) as found:
        yield found


def test_devices_fill_bays_and_are_listed_with_their_holders(page, gpus):
    page.goto(gpus)
    page.get_by_label("Fill").select_option(label=f"devices of {DRIVER}")
    expect(page.locator(".sum")).to_contain_text(f"{DRIVER} 50 % requested, 25 % cannot be had (striped)")
    page.goto(f"{gpus.partition('#')[0]}#/plan?resource={DRIVER}&select=node:n")
    devices = page.get_by_role("list", name="Devices of node n").get_by_role("listitem")
    expect(devices).to_have_count(5)
    expect(devices.nth(0)).to_have_text(f"{DRIVER}, pool n")
    expect(devices.nth(1)).to_contain_text("default/train")
    expect(devices.nth(4)).to_contain_text("example.com/broken:NoSchedule")
    page.goto(f"{gpus.partition('#')[0]}#/plan?as=table")
    # Its name and its state.
    expect(page.get_by_role("cell", name="failed", exact=True)).to_have_count(2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_cost_and_measured_use_as_heat_maps(open_tab, tmp_path, scheme):
    priced = [node(name, zone="x") for name in ("a", "b")]
    priced[0]["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "large"
    use = {"cpu": "1", "memory": "2Gi"}
    measured = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "metadata": {"name": "b"}, "usage": use}
    (tmp_path / "prices.csv").write_text("type,price\nlarge,3\n")
    options = ("--prices", str(tmp_path / "prices.csv"))
    with (
        served(tmp_path, [*priced, pod("p", nodeName="a", cpu="2"), measured], *options) as address,
        open_tab(color_scheme=scheme, bypass_csp=True) as tab,
    ):
        page = tab.page
        page.goto(address)
        page.goto(f"{address.partition('#')[0]}#/room")
        page.get_by_label("Show").select_option(label="cost")
        nodes = page.get_by_role("region", name="Nodes by cost")
        expect(nodes).to_contain_text("2.25 of 3.00 an hour idle; 1 node without any")
        expect(nodes.get_by_role("link", name="a: 0.75 of 3.00 an hour, 25 % requested, 2.25 idle")).to_have_text(
            "2.25"
        )
        assert violations(page) == []
        change = json.dumps({"addNodes": [{"count": 1, "like": "a"}]})
        page.goto(f"{address.partition('#')[0]}#/workbench?change={quote(change)}")
        figures = page.get_by_role("table", name="Before and after")
        expect(figures.get_by_role("row", name="Cost of an hour 3 6 +3")).to_be_visible()
        expect(figures.get_by_role("row", name="… of it idle 2.25 5.25 +3")).to_be_visible()
        page.get_by_role("combobox", name="Colour").select_option(label="Namespace")
        expect(page.get_by_role("list", name="Legend")).to_have_text("default 1")
        assert violations(page) == []
        page.goto(f"{address.partition('#')[0]}#/room")
        page.get_by_label("Show").select_option(label="measured use")
        nodes = page.get_by_role("region", name="Nodes by cpu")
        expect(nodes.get_by_role("link", name="b: 1 of 4 cpu, 25 % used, 3 not used")).to_have_text("25 %")
        assert violations(page) == []
