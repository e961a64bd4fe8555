"""Gangs on a running scheduler, with their statuses: complete, late, broken up, restarted, taken over."""

import signal

GANG = {"queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}}
#: One member that does not fit does not reject the others before their time is up.
PATIENT = {"Coscheduling": {"podGroupRejectPercentage": 100, "permitWaitingTimeSeconds": 600}}
MEMBERS = ("a", "b", "c")


def gang(world, *, last="1", **spec):
    """If the last one is not to fit, before a scheduler begins: then the others are tried first."""
    world.group("gang", **{"minMember": 3, **spec})
    for name in MEMBERS[:2]:
        world.pod(name, group="gang")
    world.pod("c", group="gang", cpu=last)


def test_a_group_completes(world):
    world.node("n1")
    world.controller()
    world.scheduler("Coscheduling", **GANG)
    gang(world)
    world.until_bound(*MEMBERS)
    world.phase("Running", *MEMBERS)
    world.until_status("podgroups", "gang", phase="Running", running=3)
    world.phase("Succeeded", *MEMBERS)
    world.until_status("podgroups", "gang", phase="Finished", succeeded=3)


def test_a_group_times_out_as_a_whole(world):
    world.node("n1")
    world.scheduler("Coscheduling", args=PATIENT, **GANG)
    gang(world, last="8", scheduleTimeoutSeconds=1)
    text = "rejected due to timeout after waiting 1s at plugin Coscheduling"
    rejected = world.client.until(
        world.pods(), lambda pods: text in str(pods.get("a")) or text in str(pods.get("b")), seconds=60
    )
    assert "Insufficient cpu" in str(rejected["c"]) or rejected["c"]
    assert world.bound() == []


def test_a_pod_that_is_deleted_while_it_waits_takes_its_group_back(world):
    world.node("n1")
    gang(world, last="8")
    scheduler = world.scheduler("Coscheduling", args=PATIENT, **GANG)
    world.until_message("c", "Insufficient cpu")
    world.remove("a")
    world.until_message("b", "rejection in Unreserve")
    assert world.bound() == []
    for name in ("a", "d"):
        world.pod(name, group="gang")
    world.until_bound("a", "b", "d")
    assert world.bound() == ["a", "b", "d"]
    assert not scheduler.said("Traceback")


def test_a_restart_loses_no_group(world):
    world.node("n1", cpu="2")
    gang(world, last="2")
    first = world.scheduler("Coscheduling", args=PATIENT, **GANG)
    world.until_message("c", "Insufficient cpu")
    first.process.kill()
    first.process.wait(30)
    world.scheduler("Coscheduling", name="second", args=PATIENT, **GANG)
    world.node("n2", cpu="2")
    world.until_bound(*MEMBERS)


def test_another_leader_goes_on(world):
    world.node("n1", cpu="2")
    gang(world, last="2")
    first = world.scheduler("Coscheduling", args=PATIENT, leader_elect=True, **GANG)
    world.until_message("c", "Insufficient cpu")
    world.scheduler("Coscheduling", name="second", args=PATIENT, leader_elect=True, **GANG)
    first.process.kill()
    world.node("n2", cpu="2")
    world.until_bound(*MEMBERS)


def test_another_controller_takes_over(world):
    first, _ = world.controller("--enableLeaderElection")
    second, log = world.controller("--enableLeaderElection", name="second")
    world.group("one", minMember=1)
    world.until_status("podgroups", "one", phase="Pending")
    assert "Successfully acquired lease" not in log.read_text()
    first.send_signal(signal.SIGTERM)
    assert first.wait(30) == 0
    world.group("two", minMember=1)
    world.until_status("podgroups", "two", phase="Pending")
    assert second.poll() is None


def test_a_group_as_a_whole_waits_for_room_and_survives_a_restart(world):
    world.node("n1", cpu="2")
    world.controller()
    whole = {"Coscheduling": {"wholeGroups": True}}
    first = world.scheduler("Coscheduling", args=whole, **GANG)
    gang(world)
    world.until_message("a", "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining")
    world.pod("single", cpu="2")
    world.until_bound("single")
    first.process.kill()
    first.process.wait(30)
    second = world.scheduler("Coscheduling", name="second", args=whole, **GANG)
    world.node("n2", cpu="4")
    world.until_bound(*MEMBERS)
    world.phase("Running", *MEMBERS)
    world.until_status("podgroups", "gang", phase="Running", running=3)
    assert not any(one.said(text) for one in (first, second) for text in ("Traceback", "podgroups.scheduling.k8s.io"))
