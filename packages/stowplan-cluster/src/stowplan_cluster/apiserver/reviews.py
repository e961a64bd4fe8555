"""Create-only review kinds: TokenReview, SubjectAccessReview and the like.

Nothing is stored; the response is the object with its status.

Upstream: pkg/registry/authentication, pkg/registry/authorization, pkg/apis/authorization/validation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stowplan.kube.api.api_errors import BadRequest, FieldError
from stowplan.kube.api.api_errors import invalid as invalid_object
from stowplan.kube.api.meta import timestamp
from stowplan.kube.api.users import UserInfo
from stowplan_cluster.apiserver.authorization import Attributes, Authorizer, Rules
from stowplan_cluster.apiserver.objects import JsonObject, metadata_of
from stowplan_cluster.apiserver.rbac import PolicyRule
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.selection import label_selector_of
from stowplan_cluster.apiserver.validation.field_errors import Errors, invalid, required

Authenticate = Callable[[str], UserInfo | None]

#: The default audience of tokens.
API_AUDIENCE = "https://kubernetes.default.svc.cluster.local"

_EITHER = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_NOT_BOTH = "cannot be specified in combination with resourceAttributes"
_SELECTORS = ("fieldSelector", "labelSelector")


def answer_review(
    resource: Resource,
    obj: JsonObject,
    *,
    user: UserInfo,
    authorizer: Authorizer,
    authenticate: Authenticate | None = None,
    namespace: str = "",
    now: float | None = None,
) -> JsonObject:
    """Answer a review with its status. `namespace` is the request's; `authenticate` maps a bearer token to its user."""
    metadata_of(obj)
    match resource.kind:
        case "TokenReview":
            return _token_review(obj, authenticate)
        case "SelfSubjectReview":
            return _self_subject_review(resource, user, now)
        case "SelfSubjectRulesReview":
            return _rules_review(resource, obj, user, authorizer)
        case "SelfSubjectAccessReview":
            return _access_review(resource, obj, user, authorizer)
        case "LocalSubjectAccessReview":
            _check_namespace(obj, namespace)
    return _access_review(resource, obj, None, authorizer)


# Authentication


def _token_review(obj: JsonObject, authenticate: Authenticate | None) -> JsonObject:
    spec = obj.get("spec") or {}
    token = spec.get("token")
    if not token:
        raise BadRequest("token is required for TokenReview in authentication")
    if authenticate is None:
        return {**obj, "status": {"user": {}}}
    audiences = spec.get("audiences") or [API_AUDIENCE]
    user = authenticate(token) if API_AUDIENCE in audiences else None
    if user is None:
        return {**obj, "status": {"user": {}, "error": "invalid bearer token"}}
    return {**obj, "status": {"authenticated": True, "user": _user_info(user), "audiences": [API_AUDIENCE]}}


def _self_subject_review(resource: Resource, user: UserInfo, now: float | None) -> JsonObject:
    metadata = {} if now is None else {"creationTimestamp": timestamp(now)}
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": metadata,
        "status": {"userInfo": _user_info(user)},
    }


def _user_info(user: UserInfo) -> JsonObject:
    info: JsonObject = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in info.items() if value}


# Authorization


def _access_review(resource: Resource, obj: JsonObject, user: UserInfo | None, authorizer: Authorizer) -> JsonObject:
    """`user` is set for reviews about oneself; otherwise the review names the user."""
    spec = obj.get("spec") or {}
    errors = _review_errors(resource, obj, spec, is_self=user is not None)
    if errors:
        # Parity: the reference omits the kind here, so the message starts with a dot.
        raise invalid_object("", resource.group, "", errors)
    decision = authorizer.authorize(_attributes(spec, user or _asked_about(spec)))
    status: JsonObject = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    if evaluation := _ignored_selectors(spec):
        status["evaluationError"] = evaluation
    return {**obj, "status": status}


def _asked_about(spec: JsonObject) -> UserInfo:
    return UserInfo(
        name=spec.get("user") or "",
        groups=tuple(spec.get("groups") or ()),
        uid=spec.get("uid") or "",
        extra=spec.get("extra") or {},
    )


def _attributes(spec: JsonObject, user: UserInfo) -> Attributes:
    resource = spec.get("resourceAttributes")
    if resource is None:
        path = spec["nonResourceAttributes"]
        return Attributes(user=user, verb=path.get("verb") or "", path=path.get("path") or "")
    named = ("verb", "group", "resource", "subresource", "name", "namespace")
    return Attributes(user=user, **{key: resource.get(key) or "" for key in named})


