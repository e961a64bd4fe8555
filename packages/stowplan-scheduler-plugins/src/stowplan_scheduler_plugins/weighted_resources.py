"""Resources with weights, as arguments of plugins that score by several."""

import msgspec

from stowplan.plugins.arguments import INT64, STRING, documented, not_omitted, struct


class WeightedResource(msgspec.Struct, frozen=True):
    name: str = ""
    weight: int = 0


RESOURCE = struct(
    "ResourceSpec",
    name=documented(not_omitted(STRING), "The resource, such as cpu."),
    weight=documented(INT64, "Its weight."),
)
