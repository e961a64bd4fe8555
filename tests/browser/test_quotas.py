"""The queue shows what quotas use, and who borrows from whom."""

import json

from playwright.sync_api import expect

from stowplan.testing import a_node, a_pod
from support.browser.pages import served

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "CapacityScheduling"}]}}}],
}


def quota(namespace, least, most):
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"min": {"cpu": least}, "max": {"cpu": most}},
    }


def test_who_borrows_from_whom(page, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    node = a_node("n1").allocatable(cpu="16", memory="64Gi", pods="110").obj()
    running = [a_pod(f"p{i}", "red").requests(cpu="1").on("n1").obj() for i in range(5)]
    objects = [node, quota("blue", "8", "9"), quota("red", "2", "8"), *running]
    with served(tmp_path, objects, f"--config={config}") as address:
        page.goto(address)
        page.locator(".sum").wait_for()
        page.goto(f"{address.partition('#')[0]}#/queue")
        table = page.get_by_role("region", name="Quotas")
        expect(table.get_by_role("row").nth(1)).to_contain_text("red")
        expect(table.get_by_role("row").nth(1)).to_contain_text("3 of blue")
        expect(table.get_by_role("img", name="63 %")).to_be_visible()
