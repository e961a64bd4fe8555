"""The reason of most nodes, read from a scheduler's message."""

import pytest

from stowplan.scheduler.inspection.queue_state import main_reason


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("0/5 nodes are available: 1 Too many pods, 4 Insufficient cpu. preemption: 0/5 nodes are", "Insufficient cpu"),
        ("0/1 nodes are available: 1 node(s) had untolerated taint(s).", "node(s) had untolerated taint(s)"),
        ("0/9 nodes are available: 3 no match, not even near, 2 Insufficient cpu.", "no match, not even near"),
        (
            '0/1 nodes are available: persistentvolumeclaim "a" not found. not found',
            'persistentvolumeclaim "a" not found',
        ),
        ("waiting for scheduling gates: [a]", ""),
        ("", ""),
    ],
)
def test_main_reason(message, reason):
    assert main_reason(message) == reason
