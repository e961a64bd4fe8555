"""Report what an API server would reject in a manifest, for commands that read files.

Found by the entry-point group `stowplan.manifest_checks`. Unknown fields and invalid values would mislead whoever reads
the object, so they are refused here, too. That something is missing or given twice is only worth a word: a pod without
an image can be placed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stowplan.api.api_errors import BadRequest
from stowplan_cluster.apiserver import validation
from stowplan_cluster.apiserver.admission.service_addresses import allocate_addresses
from stowplan_cluster.apiserver.defaults import apply_defaults
from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from stowplan_cluster.apiserver.schema import conform, schema_of
from stowplan_cluster.apiserver.strategies.jobs import generate_selector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from stowplan.api.api_errors import FieldError
    from stowplan_cluster.apiserver.resources import Resource

_MISLEADING = frozenset(("FieldValueInvalid", "FieldValueNotSupported"))
#: Where a workload says what its pods are.
_OF_PODS = ("spec.template.spec.", "spec.jobTemplate.spec.template.spec.")

_CATALOGUE = Catalogue(BUILT_IN)


def findings(manifest: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """(whether it must not be read as if it were right, what is wrong) for each problem; kinds not known have none."""
    resource = _CATALOGUE.of_kind(manifest.get("apiVersion", ""), manifest.get("kind", ""))
    if resource is None:
        return
    # By way of JSON: defaults change what they are given, and this is the caller's.
    obj = msgspec.json.decode(msgspec.json.encode(manifest))
    try:
        unknown = conform(schema_of(resource), obj)
    except BadRequest as error:
        yield True, str(error)
        return
    if unknown:
        for complaint in unknown:
            yield True, complaint
        # A required field may be missing because it is misspelled.
        return
    if resource.namespaced:
        obj["metadata"].setdefault("namespace", "default")
    apply_defaults(resource, obj)
    if resource.storage == "services":
        # Addresses are the server's to give; that a headless service has none is said in two fields.
        allocate_addresses(obj, lambda *_: [])
    if resource.storage == "jobs.batch":
        # So are a job's uid and the selector made of it.
        obj["metadata"]["uid"] = "uid"
        generate_selector(obj, 0.0)
    for problem in validation.validate_create(resource, obj):
        yield _misleads(resource, problem), str(problem)


def _misleads(resource: Resource, problem: FieldError) -> bool:
    if problem.reason not in _MISLEADING:
        return False
    # Of a workload only its pods are judged.
    return resource.group not in ("apps", "batch") or problem.field.startswith(_OF_PODS)
