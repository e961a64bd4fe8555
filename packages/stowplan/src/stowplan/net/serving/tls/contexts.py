"""Server TLS contexts: one per certificate.

The context is selected by the client's SNI name, else by the local address. Names configured for a certificate take
precedence over those in one, and exact names over wildcards.

Client certificates are requested but not verified in the handshake: they are checked with the request. So an expired
one is answered with 401, like upstream, instead of a failed handshake. The handshake only fails for keys that Go
refuses, too: checking their signatures can take long.

Upstream: staging/src/k8s.io/apiserver/pkg/server/dynamiccertificates/named_certificates.go, tlsconfig.go; Go's
crypto/tls (getCertificate).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from OpenSSL import SSL, crypto

from stowplan.kube.structs import PlainStruct
from stowplan.net.serving.tls.key_pairs import Identity
from stowplan.net.serving.tls.tls_parameters import TlsParameters

_HTTP = b"http/1.1"
#: Limits of Go's crypto/tls, crypto/rsa and crypto/x509, but for the bytes.
_MAX_RSA_BITS = 8192
_MAX_RSA_EXPONENT = 2**31 - 1
_MAX_CERTIFICATE_BYTES = 32 * 1024
_CURVES = (ec.SECP224R1, ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)


class IdentitySource(Protocol):
    @property
    def identity(self) -> Identity: ...

    @property
    def names(self) -> tuple[str, ...]:
        """Its names; empty: those in the certificate."""

    @property
    def generation(self) -> int:
        """Changes with the identity."""

    def refresh(self) -> None: ...


class _Contexts(PlainStruct, frozen=True):
    default: SSL.Context
    by_name: Mapping[str, SSL.Context]

    def of_name(self, name: str) -> SSL.Context:
        plain = name.lower().rstrip(".")
        wildcard = ".".join(("*", *plain.split(".")[1:]))
        return self.by_name.get(plain) or self.by_name.get(wildcard) or self.default


class TlsContexts:
    def __init__(
        self,
        default: IdentitySource,
        named: Sequence[IdentitySource] = (),
        *,
        parameters: TlsParameters,
    ) -> None:
        self._sources = (default, *named)
        self._parameters = parameters
        self._generations = self._now()
        self._contexts = self._build()

    def of_connection(self, local_address: str) -> SSL.Context:
        """The initial context; replaced after the client has sent SNI."""
        for source in self._sources:
            source.refresh()
        generations = self._now()
        if generations != self._generations:
            self._generations, self._contexts = generations, self._build()
        return self._contexts.by_name.get(local_address, self._contexts.default)

    def _now(self) -> tuple[int, ...]:
        return tuple(source.generation for source in self._sources)

    def _build(self) -> _Contexts:
        default, *named = [self._context(source.identity) for source in self._sources]
        implicit: dict[str, SSL.Context] = {}
        explicit: dict[str, SSL.Context] = {}
        # The first source with a name wins.
        for source, context in reversed(list(zip(self._sources[1:], named, strict=True))):
            if source.names:
                explicit |= dict.fromkeys(source.names, context)
            else:
                implicit |= dict.fromkeys(source.identity.own_names, context)
        contexts = _Contexts(default, implicit | explicit)
        if named:
            for context in (default, *named):
                context.set_tlsext_servername_callback(_Chooser(contexts))
        return contexts

    def _context(self, identity: Identity) -> SSL.Context:
        context = SSL.Context(SSL.TLS_SERVER_METHOD)
        # No session resumption: a resumed connection would lack its client's certificates.
        context.set_options(
            SSL.OP_NO_TICKET | SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE
        )
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_session_id(b"stowplan")
        self._parameters.apply_to(context)
        leaf, *others = identity.certificates
        context.use_certificate(leaf)
        for other in others:
            context.add_extra_chain_cert(other)
        context.use_privatekey(identity.key)
        context.set_alpn_select_callback(_select_protocol)
        context.set_verify(SSL.VERIFY_PEER, _is_cheap)
        # OpenSSL checks the signatures of a presented chain, whatever the callback says. `client_certificates.py` does
        # so later, outside of handshakes.
        context.set_verify_depth(0)
        return context


class _Chooser:
    """Switches to the certificate of the SNI name."""

    def __init__(self, contexts: _Contexts) -> None:
        self._contexts = contexts

    def __call__(self, connection: SSL.Connection) -> None:
        name = connection.get_servername()
        if name:
            connection.set_context(self._contexts.of_name(name.decode("ascii", "replace")))


def _is_cheap(connection: SSL.Connection, certificate: crypto.X509, error: int, depth: int, ok: int) -> bool:
    """Whether the certificate is small, and signatures by its key are quickly checked. Called before the first is.

    A key of 3,072 bits whose public exponent is as long takes 10 ms, and holds up everybody's handshakes. OpenSSL keeps
    some fifteen times the length of a certificate with many names, for as long as the connection lasts.
    """
    try:
        if len(crypto.dump_certificate(crypto.FILETYPE_ASN1, certificate)) > _MAX_CERTIFICATE_BYTES:
            return False
        # The key alone: for parts of a malformed certificate `cryptography` warns.
        key = certificate.get_pubkey().to_cryptography_key()
    except (ValueError, TypeError, UnsupportedAlgorithm, crypto.Error):
        return False
    if isinstance(key, rsa.RSAPublicKey):
        return key.key_size <= _MAX_RSA_BITS and key.public_numbers().e <= _MAX_RSA_EXPONENT
    if isinstance(key, ec.EllipticCurvePublicKey):
        return isinstance(key.curve, _CURVES)
    return isinstance(key, ed25519.Ed25519PublicKey)


def _select_protocol(connection: SSL.Connection, offered: list[bytes]) -> bytes | SSL._NoOverlappingProtocols:
    return _HTTP if _HTTP in offered else SSL.NO_OVERLAPPING_PROTOCOLS
