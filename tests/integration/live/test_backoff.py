"""When a failed pod is retried, to the second, under a manual clock."""

from support.api.manifests import node, pod
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.attempts import at_fraction, attempts, moves


def since(c, name, moment):
    """Times of the pod's attempts, in seconds since `moment` on the scheduler's clock."""
    begun = c.scheduler.clock() - c.time.now
    return [round(begun + t - moment, 3) for t in attempts(c, name)]


async def test_backoff_after_errors(api_server, namespace):
    a = answering("A", permit=RuntimeError("oops"))
    config = configuration(profile(permit=[a]))
    async with scheduled(api_server, namespace, config=config, plugins=[a], before=[("nodes", node("n1"))]) as c:
        await at_fraction(c, 0.25)
        second = c.scheduler.clock() - 0.25
        await c.pods(pod())
        expected, whole = [0.25], 0
        for wait in (1, 2, 4, 8, 10, 10):
            # The pod still backs off during the second in which its backoff expires.
            whole += wait + 1
            expected.append(float(whole))
        await c.advance(whole - 0.5)
        assert since(c, "web", second) == expected[:-1]
        assert c.place("web") == "ERROR_BACKOFF"
        await c.advance(0.25)
        assert since(c, "web", second) == expected
        # An error does not park the pod as unschedulable.
        assert moves(c, "web")[-2:] == [("active", "BackoffComplete"), ("error backoff", "ScheduleAttemptFailure")]
