"""CEL rules of custom resources: every server has the same results for the same definitions and objects.

`rules_of_custom_resources.json` has the results of kube-apiserver 1.36.2; a real server is checked against it, too.
"""

import json
from pathlib import Path

import pytest

from support.http.custom_rules import CASES, CaseRunner
from support.http.raw_sockets import Target

ANSWERS = json.loads(Path(__file__).with_name("rules_of_custom_resources.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_rules_of_custom_resources(api_server, name):
    schema, values = CASES[name]
    plural = f"case{list(CASES).index(name)}x"
    assert CaseRunner(Target(api_server)).answers(plural, schema, values) == ANSWERS[name]
