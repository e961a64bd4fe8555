"""DynamicResources' declaration and arguments."""

from collections.abc import Iterator
from typing import ClassVar

from msgspec.structs import replace

from stowplan.kube.api.durations import Duration
from stowplan.kube.api.field_errors import child
from stowplan.kube.api.types import DeviceClass, ResourceClaim, ResourceSlice
from stowplan.kube.config.config_errors import forbidden, invalid
from stowplan.kube.config.declaration import Args, EnabledByDefault, PluginDeclaration
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.schema import DURATION, Pointer, Struct, documented, kind, not_omitted

_FILTER_TIMEOUT = Duration.of_seconds(10)
_BINDING_TIMEOUT = Duration.of_seconds(600)
_MIN_BINDING_TIMEOUT = Duration.of_seconds(1)


class DynamicResourcesArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "DynamicResourcesArgs",
        filterTimeout=documented(
            not_omitted(Pointer(DURATION)),
            "How long the allocation of devices may take for one pod on one node; 0s is for no limit.",
        ),
        bindingTimeout=documented(
            not_omitted(Pointer(DURATION)), "How long a pod waits for its devices to be ready to bind; 1s at least."
        ),
    )

    filter_timeout: Duration | None = None  #: zero = unlimited
    binding_timeout: Duration | None = None

    def completed(self, features: FeatureGates) -> "DynamicResourcesArgs":
        args = self
        if args.filter_timeout is None and features.enabled("DRASchedulerFilterTimeout"):
            args = replace(args, filter_timeout=_FILTER_TIMEOUT)
        if args.binding_timeout is None and _binding_timeout_enabled(features):
            args = replace(args, binding_timeout=_BINDING_TIMEOUT)
        return args

    def validate(self, path: str, features: FeatureGates) -> Iterator[str]:
        filter_path, binding_path = child(path, "filterTimeout"), child(path, "bindingTimeout")
        if self.filter_timeout is not None:
            if not features.enabled("DRASchedulerFilterTimeout"):
                # Parity: the reference misspells its own gate here.
                yield forbidden(filter_path, "DRASchedulingFilterTimeout feature gate is disabled")
            elif self.filter_timeout < 0:
                yield invalid(filter_path, self.filter_timeout, "must be zero or positive")
        if self.binding_timeout is not None:
            if not _binding_timeout_enabled(features):
                gates = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus"
                yield forbidden(binding_path, f"{gates} feature gate is disabled")
            elif self.binding_timeout < _MIN_BINDING_TIMEOUT:
                yield invalid(binding_path, self.binding_timeout, "must be at least 1 second")


def _binding_timeout_enabled(features: FeatureGates) -> bool:
    return features.enabled("DRADeviceBindingConditions") and features.enabled("DRAResourceClaimDeviceStatus")


DECLARATION = PluginDeclaration(
    name="DynamicResources",
    points=frozenset({"preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve", "preBind"}),
    default=EnabledByDefault(order=150, weight=2, gate="DynamicResourceAllocation"),
    args_type=DynamicResourcesArgs,
    needs=(ResourceClaim, ResourceSlice, DeviceClass),
)
