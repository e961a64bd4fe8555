"""Quotas on a running scheduler: borrowed, taken back, beside budgets and for gangs as a whole."""

import subprocess
import sys

QUOTAS = {"postFilter": {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]}}


def two_teams(world):
    a, b = world.namespaces("a", "b")
    for namespace in (a, b):
        world.quota("quota", namespace, min={"cpu": "2"}, max={"cpu": "4"})
    return a, b


def test_what_is_borrowed_is_taken_back_from_pods_without_budget(world):
    a, b = two_teams(world)
    world.node("n1", cpu="4")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"keep": "yes"}}},
    }
    world.client(f"/apis/policy/v1/namespaces/{a}/poddisruptionbudgets", budget)
    world.scheduler("CapacityScheduling", **QUOTAS)
    world.controller()
    names = [f"a{i}" for i in range(4)]
    for name in names:
        world.pod(name, namespace=a)
    world.until_bound(*names, namespace=a)
    world.phase("Running", *names, namespace=a)
    world.until_status("elasticquotas", "quota", namespace=a, used={"cpu": "4"})
    world.label("a3", keep="yes", namespace=a)
    world.pod("b0", cpu="2", namespace=b)
    world.until_bound("b0", namespace=b)
    left = world.client.names(world.pods(a))
    assert len(left) == 2
    assert "a3" in left
    world.until_status("elasticquotas", "quota", namespace=a, used={"cpu": "2"})


def test_what_is_borrowed_is_taken_back_for_a_whole_gang_if_it_then_fits(world):
    a, b = world.namespaces("a", "b")
    world.quota("quota", a, min={"cpu": "0"})
    world.quota("quota", b, min={"cpu": "4"})
    for node in ("n1", "n2"):
        world.node(node, cpu="2")
    alone = QUOTAS["postFilter"]
    sort = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    args = {"Coscheduling": {"wholeGroups": True}}
    points = {"queueSort": sort, "podGroupPostFilter": alone, **QUOTAS}
    scheduler = world.scheduler("Coscheduling", "CapacityScheduling", args=args, **points)
    names = [f"a{i}" for i in range(4)]
    for name in names:
        world.pod(name, namespace=a)
    world.until_bound(*names, namespace=a)
    world.group("gang", namespace=b, minMember=2)
    world.pod("b0", cpu="500m", group="gang", namespace=b)
    # Within the quota, and larger than a node.
    world.pod("b1", cpu="2500m", group="gang", namespace=b)
    world.until_message("b0", "not eligible as its group is scheduled as a whole", namespace=b)
    flags = (f"--kubeconfig={world.server.kubeconfig}", f"--config={world.folder / 'scheduler.json'}")
    explain = [sys.executable, "-m", "stowplan", "explain", "podgroup/gang", "-n", b, "--emulated-version=1.37", *flags]
    said = subprocess.run(explain, capture_output=True, text=True, check=False)
    assert "pod group" in said.stdout
    assert "one by one" not in said.stderr
    assert world.bound(a) == names
    world.remove("b1", world.pods(b))
    world.pod("b2", cpu="2", group="gang", namespace=b)
    world.until_bound("b0", "b2", namespace=b)
    assert len(world.client.names(world.pods(a))) == 1
    assert not scheduler.said("Traceback")


def test_more_than_the_maximum_waits(world):
    a, _ = two_teams(world)
    world.node("n1", cpu="8")
    world.scheduler("CapacityScheduling", **QUOTAS)
    world.pod("large", cpu="5", namespace=a)
    message = world.client.until(world.pods(a), lambda pods: "message" in str(pods.get("large", {}).get("status")))
    assert "is rejected in PreFilter because ElasticQuota" in str(message["large"])


def test_absurd_quotas_are_reported_and_schedule_on(world):
    (a,) = world.namespaces("a")
    world.quota("first", a, min={"cpu": "4"}, max={"cpu": "2"})
    world.quota("second", a, min={"cpu": "1"}, max={"cpu": "1000000000000"})
    world.node("n1")
    world.controller()
    scheduler = world.scheduler("CapacityScheduling", **QUOTAS)
    world.until_status("elasticquotas", "first", namespace=a, used={"cpu": "0"})
    world.client.until(
        f"/apis/events.k8s.io/v1/namespaces/{a}/events",
        lambda events: {"MinAboveMax", "OverlappingQuotas"} <= {event["reason"] for event in events.values()},
    )
    world.pod("p", namespace=a)
    world.until_bound("p", namespace=a)
    assert not scheduler.said("Traceback")
