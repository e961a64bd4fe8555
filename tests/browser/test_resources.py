"""What nodes have and who holds it: devices in the plan and its panel."""

import pytest
from playwright.sync_api import expect

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
