"""Resolve --emulated-version and --min-compatibility-version, and --feature-gates for the emulated version.

Clusters pass the same list to every component, so gates of other components are accepted and ignored. Gates of the
scheduler are rejected if they would enable a feature that is not implemented here: pods would be placed as if the gate
were off. Other settings without effect are reported (`without_effect`).

Upstream: k8s.io/component-base/featuregate/feature_gate.go, compatibility.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from stowplan.app.command_line.flags.flag_kinds import read_bool
from stowplan.app.command_line.flags.flag_set import FlagError
from stowplan.kube.api.field_errors import aggregate, go_quote
from stowplan.kube.config import FeatureGates
from stowplan.kube.config.features import ABSORBED, NEEDED_WITH, UNBUILT
from stowplan.kube.config.gate_table import Gate, Stage, gates_at
from stowplan.kube.kubernetes_versions import BINARY_VERSION, DEFAULT_VERSION, OLDEST_VERSION, KubernetesVersion
from stowplan.kube.structs import PlainStruct

_COMPONENT = "kube"
_WORDS = {True: "true", False: "false"}

#: Gates of the scheduler that can be off in the reference, at least in an earlier version, but not here.
ALWAYS_ON = frozenset(
    (
        "ContextualLogging",
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScaling",
        "OpportunisticBatching",
        "PodLevelResources",
        "SchedulerAsyncPreemption",
        "SchedulerQueueingHints",
    )
)

#: Gates that make the reference faster, and change nothing else.
SPEED_ONLY = ("InterPodAffinityHostnameFastPath", "SchedulerPreQueueingHints")

#: Switches for whole stages; explicit settings win over them.
STAGE_SWITCHES: dict[str, Stage] = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}

_DRA = "DynamicResourceAllocation"

#: Gate -> the gates that must be on with it.
REQUIRED_GATES: dict[str, tuple[str, ...]] = {
    **{
        name: (_DRA,)
        for name in gates_at(BINARY_VERSION)
        if name.startswith("DRA") and name != "DRAResourceClaimDeviceStatus"
    },
    "DRADeviceBindingConditions": (_DRA, "DRAResourceClaimDeviceStatus"),
    "DRADeviceCompatibilityGroups": (_DRA, "DRAPartitionableDevices"),
    "DRADeviceTaintRules": (_DRA, "DRADeviceTaints"),
    "ExtendWebSocketsToKubelet": ("NodeDeclaredFeatures",),
    "InPlacePodLevelResourcesVerticalScaling": (
        "InPlacePodVerticalScaling",
        "PodLevelResources",
        "NodeDeclaredFeatures",
    ),
    "InPlacePodVerticalScalingInitContainers": ("NodeDeclaredFeatures",),
    "RestartAllContainersOnContainerExits": ("NodeDeclaredFeatures",),
    "UserNamespacesHostNetworkSupport": ("NodeDeclaredFeatures",),
    **NEEDED_WITH,
}


class Gates(PlainStruct, frozen=True):
    features: FeatureGates
    versions: Versions
    #: The explicit settings only.
    given: Mapping[str, bool]

    @property
    def known(self) -> Mapping[str, Gate]:
        return gates_at(self.versions.emulated, self.versions.min_compatibility)

    def retiring(self) -> Iterator[tuple[str, str, bool]]:
        """Explicit settings of gates that will be removed: their stage, name, value."""
        for name, value in self.given.items():
            stage = self.known[name].stage
            if stage in ("GA", "DEPRECATED"):
                yield ("GA" if stage == "GA" else "deprecated"), name, value

    def alpha(self) -> list[str]:
        """Enabled alpha gates."""
        return [
            name for name, gate in sorted(self.known.items()) if gate.stage == "ALPHA" and self.features.enabled(name)
        ]

    def without_effect(self) -> Iterator[tuple[str, str]]:
        """Gates that are on or off without effect, because of a setting or of the emulated version, and why."""
        for name in sorted(ALWAYS_ON & self.known.keys()):
            if not self.features.enabled(name):
                yield name, "cannot be disabled; setting ignored"
        for name in SPEED_ONLY:
            if self.features.enabled(name):
                yield name, "is about speed alone; nothing is needed for it here"


def gates_of(settings: Sequence[tuple[str, str]], versions: Versions | None = None) -> Gates:
    """Raises FlagError for invalid settings, which are pairs of component and `Gate=bool`."""
    versions = versions or versions_of()
    known = gates_at(versions.emulated, versions.min_compatibility)
    given = _read(settings, known)
    problems = [problem for name, wanted in given.items() if (problem := _refused(name, wanted, known, versions))]
    if problems:
        raise FlagError(aggregate(problems))
    gates = {name: gate.default for name, gate in known.items()} | _of_stages(given, known) | given
    # A version out of range is reported with the other options' errors; its gates need no error of their own.
    unmet = list(_unmet(gates)) or ([] if any(version_errors(versions)) else list(_unbuilt(gates)))
    if unmet:
        raise FlagError(aggregate(unmet))
    return Gates(FeatureGates(MappingProxyType(gates), versions.emulated), versions, given)


def _read(settings: Sequence[tuple[str, str]], known: Mapping[str, Gate]) -> dict[str, bool]:
    components = {component for component, _ in settings}
    if {"", _COMPONENT} <= components:
        raise FlagError("set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use")
    for component in sorted(components - {"", _COMPONENT}):
        raise FlagError(f"component not registered: {component}")
    return dict(_read_one(text, known) for _, text in settings)


def _read_one(text: str, known: Mapping[str, Gate]) -> tuple[str, bool]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise FlagError(f"missing bool value for {name}")
    # Parity: a gate of a later version is known, and refused below.
    if name not in known:
        absorbing = ABSORBED.get(name)
        hint = f" ({absorbing} decides about what it did)" if absorbing in known else ""
        raise FlagError(f"unrecognized feature gate: {name}{hint}")
    try:
        return name, read_bool(value)
    except ValueError as error:
        raise FlagError(f"invalid value of {name}={value}, err: {error}") from None


def _refused(name: str, wanted: bool, known: Mapping[str, Gate], versions: Versions) -> str:
    gate = known[name]
    cannot = f"cannot set feature gate {name} to {_WORDS[wanted]}, feature is"
    if gate.locked and wanted != gate.default:
        return f"{cannot} locked to {_WORDS[gate.default]}"
    if gate.stage == "PREALPHA":
        least = versions.min_compatibility
        return f"{cannot} PreAlpha at emulated version {versions.emulated}, min compatibility version {least}"
    return ""


def _of_stages(given: Mapping[str, bool], known: Mapping[str, Gate]) -> dict[str, bool]:
    return {
        name: given[switch]
        for switch, stage in STAGE_SWITCHES.items()
        if switch in given
        for name, gate in known.items()
        if gate.stage == stage and name not in STAGE_SWITCHES
    }


def _unmet(gates: Mapping[str, bool]) -> Iterable[str]:
    for name, required in REQUIRED_GATES.items():
        off = [other for other in required if not gates.get(other)]
        if gates.get(name) and off:
            yield f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]"


def _unbuilt(gates: Mapping[str, bool]) -> Iterable[str]:
    for name, what in UNBUILT.items():
        if gates[name]:
            yield f"cannot set feature gate {name} to true, Stowplan cannot do that yet: {what}"


_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


class Versions(PlainStruct, frozen=True):
    emulated: KubernetesVersion
    min_compatibility: KubernetesVersion


def versions_of(emulated: Sequence[str] = (), min_compatibility: Sequence[str] = ()) -> Versions:
    """Parse both flags; raises FlagError if either is invalid by itself."""
    version = _only(emulated) or DEFAULT_VERSION
    # Parity: an emulated version is compatible with the one before it.
    before = KubernetesVersion(version.major, version.minor - 1)
    return Versions(version, _only(min_compatibility) or max(OLDEST_VERSION, before))


def version_errors(versions: Versions) -> Iterator[str]:
    """Validate them against the binary version."""
    if not OLDEST_VERSION <= versions.emulated <= BINARY_VERSION:
        yield f"emulation version {versions.emulated} is not between [{OLDEST_VERSION}, {BINARY_VERSION}.0]"
    if not OLDEST_VERSION <= versions.min_compatibility <= versions.emulated:
        least = versions.min_compatibility
        yield f"minCompatibilityVersion version {least} is not between [{OLDEST_VERSION}, {versions.emulated}]"


def _only(items: Sequence[str]) -> KubernetesVersion | None:
    found: KubernetesVersion | None = None
    for item in items:
        component, equals, text = (part.strip() for part in item.rpartition("="))
        component = component if equals else _COMPONENT
        match = _VERSION.fullmatch(text)
        if match is None:
            raise FlagError(f"could not parse {go_quote(text)} as version")
        if int(match[3] or 0):
            raise FlagError(f"patch version not allowed, got: {component}={text.removeprefix('v')}")
        version = KubernetesVersion(int(match[1]), int(match[2]))
        if component != _COMPONENT:
            raise FlagError(f"component not registered: {component}")
        if found is not None:
            raise FlagError(f"duplicate version flag, {component}={found} and {component}={version}")
        found = version
    return found
