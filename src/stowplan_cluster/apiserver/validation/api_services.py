"""Validate APIServices.

Upstream: k8s.io/kube-aggregator/pkg/apis/apiregistration/validation.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.fields import Errors, check_required_fields, check_texts, invalid, required

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

#: Field -> its highest value.
_PRIORITIES = {"groupPriorityMinimum": 20_000, "versionPriority": 1_000}
_DEFAULT_PORT = 443


def check_api_service(errors: Errors, obj: JsonObject) -> None:
    spec = obj.get("spec") or {}
    group, version = spec.get("group", ""), spec.get("version", "")
    name, wanted = (obj.get("metadata") or {}).get("name", ""), f"{version}.{group}"
    if name and name != wanted and not names.path_segment(name):
        errors.append(invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{wanted}"'))
    if group:
        check_texts(errors, "spec.group", group, names.dns_subdomain(group))
    elif version != "v1":
        errors.append(required("spec.group", "only v1 may have an empty group and it better be legacy kube"))
    check_texts(errors, "spec.version", version, names.dns_1035_label(version))
    for field, highest in _PRIORITIES.items():
        if not 0 < spec.get(field, 0) <= highest:
            errors.append(invalid(f"spec.{field}", spec.get(field, 0), f"must be positive and less than {highest}"))
    _check_service(errors, spec)


def check_api_service_update(errors: Errors, obj: JsonObject, old: JsonObject, subresource: str) -> None:
    if not subresource:
        check_api_service(errors, obj)


def _check_service(errors: Errors, spec: JsonObject) -> None:
    service, bundle, insecure = spec.get("service"), spec.get("caBundle"), spec.get("insecureSkipTLSVerify")
    if service is None:
        if bundle:
            size = f"{_size_of(bundle)} bytes"
            errors.append(invalid("spec.caBundle", size, "local APIServices may not have a caBundle"))
        if insecure:
            path, detail = "spec.insecureSkipTLSVerify", "local APIServices may not have insecureSkipTLSVerify"
            errors.append(invalid(path, insecure, detail))
        return
    check_required_fields(errors, "spec.service", service, ("namespace", "name"))
    port = service.get("port", _DEFAULT_PORT)
    if complaints := names.port_number(port):
        errors.append(invalid("spec.service.port", port, f"port is not valid: {', '.join(complaints)}"))
    if insecure and bundle:
        errors.append(invalid("spec.insecureSkipTLSVerify", insecure, "may not be true if caBundle is present"))


def _size_of(bundle: str) -> int:
    try:
        return len(base64.b64decode(bundle))
    except binascii.Error:
        return 0
