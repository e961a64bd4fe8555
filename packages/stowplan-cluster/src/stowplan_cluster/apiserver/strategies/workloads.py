"""Jobs: the generated selector. DaemonSets: the template generation. StatefulSets: a field that is not enabled.

Upstream: pkg/registry/batch/job/strategy.go (generateSelector), pkg/registry/apps/daemonset/strategy.go.
"""

from __future__ import annotations

from stowplan_cluster.apiserver.defaults.workloads import TEMPLATE_GENERATION
from stowplan_cluster.apiserver.objects import JsonObject, metadata_of
from stowplan_cluster.apiserver.validation.field_errors import same
from stowplan_cluster.apiserver.validation.jobs import LABEL_PREFIX


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


# DaemonSets: the template generation.
#
# Upstream: pkg/registry/apps/daemonset/strategy.go, pkg/apis/apps/v1/conversion.go.


def update_daemon_set(daemon_set: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource:
        return
    count = (metadata_of(old).get("annotations") or {}).get(TEMPLATE_GENERATION, "1")
    changed = not same(daemon_set["spec"].get("template"), (old.get("spec") or {}).get("template"))
    annotations = metadata_of(daemon_set).get("annotations") or {}
    annotations[TEMPLATE_GENERATION] = str(int(count) + changed)
    metadata_of(daemon_set)["annotations"] = annotations


# StatefulSets: maxUnavailable is dropped, as its feature gate is off by default.
#
# Upstream: pkg/registry/apps/statefulset/strategy.go.


def prepare_stateful_set(stateful_set: JsonObject, now: float) -> None:
    rolling = ((stateful_set.get("spec") or {}).get("updateStrategy") or {}).get("rollingUpdate") or {}
    rolling.pop("maxUnavailable", None)


def update_stateful_set(stateful_set: JsonObject, old: JsonObject, subresource: str) -> None:
    prepare_stateful_set(stateful_set, 0.0)
