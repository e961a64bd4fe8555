"""The arguments of Coscheduling."""

from collections.abc import Iterator
from typing import ClassVar

from stowplan.plugins.arguments import BOOL, INT32, INT64, Args, Pointer, Struct, documented, invalid, kind, not_omitted


class CoschedulingArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "CoschedulingArgs",
        permitWaitingTimeSeconds=documented(
            not_omitted(Pointer(INT64)), "How long pods wait for their group, unless it says so itself."
        ),
        podGroupBackoffSeconds=documented(not_omitted(Pointer(INT64)), "How long a group waits after a failure."),
        podGroupRejectPercentage=documented(
            not_omitted(Pointer(INT32)),
            "A group that lacks at most this share of its pods is not rejected.",
            least=0,
            most=100,
        ),
        wholeGroups=documented(BOOL, "Decide about a group as a whole; not in the original, which refuses it."),
    )

    permit_waiting_time_seconds: int = 60
    pod_group_backoff_seconds: int = 0
    pod_group_reject_percentage: int = 10
    whole_groups: bool = False

    def validate_at_build(self) -> Iterator[str]:
        times = (
            ("permitWaitingTimeSeconds", self.permit_waiting_time_seconds),
            ("podGroupBackoffSeconds", self.pod_group_backoff_seconds),
        )
        for name, seconds in times:
            if seconds < 0:
                yield invalid(name, seconds, "must be greater than 0")
        if not 0 <= self.pod_group_reject_percentage <= 100:
            yield invalid("podGroupRejectPercentage", self.pod_group_reject_percentage, "must be between 0 and 100")
