"""Every public name is on the API pages, with a docstring whose example runs."""

import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import stowplan
from support import console
from support.paths import ROOT

DOCS = ROOT / "docs/extend"
#: Packages whose `__all__` is the public API.
PACKAGES = ["stowplan", "stowplan.ask.what_if", "stowplan.ask.rebalance", "stowplan.testing.live", "stowplan.testing"]
PACKAGES += ["stowplan_lab", "stowplan_lab.sweeps"]
NAMES = [(package, name) for package in PACKAGES for name in import_module(package).__all__]
#: A protocol: there is nothing to call.
WITHOUT_EXAMPLE = {("stowplan_lab.sweeps", "Workers")}


def shown(page):
    """What a page has docstrings of: identifiers with the members that are listed there."""
    for block in re.split(r"^::: ", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        identifier, _, options = block.partition("\n")
        members = re.search(r"^ +members: \[(.*?)\]", options, re.MULTILINE | re.DOTALL)
        # `on` has quotes: it is a boolean in YAML.
        yield identifier, [] if members is None else re.split(r",\s*", members[1].replace('"', ""))


def on_page(page):
    """Public names, as (package, name)."""
    found = []
    for identifier, members in shown(page):
        package, _, name = identifier.rpartition(".")
        # Otherwise a class.
        whole = identifier.islower() and members
        found += [(identifier, member) for member in members] if whole else [(package, name)]
    return found


def with_examples():
    for package, name in NAMES:
        public = getattr(import_module(package), name)
        is_error = inspect.isclass(public) and issubclass(public, Exception)
        if not is_error and (package, name) not in WITHOUT_EXAMPLE:
            yield f"{package}.{name}", public
    methods = dict(shown("api.md"))["stowplan.Cluster"]
    yield from ((f"Cluster.{method}", getattr(stowplan.Cluster, method)) for method in methods)


WITH_EXAMPLES = dict(with_examples())


def test_every_public_name_is_on_the_page():
    assert sorted(NAMES) == sorted(on_page("api.md"))


def test_every_name_for_plugins_is_on_their_page():
    modules = ["arguments", "objects", "preemption"]
    packages = ["stowplan.plugins", *(f"stowplan.plugins.{module}" for module in modules)]
    names = [(package, name) for package in packages for name in import_module(package).__all__]
    assert sorted(names) == sorted(on_page("plugins-api.md"))


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_it_has_a_docstring_of_its_own(package, name):
    text = getattr(import_module(package), name).__doc__ or ""
    # Otherwise dataclasses make one of the signature.
    assert text
    assert not text.startswith(f"{name}(")


@pytest.fixture(scope="module")
def names():
    """What the examples use, as the page says."""
    return {name: getattr(import_module(package), name) for package, name in NAMES} | {"Path": Path}


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_its_example_runs(name, names):
    public = WITH_EXAMPLES[name]
    gates = dict.fromkeys(("GenericWorkload", "TopologyAwareWorkloadScheduling"), True)
    with console.examples_copy():
        cluster = stowplan.Cluster.from_files("shop/cluster.yaml")
        groups = stowplan.Cluster.from_files("groups/racks.yaml", "groups/too-large.yaml", feature_gates=gates)
        names = {**names, "stowplan": stowplan, "cluster": cluster, "groups": groups}
        [found] = doctest.DocTestFinder(recurse=False).find(public, name, globs=names)
        assert found.examples
        report = []
        doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(found, out=report.append)
    assert not report, "".join(report)
