"""One-line description of a certificate for the log.

Upstream: staging/src/k8s.io/apiserver/pkg/server/dynamiccertificates/util.go; its lines end with the current time,
which our log lines start with.
"""

from __future__ import annotations

from datetime import datetime

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stowplan.kube.api.field_errors import go_quote

#: Others as dotted numbers; upstream has numbers of its own for those.
_USAGES = {ExtendedKeyUsageOID.CLIENT_AUTH: "client", ExtendedKeyUsageOID.SERVER_AUTH: "serving"}


def certificate_detail(certificate: x509.Certificate) -> str:
    name, issuer = (_values(of, NameOID.COMMON_NAME)[-1:] for of in (certificate.subject, certificate.issuer))
    groups = _values(certificate.subject, NameOID.ORGANIZATION_NAME)
    usages, names = _usages_and_names(certificate)
    parts = [
        f"{go_quote(''.join(name))} [{','.join(usages)}]",
        *([f"groups=[{','.join(groups)}]"] if groups else ()),
        *([f"validServingFor=[{','.join(names)}]"] if names else ()),
        f"issuer={go_quote('<self>' if name == issuer else ''.join(issuer))}",
        f"({_time(certificate.not_valid_before_utc)} to {_time(certificate.not_valid_after_utc)})",
    ]
    return " ".join(parts)


def _usages_and_names(certificate: x509.Certificate) -> tuple[list[str], list[str]]:
    try:
        extensions = certificate.extensions
    except ValueError:
        # Broken extensions do not prevent using the rest.
        return [], []
    usages: list[str] = []
    names: list[str] = []
    for extension in extensions:
        value = extension.value
        if isinstance(value, x509.ExtendedKeyUsage):
            usages = [_USAGES.get(usage, usage.dotted_string) for usage in value]
        elif isinstance(value, x509.SubjectAlternativeName):
            addresses = map(str, value.get_values_for_type(x509.IPAddress))
            names = [*addresses, *value.get_values_for_type(x509.DNSName)]
    return usages, names


def _values(name: x509.Name, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(one.value) for one in name.get_attributes_for_oid(oid)]


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} +0000 UTC"
