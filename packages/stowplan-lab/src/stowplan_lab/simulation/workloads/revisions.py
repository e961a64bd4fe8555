"""How a workload changes from one template to the next: its update strategy, and its revisions.

Revisions are the templates over time. The pods have a label with their revision.

Upstream: pkg/apis/apps/validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from stowplan.kube.api.timestamps import timestamp
from stowplan.kube.api.types import Pod
from stowplan.kube.api.whole_numbers import share
from stowplan.kube.config.config_errors import did_you_mean
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.reconcile.deployments import RECREATE
from stowplan_cluster.reconcile.views import RollingUpdate, UpdateStrategy
from stowplan_lab.simulation.results.ledger import Entry
from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.workloads.owners import Template

ROLLING, ON_DELETE = "RollingUpdate", "OnDelete"


class _Kind(PlainStruct, frozen=True):
    """The strategies of a kind of workload, and its defaults."""

    field: str
    types: tuple[str, ...]
    surge: int | str
    #: None: as without the field.
    unavailable: int | str | None


_KINDS = {
    "Deployment": _Kind("strategy", (ROLLING, RECREATE), "25%", "25%"),
    # Its maxUnavailable needs a feature gate, so that it is not in use unless it is set.
    "StatefulSet": _Kind("updateStrategy", (ROLLING, ON_DELETE), 0, None),
    "DaemonSet": _Kind("updateStrategy", (ROLLING, ON_DELETE), 0, 1),
}
#: Kinds with an update strategy.
ROLLED = tuple(_KINDS)


def update_strategy(kind: str, spec: Mapping[str, Any], where: str) -> UpdateStrategy:
    """The strategy in a workload's spec; raises ScenarioError."""
    about = _KINDS[kind]
    where = f"{where}: spec.{about.field}"
    given = _mapping(spec.get(about.field), where)
    type_ = given.get("type", ROLLING)
    if type_ not in about.types:
        hint = next(did_you_mean(str(type_), about.types), f"want one of {', '.join(about.types)}")
        raise ScenarioError(f"{where}.type: there is no {type_!r}; {hint}")
    where = f"{where}.rollingUpdate"
    rolling = _mapping(given.get("rollingUpdate"), where)
    surge = _amount(rolling.get("maxSurge", about.surge), f"{where}.maxSurge")
    unavailable: Any = rolling.get("maxUnavailable", about.unavailable)
    if unavailable is not None:
        unavailable = _amount(unavailable, f"{where}.maxUnavailable")
    if unavailable is not None and not any(share(one, 100, round_up=True) for one in (surge, unavailable)):
        raise ScenarioError(f"{where}: maxSurge and maxUnavailable are both 0: no pod could ever be replaced")
    if kind == "StatefulSet" and surge:
        raise ScenarioError(f"{where}.maxSurge: a StatefulSet has none")
    partition = rolling.get("partition", 0)
    if isinstance(partition, bool) or not isinstance(partition, int) or partition < 0:
        raise ScenarioError(f"{where}.partition: want a whole number of 0 or more, got {partition!r}")
    rolling_update = RollingUpdate(max_surge=surge, max_unavailable=unavailable, partition=partition)
    return UpdateStrategy(type=type_, rolling_update=rolling_update)


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ScenarioError(f"{where}: want an object, got {value!r}")
    return value


def _amount(value: object, where: str) -> int | str:
    digits = value.removesuffix("%") if isinstance(value, str) and value.endswith("%") else ""
    if digits.isascii() and digits.isdigit():
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ScenarioError(f'{where}: want a number of pods or a percentage such as "25%", got {value!r}')


#: kubectl's annotation of a restarted template.
_RESTARTED = "kubectl.kubernetes.io/restartedAt"
HASH, REVISION = "pod-template-hash", "controller-revision-hash"


class Revisions:
    def __init__(self, template: Template, label: str) -> None:
        """`label`: the revision label; "" for a workload that is never rolled out."""
        self._label = label
        self._pods: list[Pod] = []
        self.turn_to(template)

    def turn_to(self, template: Template) -> Template:
        """Set the current template. An earlier one becomes its revision again."""
        self.template = template
        if template.pod not in self._pods:
            self._pods.append(template.pod)
        self.current = self._pods.index(template.pod)
        return template

    def restart(self, now: float) -> Template:
        """Turn to the current template, as after `kubectl rollout restart`."""
        pod = self.template.pod
        annotations = {**pod.metadata.annotations, _RESTARTED: timestamp(now)}
        pod = replace(pod, metadata=replace(pod.metadata, annotations=annotations))
        return self.turn_to(replace(self.template, pod=pod))

    def pod(self, revision: int) -> Pod:
        """The pod template of the revision."""
        pod = self._pods[revision]
        if self.template.update is None:
            return pod
        labels = {**pod.metadata.labels, self._label: str(revision)}
        return replace(pod, metadata=replace(pod.metadata, labels=labels))

    def of(self, entry: Entry | None) -> int:
        """A pod's revision; one that the API server rejected counts as current."""
        if entry is None or self.template.update is None:
            return self.current
        return int(entry.pod.metadata.labels.get(self._label, self.current))
