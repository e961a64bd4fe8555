"""The statuses that the controller wrote, reconciliation by reconciliation, and its events."""

from collections.abc import Iterator
from typing import Any

from stowplan.plugins.objects import parse_quantity
from stowplan_scheduler_plugins.golden.differences import differences
from stowplan_scheduler_plugins.golden.tally import STEPS, Answer
from stowplan_scheduler_plugins.group_status import reconciled_group, reconciled_quota

Json = Any


def controller_answers(number: int, row: Json) -> Iterator[Answer]:
    statuses: dict[str, list[Json]] = {}
    events: list[str] = []
    for kind, reconciled in (("podGroups", reconciled_group), ("quotas", reconciled_quota)):
        for obj in row[kind]:
            key = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
            for _ in row["statuses"][key]:
                found = reconciled(obj, row["pods"])
                obj = obj | {"status": found.status}
                events += found.events
                statuses.setdefault(key, []).append(_normal(found.status))
    wanted = {key: [_normal(one) for one in listed] for key, listed in row["statuses"].items()}
    lines = [*differences(wanted, statuses), *differences(sorted(row.get("events") or ()), sorted(events), "/events")]
    yield Answer(STEPS, row["name"], lines)


def _normal(status: Json) -> Json:
    """Quantities by value; what is 0 or null is absent."""
    found = {key: value for key, value in status.items() if value and key != "used"}
    used = {name: parse_quantity(amount) for name, amount in (status.get("used") or {}).items()}
    return found | {"used": used}
