"""README and docs/reference/versions.md name the versions that the code supports, and nothing that cannot be had."""

import re
import tomllib

import pytest
import yaml

from stowplan import __version__
from stowplan.app.command_line.flags.table import KUBE_SCHEDULER_FLAGS
from stowplan.kube.config.older.older_schemas import VERSIONS
from stowplan_cluster.apiserver.simulated_nodes import TEMPLATE, nodes_of
from support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/reference/versions.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "packages/stowplan/pyproject.toml").read_text(encoding="utf-8"))["project"]
both = pytest.mark.parametrize("text", [README, PAGE], ids=["README", "versions.md"])


def row(text, begins):
    return next(line for line in text.splitlines() if line.startswith(f"| {begins}"))


MINORS = [int(version) for one in PROJECT["classifiers"] for version in re.findall(r":: 3\.(\d+)$", one)]


@both
def test_pythons_are_those_of_the_package(text):
    assert f"3.{min(MINORS)} to 3.{max(MINORS)}" in row(text, "Python")


def test_hosted_ci_tests_each_of_them():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == [f"3.{minor}" for minor in MINORS]


def test_the_version_is_the_packages():
    assert f"The version is {__version__}," in PAGE


@both
def test_emulated_versions_are_those_of_the_flag(text):
    usage = next(flag.usage for flag in KUBE_SCHEDULER_FLAGS if flag.name == "emulated-version")
    oldest, newest = re.search(r"from (\S+) to (\S+)\.", usage).groups()
    assert f"kube-scheduler {newest}" in row(text, "decisions")
    assert oldest in row(text, "decisions")


def test_configuration_versions_are_those_that_are_read():
    named = set(re.findall(r"`(v\d\w*)`", row(PAGE, "configuration files")))
    assert named == {"v1", *VERSIONS}
    assert all(version in row(README, "configuration files") for version in ("v1", VERSIONS[0], VERSIONS[-1]))


def test_nodes_of_the_readme_are_those_of_up():
    named = set(re.findall(r"\bnode-\d+", README))
    assert named
    assert named <= {node["metadata"]["name"] for node in nodes_of(TEMPLATE, 12)}


def test_nobody_is_told_to_install_it_from_an_index():
    """Extras may be named: an installed package satisfies them."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/src/**/*.py")]
    wrong = [
        str(page) for page in pages if re.search(r"pip install '?stowplan[\w-]*(?![\w\[-])", page.read_text("utf-8"))
    ]
    assert wrong == []
