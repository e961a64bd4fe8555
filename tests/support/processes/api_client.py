"""A small API client, with the token and the authority of a kubeconfig."""

import base64
import json
import ssl
import urllib.request

import yaml


class Client:
    def __init__(self, kubeconfig):
        self.config = yaml.safe_load(kubeconfig.read_text())
        cluster = self.config["clusters"][0]["cluster"]
        self.url = cluster["server"]
        self.headers = {"Authorization": "Bearer " + self.config["users"][0]["user"]["token"]}
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.tls = ssl.create_default_context(cadata=ca)

    def __call__(self, path, body=None, *, accept="application/json", method=None, content_type="application/json"):
        """GET, or POST if there is a body, unless `method` says otherwise."""
        data = None if body is None else json.dumps(body).encode()
        headers = {**self.headers, "Content-Type": content_type, "Accept": accept}
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, context=self.tls) as answer:
            return json.loads(answer.read())

    def delete(self, path):
        return self(path, method="DELETE")

    def names(self, path):
        return [item["metadata"]["name"] for item in self(path)["items"]]

    def until(self, path, ready, *, seconds=30):
        """Watches a collection until `ready` accepts its objects by name, and returns them."""
        objects = {}
        for event in self._events(path, seconds):
            if event["type"] == "ERROR":
                # As when a definition of custom resources has changed: from the beginning.
                objects.clear()
                continue
            name = event["object"]["metadata"]["name"]
            objects[name] = event["object"]
            if event["type"] == "DELETED":
                del objects[name]
            if ready(objects):
                return objects
        raise AssertionError(f"{path} did not get ready: {json.dumps(objects)[:4000]}")

    def _events(self, path, seconds):
        """Of a watch, and of another one if the server ends it with an error."""
        request = urllib.request.Request(f"{self.url}{path}?watch=1&timeoutSeconds={seconds}", headers=self.headers)
        event = {"type": "ERROR"}
        while event["type"] == "ERROR":
            event = {"type": ""}
            with urllib.request.urlopen(request, context=self.tls) as lines:
                for line in lines:
                    event = json.loads(line)
                    yield event
