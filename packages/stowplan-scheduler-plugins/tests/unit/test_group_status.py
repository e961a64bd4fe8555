"""The statuses of PodGroups and ElasticQuotas."""

import pytest

from stowplan.controllers import NORMAL, Event, convert
from stowplan.plugins.objects import Pod
from stowplan.testing import a_pod
from stowplan_scheduler_plugins.group_status import TIMEOUT, reconciled_group, reconciled_quota
from stowplan_scheduler_plugins.kinds import LABEL


def group(size=2, **status):
    metadata = {"name": "g", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {"minMember": size}, "status": status}


def members(*phases):
    return pods(*(a_pod(f"p{i}").labels({LABEL: "g"}).phase(phase) for i, phase in enumerate(phases)))


def pods(*built):
    return [convert(pod.obj(), Pod) for pod in built]


def test_a_new_group_is_pending_then_scheduling_then_counted():
    seen, found = [], group()
    for _ in range(3):
        found = found | {"status": reconciled_group(found, members("Running", "Running")).status}
        seen.append(found["status"]["phase"])
    assert seen == ["Pending", "Scheduling", "Running"]
    assert found["status"] == {"phase": "Running", "running": 2, "succeeded": 0, "failed": 0}


@pytest.mark.parametrize(
    ("phases", "phase"),
    [
        (["Running"], "Pending"),
        (["Running", "Pending"], "Scheduling"),
        (["Running", "Succeeded"], "Running"),
        (["Running", "Failed"], "Failed"),
        (["Succeeded", "Succeeded", "Failed"], "Finished"),
    ],
)
def test_the_phase_follows_from_the_pods(phases, phase):
    assert reconciled_group(group(phase="Scheduling"), members(*phases)).status["phase"] == phase


@pytest.mark.parametrize("phase", ["Finished", "Failed"])
def test_a_group_that_is_over_is_not_touched(phase):
    assert reconciled_group(group(phase=phase), members("Running", "Running")).status == {"phase": phase}


def test_a_group_that_starts_too_slowly_is_reported():
    slow = group(phase="Pending", scheduleStartTime="2026-01-04T00:00:00Z")
    assert reconciled_group(slow, members("Running", "Running")) == (slow["status"], (TIMEOUT,))


QUOTA = {
    "metadata": {"name": "q", "namespace": "default"},
    "spec": {"min": {"cpu": "1"}, "max": {"cpu": "2", "example.com/gpu": "1"}},
}


def test_a_quota_shows_what_running_pods_use():
    listed = pods(
        a_pod("a").requests(cpu="1500m", memory="1Gi").init_container("i", cpu="2").phase("Running"),
        a_pod("b").requests(cpu="1").phase("Pending"),
    )
    found = reconciled_quota(QUOTA, listed)
    assert found.status == {"used": {"cpu": "2", "example.com/gpu": "0", "memory": "1Gi"}}
    assert found.events == (Event(NORMAL, "Synced", "Elastic Quota default/q synced successfully"),)
    assert reconciled_quota(QUOTA | {"status": found.status}, listed).events == ()
