"""Arguments of plugins in the form of Kubernetes' own: an object of a kind, which decodes as in Go.

    class LimitArgs(Args, frozen=True):
        schema = kind("LimitArgs", percent=documented(INT32, "Share of CPU that pods may take."))

        percent: int = 80

        def validate_at_build(self):
            if self.percent < 0:
                yield invalid("percent", self.percent, "must be greater than or equal to 0")

For plugins whose configurations exist already: unknown fields and wrong types are reported in kube-scheduler's words,
`completed` sets defaults that depend on other fields, and `--write-config-to` writes the fields with `apiVersion` and
`kind`. For a new plugin, any class with fields is enough.
"""

from stowplan.kube.api.field_errors import aggregate
from stowplan.kube.config.config_errors import invalid
from stowplan.kube.config.declaration import Args
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.schema import (
    BOOL,
    FLOAT64,
    INT32,
    INT64,
    QUANTITY,
    STRING,
    Field,
    Map,
    Pointer,
    Slice,
    Struct,
    documented,
    kind,
    named_string,
    not_omitted,
    struct,
)

__all__ = [
    "BOOL",
    "FLOAT64",
    "INT32",
    "INT64",
    "QUANTITY",
    "STRING",
    "Args",
    "FeatureGates",
    "Field",
    "Map",
    "Pointer",
    "Slice",
    "Struct",
    "aggregate",
    "documented",
    "invalid",
    "kind",
    "named_string",
    "not_omitted",
    "struct",
]
