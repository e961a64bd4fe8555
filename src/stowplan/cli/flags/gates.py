"""From --feature-gates to the gates that are on.

Upstream: k8s.io/component-base/featuregate/feature_gate.go, compatibility/registry.go.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from stowplan.api.field_errors import aggregate
from stowplan.cli.flags.flag_set import FlagError
from stowplan.cli.flags.gate_table import KNOWN_GATES, REQUIRED_GATES, STAGE_SWITCHES
from stowplan.cli.flags.kinds import read_bool
from stowplan.config import FeatureGates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_COMPONENT = "kube"


def gates_of(settings: Sequence[tuple[str, str]]) -> tuple[FeatureGates, Mapping[str, bool]]:
    """All gates with what was set of them, and that alone; raise FlagError if it cannot be set.

    `settings` are pairs of component and `Gate=bool`.
    """
    given = _read(settings)
    problems = [problem for name, wanted in given.items() if (problem := _refused(name, wanted))]
    if problems:
        raise FlagError(aggregate(problems))
    gates = {name: gate.default for name, gate in KNOWN_GATES.items()} | _of_stages(given) | given
    unmet = list(_unmet(gates))
    if unmet:
        raise FlagError(aggregate(unmet))
    return FeatureGates(MappingProxyType(gates)), given


def retiring(given: Mapping[str, bool]) -> Iterator[tuple[str, str, bool]]:
    """Gates that will go, of those that were set: what they are, name, value."""
    for name, value in given.items():
        stage = KNOWN_GATES[name].stage
        if stage in ("GA", "DEPRECATED"):
            yield ("GA" if stage == "GA" else "deprecated"), name, value


def _read(settings: Sequence[tuple[str, str]]) -> dict[str, bool]:
    components = {component for component, _ in settings}
    if {"", _COMPONENT} <= components:
        raise FlagError("set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use")
    for component in sorted(components - {"", _COMPONENT}):
        raise FlagError(f"component not registered: {component}")
    return dict(_read_one(text) for _, text in settings)


def _read_one(text: str) -> tuple[str, bool]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise FlagError(f"missing bool value for {name}")
    if name not in KNOWN_GATES:
        raise FlagError(f"unrecognized feature gate: {name}")
    try:
        return name, read_bool(value)
    except ValueError as error:
        raise FlagError(f"invalid value of {name}={value}, err: {error}") from None


def _refused(name: str, wanted: bool) -> str:
    gate = KNOWN_GATES[name]
    if not gate.locked or wanted == gate.default:
        return ""
    words = {True: "true", False: "false"}
    return f"cannot set feature gate {name} to {words[wanted]}, feature is locked to {words[gate.default]}"


def _of_stages(given: Mapping[str, bool]) -> dict[str, bool]:
    return {
        name: given[switch]
        for switch, stage in STAGE_SWITCHES.items()
        if switch in given
        for name, gate in KNOWN_GATES.items()
        if gate.stage == stage and name not in STAGE_SWITCHES
    }


def _unmet(gates: Mapping[str, bool]) -> Iterable[str]:
    for name, required in REQUIRED_GATES.items():
        off = [other for other in required if not gates[other]]
        if gates[name] and off:
            yield f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]"
