"""What the log says of health checks."""

from stowplan.net.serving.requests.health import HealthChecks
from support.observing.log_lines import logged


def test_health_checks_that_are_installed():
    with logged() as found:
        HealthChecks("readyz", {"leaderElection": lambda: None, "shutdown": lambda: None})
        HealthChecks("livez", {})
    assert found.of("health") == [
        (5, 'Installing health checkers for (/readyz): "leaderElection","shutdown"', {}),
        (5, "No default health checks specified. Installing the ping handler.", {}),
        (5, 'Installing health checkers for (/livez): "ping"', {}),
    ]
