"""The extender of `program` as a process, until the end of the block."""

import json
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

PROGRAM = Path(__file__).with_name("program.py")


class RunningExtender:
    def __init__(self, port, scheme="http"):
        self.url = f"{scheme}://127.0.0.1:{port}"

    def asked(self):
        """The requests since the last call, in order: verb, headers, body, and the client's port."""
        with urllib.request.urlopen(f"{self.url}/log") as answer:
            log = json.load(answer)
        return [
            SimpleNamespace(
                path=path, verb=path.rpartition("/")[2], headers=headers, text=text, body=json.loads(text), port=port
            )
            for path, headers, text, port in log
        ]

    def dislikes(self, *nodes):
        request = urllib.request.Request(f"{self.url}/nodes", json.dumps(nodes).encode(), method="POST")
        with urllib.request.urlopen(request) as answer:
            answer.read()

    def settings(self, behaviour="good", *verbs, **more):
        """An extender of a configuration, with these verbs."""
        found = {"urlPrefix": f"{self.url}/{behaviour}", **{f"{verb}Verb": verb for verb in verbs}, **more}
        return found | ({"weight": 1} if "prioritize" in verbs and "weight" not in more else {})


@contextmanager
def running_extender(*tls):
    """`tls`: paths of a certificate, its key, and the clients' certificate authority."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), *map(str, tls)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield RunningExtender(int(process.stdout.readline()), "https" if tls else "http")
    finally:
        process.stdin.close()
        process.kill()
        process.wait()
        process.stdout.close()


def configuration(*extenders, **more):
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": list(extenders),
        **more,
    }
