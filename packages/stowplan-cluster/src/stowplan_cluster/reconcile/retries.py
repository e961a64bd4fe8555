"""When a controller tries again what was refused: after a delay that doubles with each failure in a row.

Upstream: k8s.io/client-go/util/workqueue/default_rate_limiters.go.
"""

BACKOFF_BASE_SECONDS = 0.005
BACKOFF_LIMIT_SECONDS = 60.0


def delay_after(failures: int) -> float:
    """Seconds until the next try, after so many failures in a row."""
    # Bound the exponent: it would overflow a float after a year of failures.
    return min(BACKOFF_LIMIT_SECONDS, BACKOFF_BASE_SECONDS * 2.0 ** min(failures - 1, 32))
