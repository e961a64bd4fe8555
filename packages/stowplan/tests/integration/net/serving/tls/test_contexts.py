"""Which client certificates end the handshake."""

import pytest
from OpenSSL import crypto

from stowplan.net.serving.tls import contexts
from support.http.client_chains import authority, client

VERSION_3, VERSION_8 = bytes.fromhex("a003020102"), bytes.fromhex("a003020107")


@pytest.mark.parametrize("version", [VERSION_3, VERSION_8], ids=["valid", "of a version that does not exist"])
def test_a_malformed_certificate_is_left_to_the_authenticator(version):
    """An exception here would be a traceback in the log for each such client."""
    der = client(authority()).der.replace(VERSION_3, version, 1)
    assert contexts._is_cheap(None, crypto.load_certificate(crypto.FILETYPE_ASN1, der), 0, 0, 1)
