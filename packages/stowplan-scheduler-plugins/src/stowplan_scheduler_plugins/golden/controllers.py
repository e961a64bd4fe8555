"""The statuses that the controller wrote, reconciliation by reconciliation, and its events."""

from collections.abc import Iterator
from typing import Any

from stowplan.controllers import convert
from stowplan.plugins.objects import Pod, parse_quantity
from stowplan_scheduler_plugins.golden.differences import differences
from stowplan_scheduler_plugins.golden.tally import STEPS, Answer
from stowplan_scheduler_plugins.group_status import MEMBERS, Status, reconciled_group, reconciled_quota

Json = Any


def controller_answers(number: int, row: Json) -> Iterator[Answer]:
    statuses: dict[str, list[Json]] = {}
    events: list[str] = []
    pods = [convert(pod, Pod) for pod in row["pods"]]

    def of_group(group: Json) -> Status:
        name = group["metadata"]["name"]
        return reconciled_group(group, [pod for pod in pods if name in MEMBERS.values(pod)])

    def of_quota(quota: Json) -> Status:
        namespace = quota["metadata"]["namespace"]
        return reconciled_quota(quota, [pod for pod in pods if pod.metadata.namespace == namespace])

    for kind, reconciled in (("podGroups", of_group), ("quotas", of_quota)):
        for obj in row[kind]:
            key = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
            for _ in row["statuses"][key]:
                found = reconciled(obj)
                obj = obj | {"status": found.status}
                events += [" ".join(event) for event in found.events]
                statuses.setdefault(key, []).append(_normal(found.status))
    wanted = {key: [_normal(one) for one in listed] for key, listed in row["statuses"].items()}
    lines = [*differences(wanted, statuses), *differences(sorted(row.get("events") or ()), sorted(events), "/events")]
    yield Answer(STEPS, row["name"], lines)


def _normal(status: Json) -> Json:
    """Quantities by value; what is 0 or null is absent."""
    found = {key: value for key, value in status.items() if value and key != "used"}
    used = {name: parse_quantity(amount) for name, amount in (status.get("used") or {}).items()}
    return found | {"used": used}
