"""Requests to a server process in exact bytes."""

import ssl
from http.client import HTTPSConnection
from urllib.parse import urlsplit

import yaml

SECONDS = 20


class Target:
    def __init__(self, server):
        config = yaml.safe_load(server.kubeconfig.read_text())
        self._address = urlsplit(config["clusters"][0]["cluster"]["server"]).netloc
        self._token = config["users"][0]["user"]["token"]
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    def ask(self, method, path, body=None, **headers):
        """Status, body and response."""
        sent = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = HTTPSConnection(self._address, timeout=SECONDS, context=self._tls)
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return response.status, response.read(), response
        finally:
            connection.close()
