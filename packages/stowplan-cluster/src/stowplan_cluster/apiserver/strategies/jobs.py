"""Jobs: the generated selector, by controller UID.

Upstream: pkg/registry/batch/job/strategy.go (generateSelector).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.objects import metadata_of
from stowplan_cluster.apiserver.validation.jobs import LABEL_PREFIX

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject


def generate_selector(job: JsonObject, now: float) -> None:
    spec, metadata = job["spec"], metadata_of(job)
    if spec.get("manualSelector"):
        return
    name, uid = metadata.get("name", ""), metadata.get("uid", "")
    template = spec["template"]
    if template.get("metadata") is None:
        template["metadata"] = {}
    labels = template["metadata"].setdefault("labels", {})
    # Parity: a Job whose labels were defaulted from the template gets the generated labels, too.
    inherited = labels == metadata.get("labels")
    for prefix in ("", LABEL_PREFIX):
        # Existing labels are kept; validation rejects them.
        labels.setdefault(f"{prefix}job-name", name)
        labels.setdefault(f"{prefix}controller-uid", uid)
    if inherited:
        metadata["labels"] = dict(labels)
    selector = spec.get("selector")
    if selector is None:
        selector = spec["selector"] = {}
    selector.setdefault("matchLabels", {}).setdefault(f"{LABEL_PREFIX}controller-uid", uid)
