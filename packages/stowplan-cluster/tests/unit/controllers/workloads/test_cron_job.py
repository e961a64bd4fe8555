"""CronJobs; the clock starts at 22:13:20 UTC on 2023-11-14."""

import pytest

from stowplan.kube.api.meta import timestamp
from support.live.controller_cluster import START, workload


def cron_job(schedule="*/5 * * * *", *, job=None, **spec):
    template = workload("Job", **(job or {}))["spec"]
    spec = {"schedule": schedule, "jobTemplate": {"metadata": {"labels": {"app": "nightly"}}, "spec": template}, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": spec}


def start(cluster, *args, **spec):
    cluster.create(cron_job(*args, **spec))
    cluster.settle()


def jobs(cluster):
    return sorted(job["metadata"]["name"] for job in cluster.all("Job"))


def job_at(seconds):
    return f"nightly-{int(START + seconds) // 60}"


def end_pods(cluster, phase="Succeeded"):
    cluster.run_pods()
    for pod in cluster.pods():
        if pod["status"]["phase"] == "Running":
            cluster.set_pod(pod["metadata"]["name"], phase=phase, ready=False)
    cluster.settle()


def reasons(cluster):
    return [reason for _, reason, _ in cluster.events("nightly")]


def status(cluster):
    return cluster.get("CronJob", "nightly")["status"]


#: 22:15, the first time.
FIRST = 100


def test_a_job_starts_at_each_time(cluster):
    start(cluster)
    cluster.advance(FIRST)
    assert jobs(cluster) == []
    cluster.advance(0.1)
    assert jobs(cluster) == [job_at(FIRST)]
    job = cluster.get("Job", job_at(FIRST))
    assert job["metadata"]["labels"]["app"] == "nightly"
    scheduled = job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert scheduled == timestamp(START + FIRST) == status(cluster)["lastScheduleTime"]
    (active,) = status(cluster)["active"]
    assert (active["name"], active["uid"]) == (job["metadata"]["name"], job["metadata"]["uid"])
    assert ("Normal", "SuccessfulCreate", f"Created job {job_at(FIRST)}") in cluster.events("nightly")
    cluster.advance(300)
    assert jobs(cluster) == [job_at(FIRST), job_at(FIRST + 300)]


def test_finished_jobs_leave_the_status_and_then_the_history(cluster):
    start(cluster, successfulJobsHistoryLimit=2)
    for _ in range(4):
        cluster.advance(300)
        end_pods(cluster)
    assert "active" not in status(cluster)
    assert status(cluster)["lastSuccessfulTime"] == timestamp(START + 1200)
    assert jobs(cluster) == [job_at(FIRST + 600), job_at(FIRST + 900)]
    message = f"Saw completed job: {job_at(FIRST)}, condition: Complete"
    assert ("Normal", "SawCompletedJob", message) in cluster.events("nightly")
    assert ("Normal", "SuccessfulDelete", f"Deleted job {job_at(FIRST)}") in cluster.events("nightly")


def test_failed_jobs_have_a_history_of_their_own(cluster):
    start(cluster, job={"backoffLimit": 0})
    for _ in range(3):
        cluster.advance(300)
        end_pods(cluster, "Failed")
    assert jobs(cluster) == [job_at(FIRST + 600)]


def test_forbid_waits_for_the_job_before(cluster):
    start(cluster, concurrencyPolicy="Forbid")
    cluster.advance(FIRST + 301)
    assert jobs(cluster) == [job_at(FIRST)]
    assert "JobAlreadyActive" in reasons(cluster)
    end_pods(cluster)
    assert jobs(cluster) == [job_at(FIRST), job_at(FIRST + 300)]


def test_replace_deletes_the_job_before(cluster):
    start(cluster, concurrencyPolicy="Replace")
    cluster.advance(FIRST + 301)
    assert jobs(cluster) == [job_at(FIRST + 300)]
    assert [one["name"] for one in status(cluster)["active"]] == [job_at(FIRST + 300)]


@pytest.mark.parametrize(("deadline", "missed"), [(None, False), (100, True), (400, False)])
def test_the_starting_deadline(cluster, deadline, missed):
    start(cluster, "0 * * * *", suspend=True, **({} if deadline is None else {"startingDeadlineSeconds": deadline}))
    # 23:00 and three minutes.
    cluster.advance(2800 + 180)
    cluster.change("CronJob", "nightly", lambda obj: obj["spec"].update(suspend=False))
    cluster.settle()
    assert jobs(cluster) == ([] if missed else [job_at(2800)])


def test_only_the_last_of_many_missed_times_is_made_up_for(cluster):
    start(cluster, "* * * * *", suspend=True)
    cluster.advance(7200)
    cluster.change("CronJob", "nightly", lambda obj: obj["spec"].update(suspend=False))
    cluster.settle()
    assert jobs(cluster) == [job_at(7200)]
    assert "TooManyMissedTimes" in reasons(cluster)


def test_schedules_in_another_time_zone(cluster):
    # 22:13 UTC is 23:13 in Berlin.
    start(cluster, "30 23 * * *", timeZone="Europe/Berlin")
    cluster.advance(1001)
    (job,) = cluster.all("Job")
    annotations = job["metadata"]["annotations"]
    assert annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2023-11-14T23:30:00+01:00"


def test_a_changed_schedule_applies_at_once(cluster):
    start(cluster, "0 3 * * *")
    cluster.change("CronJob", "nightly", lambda obj: obj["spec"].update(schedule="*/5 * * * *"))
    cluster.advance(101)
    assert jobs(cluster) == [job_at(FIRST)]


def test_days_that_never_come_are_reported(cluster):
    start(cluster, "0 0 31 2 *")
    assert reasons(cluster) == ["InvalidSchedule"]
    assert cluster.loop.next_due() is None


def test_jobs_that_others_create_or_delete_are_noticed(cluster):
    start(cluster)
    owner = cluster.get("CronJob", "nightly")["metadata"]
    reference = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": "nightly",
        "uid": owner["uid"],
        "controller": True,
    }
    manual = workload("Job", "manual")
    manual["metadata"]["ownerReferences"] = [reference]
    cluster.create(manual)
    cluster.advance(101)
    message = "Saw a job that the controller did not create or forgot: manual"
    assert ("Warning", "UnexpectedJob", message) in cluster.events("nightly")
    cluster.delete("Job", job_at(FIRST))
    cluster.settle()
    assert "MissingJob" in reasons(cluster)
    assert "active" not in status(cluster)
