"""Jobs and CronJobs on the embedded cluster and in a simulation: the same Jobs and pods whenever something happened."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.live.two_clocks_jobs import Runs, agree_on_jobs, job_template

#: In seconds whose sums are rarely the time of something else: what is due at one instant has no order.
lifetimes = st.sampled_from([30, 92, 256])
gaps = st.sampled_from([37, 114, 191, 423])
limits = st.sampled_from([None, None, 501, 817])


@st.composite
def jobs(draw):
    """The spec of a Job whose pods are alike, so that it does not matter which of them are deleted."""
    indexed, policy = draw(st.booleans()), draw(st.sampled_from(["Never", "OnFailure"]))
    completions = draw(st.integers(1, 5) if indexed else st.one_of(st.none(), st.integers(1, 5)))
    return {
        "policy": policy,
        "completionMode": "Indexed" if indexed else "NonIndexed",
        "completions": completions,
        "parallelism": draw(st.integers(0, 4)),
        "backoffLimit": draw(st.integers(0, 6)),
        "activeDeadlineSeconds": draw(limits),
        "suspend": draw(st.sampled_from([False, False, False, True])),
        "podReplacementPolicy": draw(st.sampled_from(["TerminatingOrFailed", "Failed"])),
    }


@st.composite
def runs(draw, job):
    indexed = job["completionMode"] == "Indexed"
    # Of pods without indexes, the first one would take all failures, if it were restarted.
    failing = draw(st.integers(0, 3) if indexed else st.sampled_from([0, 0, 99] if job["policy"] == "Never" else [0]))
    return Runs(draw(lifetimes), failing, draw(st.sampled_from([30, 92, 702])))


@st.composite
def patches(draw, job):
    found, at = [], 0
    for _ in range(draw(st.integers(0, 4))):
        at += draw(gaps)
        change = draw(
            st.one_of(
                st.fixed_dictionaries({"parallelism": st.integers(0, 4)}),
                st.fixed_dictionaries({"suspend": st.booleans()}),
                st.fixed_dictionaries({"backoffLimit": st.integers(0, 6)}),
                st.fixed_dictionaries({"activeDeadlineSeconds": limits}),
            )
        )
        found.append((at, change))
    if job["completionMode"] == "Indexed" and draw(st.booleans()):
        number = draw(st.integers(1, 5))
        found.append((at + draw(gaps), {"parallelism": number, "completions": number}))
    return found


#: Seconds that finished Jobs exist for.
times_to_live = st.sampled_from([None, 0, 61, 700])


@examples(12)
@given(st.data(), times_to_live, st.sampled_from([0, 19]))
def test_jobs(data, ttl, termination):
    job = {**data.draw(jobs()), "ttlSecondsAfterFinished": ttl}
    manifest = {"kind": "Job", **job_template(**job)}
    agree_on_jobs(manifest, data.draw(patches(job)), data.draw(runs(job)), termination=termination)


schedules = st.sampled_from(["*/5 * * * *", "*/3 * * * *", "15 * * * *", "@every 7m", "@every 97s"])
fields = {
    "suspend": st.booleans(),
    "concurrencyPolicy": st.sampled_from(["Allow", "Forbid", "Replace"]),
    "startingDeadlineSeconds": st.sampled_from([50, 150, 400]),
    "successfulJobsHistoryLimit": st.integers(0, 3),
    "failedJobsHistoryLimit": st.integers(0, 2),
    "timeZone": st.sampled_from(["Asia/Kolkata", "America/St_Johns"]),
}


@examples(6)
@given(
    st.data(),
    st.fixed_dictionaries({"schedule": schedules}, optional=fields),
    st.lists(st.tuples(gaps, st.sampled_from(["schedule", *fields])), max_size=4),
    times_to_live,
    st.sampled_from([0, 19]),
)
def test_cron_jobs(data, spec, changed, ttl, termination):
    job = {**data.draw(jobs()), "suspend": False, "ttlSecondsAfterFinished": ttl}
    changes, at = [], 0
    for gap, name in changed:
        at += gap
        changes.append((at, {name: data.draw({**fields, "schedule": schedules}[name])}))
    if any(str(one.get("schedule")).startswith("@every") for one in (spec, *(change for _, change in changes))):
        # Their times count from this long before each look, and a simulation looks less often.
        spec.pop("startingDeadlineSeconds", None)
        changes = [one for one in changes if "startingDeadlineSeconds" not in one[1]]
    manifest = {"kind": "CronJob", "spec": {**spec, "jobTemplate": job_template(**job)}}
    agree_on_jobs(manifest, changes, data.draw(runs(job)), termination=termination)


@examples(4)
@given(
    data=st.data(),
    spec=st.fixed_dictionaries({"schedule": st.sampled_from(["*/5 * * * *", "*/3 * * * *"])}, optional=fields),
    ttl=times_to_live,
    termination=st.sampled_from([0, 19]),
)
def test_cron_jobs_of_the_initial_cluster(data, spec, ttl, termination, tmp_path_factory):
    job = {**data.draw(jobs()), "suspend": False, "ttlSecondsAfterFinished": ttl}
    manifest = {"kind": "CronJob", "spec": {**spec, "suspend": False, "jobTemplate": job_template(**job)}}
    agree_on_jobs(
        manifest, [], Runs(data.draw(lifetimes)), termination=termination, folder=tmp_path_factory.mktemp("files")
    )