def _review_errors(resource: Resource, obj: JsonObject, spec: JsonObject, *, is_self: bool) -> list[FieldError]:
    errors = Errors()
    about_resource, about_path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if about_resource is not None and about_path is not None:
        errors.invalid("spec.nonResourceAttributes", _as_go_has_it(about_path), _NOT_BOTH)
    if about_resource is None and about_path is None:
        errors.invalid("spec.resourceAttributes", None, _EITHER)
    if not is_self and not spec.get("user") and not spec.get("groups"):
        errors.invalid("spec.user", "", "at least one of user or group must be specified")
    for name in _SELECTORS:
        errors += _selector_errors((about_resource or {}).get(name), f"spec.resourceAttributes.{name}")
    errors += _metadata_errors(obj, is_local=resource.namespaced)
    if resource.namespaced:
        errors += _local_errors(obj, about_resource, about_path)
    return errors


def _as_go_has_it(about_path: JsonObject) -> JsonObject:
    """Parity: the message prints the reference's internal struct, whose field names differ from the API's."""
    return {"Path": about_path.get("path") or "", "Verb": about_path.get("verb") or ""}


def _metadata_errors(obj: JsonObject, *, is_local: bool) -> list[FieldError]:
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields" and value}
    if is_local:
        allowed = {key: value for key, value in metadata.items() if key != "namespace"}
        return [invalid("metadata", metadata, "must be empty except for namespace")] if allowed else []
    return [invalid("metadata", metadata, "must be empty")] if metadata else []


def _local_errors(
    obj: JsonObject, about_resource: JsonObject | None, about_path: JsonObject | None
) -> list[FieldError]:
    errors = Errors()
    namespace = (obj.get("metadata") or {}).get("namespace") or ""
    if about_resource is not None and (requested := about_resource.get("namespace") or "") != namespace:
        errors.invalid("spec.resourceAttributes.namespace", requested, "must match metadata.namespace")
    if about_path is not None:
        errors.invalid("spec.nonResourceAttributes", _as_go_has_it(about_path), "disallowed on this kind of request")
    return errors


def _selector_errors(selector: JsonObject | None, path: str) -> list[FieldError]:
    if selector is None:
        return []
    raw, requirements = selector.get("rawSelector"), selector.get("requirements")
    if raw and requirements:
        return [invalid(f"{path}.rawSelector", raw, "may not specified at the same time as requirements")]
    if not raw and not requirements:
        detail = f"when {path} is specified, requirements or rawSelector is required"
        return [required(f"{path}.requirements", detail)]
    return []


def _ignored_selectors(spec: JsonObject) -> str:
    """The evaluation error for an invalid label selector; RBAC ignores selectors otherwise."""
    raw = ((spec.get("resourceAttributes") or {}).get("labelSelector") or {}).get("rawSelector")
    if not raw:
        return ""
    try:
        label_selector_of(raw)
    except BadRequest:
        return "spec.resourceAttributes.labelSelector ignored due to parse error"
    return ""


def _check_namespace(obj: JsonObject, namespace: str) -> None:
    own = (obj.get("metadata") or {}).get("namespace") or ""
    wanted = namespace or own
    if not wanted:
        raise BadRequest("namespace is required on this type: ")
    if wanted != own:
        raise BadRequest(f"spec.resourceAttributes.namespace must match namespace: {wanted}")


# Rules


def _rules_review(resource: Resource, obj: JsonObject, user: UserInfo, authorizer: Authorizer) -> JsonObject:
    namespace = (obj.get("spec") or {}).get("namespace")
    if not namespace:
        raise BadRequest("no namespace on request")
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {},
        "spec": {},
        "status": _rules_status(authorizer.rules_for(user, namespace)),
    }


def _rules_status(found: Rules) -> JsonObject:
    status: JsonObject = {
        "resourceRules": [_resource_rule(rule) for rule in found.rules if rule.resources],
        "nonResourceRules": [
            {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.non_resource_urls)}
            for rule in found.rules
            if rule.non_resource_urls
        ],
        "incomplete": False,
    }
    if found.error:
        status["evaluationError"] = found.error
    return status


def _resource_rule(rule: PolicyRule) -> JsonObject:
    parts: dict[str, Sequence[str]] = {
        "apiGroups": rule.api_groups,
        "resources": rule.resources,
        "resourceNames": rule.resource_names,
    }
    return {"verbs": list(rule.verbs)} | {key: list(values) for key, values in parts.items() if values}
