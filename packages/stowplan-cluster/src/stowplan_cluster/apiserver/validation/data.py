"""Validate ConfigMaps and Secrets: keys, total size, immutability.

Upstream: pkg/apis/core/validation (ValidateConfigMap, ValidateSecret).
"""

from __future__ import annotations

from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import Errors, byte_length, same

_MAX_SIZE = 1024 * 1024
_SEALED = "field is immutable when `immutable` is set"

#: Secret type -> required keys.
_REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _decoded_length(text: str) -> int:
    return len(text) * 3 // 4 - text.count("=", -2)


def check_config_map(errors: Errors, config_map: JsonObject) -> None:
    data, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    for key in data:
        errors.check_texts(f"data[{key}]", key, names.config_key(key))
        if key in binary:
            errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        errors.check_texts(f"binaryData[{key}]", key, names.config_key(key))
    size = sum(map(byte_length, data.values())) + sum(map(_decoded_length, binary.values()))
    if size > _MAX_SIZE:
        errors.too_long("[]", _MAX_SIZE)


def check_config_map_update(errors: Errors, config_map: JsonObject, old: JsonObject, subresource: str) -> None:
    _check_sealed(errors, config_map, old, ("data", "binaryData"))
    check_config_map(errors, config_map)


def _check_sealed(errors: Errors, obj: JsonObject, old: JsonObject, fields: tuple[str, ...]) -> None:
    if not old.get("immutable"):
        return
    if not obj.get("immutable"):
        errors.forbidden("immutable", _SEALED)
    for name in fields:
        if not same(obj.get(name), old.get(name)):
            errors.forbidden(name, _SEALED)


def check_secret(errors: Errors, secret: JsonObject) -> None:
    data = secret.get("data") or {}
    for key in data:
        errors.check_texts(f"data[{key}]", key, names.config_key(key))
    if sum(map(_decoded_length, data.values())) > _MAX_SIZE:
        errors.too_long("data", _MAX_SIZE)
    for key in _REQUIRED_KEYS.get(secret.get("type", ""), ()):
        if key not in data:
            errors.required(f"data[{key}]")


def check_secret_update(errors: Errors, secret: JsonObject, old: JsonObject, subresource: str) -> None:
    errors.check_immutable("type", secret.get("type", ""), old.get("type", ""))
    _check_sealed(errors, secret, old, ("data",))
    check_secret(errors, secret)
