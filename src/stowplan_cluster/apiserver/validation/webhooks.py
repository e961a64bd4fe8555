"""Validate the webhooks of admission. CEL expressions of match conditions are not compiled.

Upstream: pkg/apis/admissionregistration/validation, k8s.io/apiserver/pkg/util/webhook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stowplan.api.labels import is_qualified_name_errors
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.fields import (
    Errors,
    check_required_fields,
    check_supported,
    check_texts,
    duplicate,
    invalid,
    not_supported,
    required,
)
from stowplan_cluster.apiserver.validation.selectors import check_label_selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.api.api_errors import FieldError
    from stowplan_cluster.apiserver.objects import JsonObject

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REVIEWS = ("v1", "v1beta1")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_ENUMS = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "reinvocationPolicy": ("IfNeeded", "Never"),
}
#: Seconds.
_LONGEST_TIMEOUT = 30
_DEFAULT_PORT = 443
_NAME_SEGMENTS = 3
_URL_FORM = "; desired format: https://host[/path]"


def check_webhooks(errors: Errors, obj: JsonObject) -> None:
    seen: set[str] = set()
    for index, hook in enumerate(obj.get("webhooks") or ()):
        path, name = f"webhooks[{index}]", hook.get("name", "")
        _check_webhook(errors, path, hook)
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        elif name:
            seen.add(name)


def check_webhooks_update(errors: Errors, obj: JsonObject, old: JsonObject, subresource: str) -> None:
    check_webhooks(errors, obj)


def _check_webhook(errors: Errors, path: str, hook: JsonObject) -> None:
    _check_name(errors, f"{path}.name", hook.get("name", ""))
    for index, rule in enumerate(hook.get("rules") or ()):
        _check_rule(errors, f"{path}.rules[{index}]", rule)
    for field, supported in _ENUMS.items():
        check_supported(errors, f"{path}.{field}", hook.get(field), supported)
    effects = hook.get("sideEffects")
    if effects is None:
        errors.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}"))
    else:
        check_supported(errors, f"{path}.sideEffects", effects, _SIDE_EFFECTS)
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= _LONGEST_TIMEOUT:
        detail = f"the timeout value must be between 1 and {_LONGEST_TIMEOUT} seconds"
        errors.append(invalid(f"{path}.timeoutSeconds", timeout, detail))
    for field in ("namespaceSelector", "objectSelector"):
        check_label_selector(errors, f"{path}.{field}", hook.get(field))
    _check_conditions(errors, f"{path}.matchConditions", hook.get("matchConditions") or [])
    _check_client(errors, f"{path}.clientConfig", hook.get("clientConfig") or {})
    _check_reviews(errors, f"{path}.admissionReviewVersions", hook.get("admissionReviewVersions") or [])


def _check_name(errors: Errors, path: str, name: str) -> None:
    if not name:
        errors.append(required(path))
    elif complaints := names.dns_subdomain(name):
        check_texts(errors, path, name, complaints)
    elif name.count(".") + 1 < _NAME_SEGMENTS:
        errors.append(invalid(path, name, "should be a domain with at least three segments separated by dots"))


def _check_conditions(errors: Errors, path: str, conditions: Sequence[JsonObject]) -> None:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        name = condition.get("name", "")
        if not condition.get("expression", "").strip():
            errors.append(required(f"{path}[{index}].expression"))
        if not name:
            errors.append(required(f"{path}[{index}].name"))
            continue
        check_texts(errors, f"{path}[{index}].name", name, is_qualified_name_errors(name))
        if name in seen:
            errors.append(duplicate(f"{path}[{index}].name", name))
        seen.add(name)


# -- rules ------------------------------------------------------------------------------------------------------------


def _check_rule(errors: Errors, path: str, rule: JsonObject) -> None:
    operations = rule.get("operations") or []
    for field, what in (
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
    ):
        values = rule.get(field) or []
        if not values:
            errors.append(required(f"{path}.{field}"))
        elif len(values) > 1 and "*" in values:
            errors.append(invalid(f"{path}.{field}", values, f"if '*' is present, must not specify other {what}"))
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errors.append(not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS))
    for index, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            errors.append(required(f"{path}.apiVersions[{index}]"))
    _check_resources(errors, f"{path}.resources", rule.get("resources") or [])
    check_supported(errors, f"{path}.scope", rule.get("scope"), ("*", "Cluster", "Namespaced"))


def _check_resources(errors: Errors, path: str, resources: Sequence[str]) -> None:
    if not resources:
        errors.append(required(path))
    all_subresources, all_resources = set(), set()
    has_plain = False
    for index, text in enumerate(resources):
        resource, slash, subresource = text.partition("/")
        if not text:
            errors.append(required(f"{path}[{index}]"))
        elif not slash:
            # Parity: only the last one without a subresource counts.
            has_plain = text != "*"
        else:
            if resource in all_subresources:
                errors.append(_excluded(f"{path}[{index}]", f"{resource}/*", text))
            if subresource in all_resources:
                errors.append(_excluded(f"{path}[{index}]", f"*/{subresource}", text))
            if subresource == "*":
                all_subresources.add(resource)
            if resource == "*":
                all_resources.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and has_plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, detail))


def _excluded(path: str, wildcard: str, text: str) -> FieldError:
    return invalid(path, text, f"if '{wildcard}' is present, must not specify {text}")


# -- the server that is called ----------------------------------------------------------------------------------------


def _check_client(errors: Errors, path: str, client: JsonObject) -> None:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        errors.append(required(path, "exactly one of url or service is required"))
    elif url is not None:
        _check_url(errors, f"{path}.url", url)
    elif service is not None:
        _check_service(errors, f"{path}.service", service)


def _check_url(errors: Errors, path: str, text: str) -> None:
    try:
        url = urlsplit(text)
    except ValueError as error:
        errors.append(required(path, f"url must be a valid URL: {error}{_URL_FORM}"))
        return
    if url.scheme != "https":
        errors.append(invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"))
    if not url.netloc:
        errors.append(invalid(path, "", f"host must be specified{_URL_FORM}"))
    if "@" in url.netloc:
        user = url.netloc.rpartition("@")[0]
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if url.fragment:
        errors.append(invalid(path, url.fragment, "fragments are not permitted in the URL"))
    if url.query:
        errors.append(invalid(path, url.query, "query parameters are not permitted in the URL"))


def _check_service(errors: Errors, path: str, service: JsonObject) -> None:
    check_required_fields(errors, path, service, ("name", "namespace"))
    port = service.get("port", _DEFAULT_PORT)
    if complaints := names.port_number(port):
        errors.append(invalid(f"{path}.port", port, f"port is not valid: {', '.join(complaints)}"))
    _check_path(errors, f"{path}.path", service.get("path") or "/")


def _check_path(errors: Errors, path: str, text: str) -> None:
    if text == "/":
        return
    if text == "//":
        errors.append(invalid(path, text, "segment[0] may not be empty"))
        return
    if not text.startswith("/"):
        errors.append(invalid(path, text, "must start with a '/'"))
    for index, step in enumerate(text[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(path, text, f"segment[{index}] may not be empty"))
        for complaint in names.dns_subdomain(step) if step else ():
            errors.append(invalid(path, text, f"segment[{index}]: {complaint}"))


def _check_reviews(errors: Errors, path: str, versions: Sequence[str]) -> None:
    if not versions:
        errors.append(required(path, f"must specify one of {', '.join(_REVIEWS)}"))
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
        else:
            check_texts(errors, f"{path}[{index}]", version, names.dns_1035_label(version))
    if not set(versions).intersection(_REVIEWS):
        errors.append(invalid(path, versions, f"must include at least one of {', '.join(_REVIEWS)}"))
