"""The JSON schema of search spaces, for editors that complete and check YAML."""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan_lab.tuning.space import SpaceSpec


def space_schema() -> dict[str, Any]:
    (schema,), parts = msgspec.json.schema_components([SpaceSpec], ref_template="#/$defs/{name}")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "$defs": parts}
