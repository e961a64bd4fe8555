"""Validate paths inside containers and volumes, and names that are paths below a domain.

Upstream: pkg/apis/core/validation (validateLocalDescendingPath and its neighbours).
"""

from __future__ import annotations

from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import Errors

_MODES = "must be a number between 0 and 0777 (octal), both inclusive"


def check_domain_prefixed_path(errors: Errors, path: str, value: str) -> None:
    host, _, rest = value.partition("/")
    if not value:
        errors.required(path)
    elif not host or not rest:
        errors.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        errors.check_texts(path, host, names.dns_subdomain(host))
        errors.check_texts(path, rest, names.http_path(rest))


def check_no_backsteps(errors: Errors, path: str, target: str) -> None:
    if ".." in target.split("/"):
        errors.invalid(path, target, "must not contain '..'")


def check_descending_path(errors: Errors, path: str, target: str) -> None:
    if target.startswith("/"):
        errors.invalid(path, target, "must be a relative path")
    check_no_backsteps(errors, path, target)


def check_non_reserved_path(errors: Errors, path: str, target: str) -> None:
    check_descending_path(errors, path, target)
    if target.startswith("..") and not target.startswith("../"):
        errors.invalid(path, target, "must not start with '..'")


def check_mode(errors: Errors, path: str, mode: int | None) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        errors.invalid(path, mode, _MODES)


def check_key_paths(errors: Errors, path: str, items: list[JsonObject] | None) -> None:
    for index, item in enumerate(items or ()):
        at = f"{path}[{index}]"
        errors.check_required_fields(at, item, ("key", "path"))
        check_non_reserved_path(errors, f"{at}.path", item.get("path", ""))
        check_mode(errors, f"{at}.mode", item.get("mode"))
