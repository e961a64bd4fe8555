"""Map Go's TLS names to OpenSSL's.

Unsupported values are reported in one warning at startup: a list with RC4 applies without it. But restrictions are
never loosened: if no requested value is supported, the server does not start.

Upstream: staging/src/k8s.io/component-base/cli/flag/ciphersuites_flag.go, tls_flag.go; Go's crypto/tls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from OpenSSL import SSL

# Parity: pyOpenSSL's own interface sets at most one curve. It calls this below.
from OpenSSL._util import lib

from stowplan.kube.klog.logger import get_logger
from stowplan.kube.structs import PlainStruct
from stowplan.net.serving.serving_error import ServingError

log = get_logger(__name__)

#: Cipher suites of TLS 1.3 are always all enabled, as in Go.
_TLS_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_SECURE = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
_INSECURE = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}
VERSIONS = {
    "VersionTLS10": SSL.TLS1_VERSION,
    "VersionTLS11": SSL.TLS1_1_VERSION,
    "VersionTLS12": SSL.TLS1_2_VERSION,
    "VersionTLS13": SSL.TLS1_3_VERSION,
}
#: By the numbers in the flag.
_CURVES = {
    23: "P-256",
    24: "P-384",
    25: "P-521",
    29: "X25519",
    4587: "SecP256r1MLKEM768",
    4588: "X25519MLKEM768",
    4589: "SecP384r1MLKEM1024",
}


class TlsOptions(PlainStruct, frozen=True, kw_only=True):
    #: Go's names; empty: the defaults.
    cipher_suites: Sequence[str] = ()
    #: Empty: TLS 1.2.
    min_version: str = ""
    #: Numbers of Go's CurveID; empty: OpenSSL's defaults.
    curves: Sequence[int] = ()


class TlsParameters(PlainStruct, frozen=True):
    """The options in OpenSSL's terms."""

    min_version: int
    ciphers: bytes
    curves: bytes

    def apply_to(self, context: SSL.Context) -> None:
        context.set_min_proto_version(self.min_version)
        context.set_cipher_list(self.ciphers)
        if self.curves:
            lib.SSL_CTX_set1_curves_list(context._context, self.curves)


def tls_parameters(options: TlsOptions) -> TlsParameters:
    """ServingError, with upstream's text, for unknown values, or if nothing remains."""
    min_version = _version(options.min_version)
    ciphers = _ciphers(options.cipher_suites)
    if not ciphers:
        # Only those of TLS 1.3 were requested.
        min_version, ciphers = SSL.TLS1_3_VERSION, list(_SECURE.values())
    if min_version < SSL.TLS1_2_VERSION:
        # The signatures of these versions are below OpenSSL's default security level.
        ciphers = [*ciphers, "@SECLEVEL=0"]
    return TlsParameters(min_version, ":".join(ciphers).encode(), _curves(options.curves))


def _version(name: str) -> int:
    try:
        return VERSIONS[name or "VersionTLS12"]
    except KeyError:
        raise ServingError(f'unknown tls version "{name}"') from None


def _ciphers(names: Sequence[str]) -> list[str]:
    if not names:
        return list(dict.fromkeys(_SECURE.values()))
    known = _SECURE | _INSECURE | dict.fromkeys(_TLS_13, "")
    for name in names:
        if name not in known:
            raise ServingError(f"Cipher suite {name} not supported or doesn't exist")
        if name in _INSECURE:
            log.warning(f"Use of insecure cipher '{name}' detected.")
    asked = [name for name in names if known[name]]
    available = {name: known[name] for name in asked if _is_available(known[name])}
    _warn_of_missing("cipher suites", [name for name in asked if name not in available])
    if asked and not available and not set(names) & set(_TLS_13):
        raise ServingError(f"OpenSSL has none of the cipher suites {', '.join(names)}")
    return list(dict.fromkeys(available.values()))


def _is_available(cipher: str) -> bool:
    try:
        SSL.Context(SSL.TLS_SERVER_METHOD).set_cipher_list(cipher.encode())
    except SSL.Error:
        return False
    return True


def _curves(numbers: Sequence[int]) -> bytes:
    for number in numbers:
        if not 0 < number < 65536:
            raise ServingError(f"curve preference {number} is out of range (must be 1-65535)")
    if not numbers:
        return b""
    if not hasattr(lib, "SSL_CTX_set1_curves_list"):
        raise ServingError("--tls-curve-preferences: this build of cryptography cannot choose curves: leave it out")
    available = {number: _CURVES[number] for number in numbers if number in _CURVES and _has_curve(_CURVES[number])}
    _warn_of_missing("curves", [str(number) for number in numbers if number not in available])
    if not available:
        raise ServingError(f"OpenSSL has none of the curves {', '.join(map(str, numbers))}")
    # The order of the flag is ignored: Go has its own, with the hybrids first.
    order = sorted(available, key=lambda number: (number < 4587, number != 4588, number != 29, number))
    return ":".join(available[number] for number in order).encode()


def _has_curve(name: str) -> bool:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    return bool(lib.SSL_CTX_set1_curves_list(context._context, name.encode()) == 1)


def _warn_of_missing(what: str, missing: Iterable[str]) -> None:
    if listed := ", ".join(missing):
        log.warning(f"OpenSSL lacks some of the {what} asked for, they are left out: {listed}")
