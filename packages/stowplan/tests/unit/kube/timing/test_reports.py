from stowplan.kube.timing.reports import Reports
from stowplan.kube.timing.times import ManualTime


async def test_repeated_problems_are_rate_limited_with_a_count():
    said, time = [], ManualTime()
    reports = Reports(said.append, clock=time.clock)
    for _ in range(1000):
        reports.say("server away", "refused")
    reports.say("other", "thing")
    assert said == ["server away: refused", "other: thing"]
    await time.advance(10.0)
    reports.say("server away", "reset")
    assert said[2:] == ["server away: reset (and 999 more since the last report)"]
    reports.say("server away", "reset")
    reports.close()
    assert said[3:] == ["server away: 1 more since the last report"]
    reports.close()
    assert len(said) == 4
