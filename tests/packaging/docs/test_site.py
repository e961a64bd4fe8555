"""The site builds without warnings, loads nothing from other hosts, and its nav has every page."""

import re
import shutil
import subprocess
import sys

import pytest

from support.paths import ROOT

pytest.importorskip("mkdocs", reason="needs the extra docs")

#: Inputs of the build; packages for the docstrings in docs/extend/api.md.
READ = ["docs", "examples", "benchmarks", "website", "deploy", "packages", "tests", "mkdocs.yml", "README.md"]
READ += ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "pyproject.toml"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = build(ROOT, folder)
    assert built.returncode == 0, built.stderr
    return folder


def build(root, folder, *options):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder), *options]
    return subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=120, env={"NO_MKDOCS_2_WARNING": "1"}
    )


def test_nothing_is_loaded_from_other_hosts(site):
    loaded = re.compile(
        r"""<(?:script|img|iframe|source)[^>]+src=["']?(https?:)?//|<link[^>]+href=["']?(https?:)?//|@import"""
    )
    assert [str(page) for page in site.rglob("*.html") if loaded.search(page.read_text(encoding="utf-8"))] == []
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert styles
    assert not any(re.search(r"url\(['\"]?(https?:)?//", style) for style in styles)


def test_every_page_is_in_the_nav(site):
    home = (site / "index.html").read_text(encoding="utf-8")
    pages = {str(path.relative_to(site)) for path in site.rglob("*.html")} - {"404.html"}
    assert len(pages) > 20
    assert pages - set(re.findall(r'href="([^"#]+)"', home)) <= {"index.html"}


def test_the_api_page_has_the_docstrings_and_the_notebook_its_tables(site):
    api = (site / "extend/api.html").read_text(encoding="utf-8")
    assert "stowplan.Cluster.from_kubeconfig" in api
    assert "selected as kubectl does" in api
    assert ">TaintToleration</th>" in (site / "use/notebook.html").read_text(encoding="utf-8")


def test_linked_files_of_the_repository_are_served(site):
    start = (site / "use/start.html").read_text(encoding="utf-8")
    assert 'href="../files/examples/shop/cluster.yaml"' in start
    copied = site / "files/examples/shop/cluster.yaml"
    assert copied.read_bytes() == (ROOT / "examples/shop/cluster.yaml").read_bytes()


def test_a_dead_link_fails_the_build(tmp_path):
    root = tmp_path / "copy"
    root.mkdir()
    for name in READ:
        if name in ("packages", "tests", "deploy"):
            (root / name).symlink_to(ROOT / name)
        elif (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name)
        else:
            shutil.copy(ROOT / name, root / name)
    config = (root / "mkdocs.yml").read_text()
    # Without docstrings, which take most of the time and are built above.
    (root / "mkdocs.yml").write_text(re.sub(r"  - mkdocstrings:\n(    .*\n)+", "", config))
    page = root / "docs/use/faq.md"
    page.write_text(page.read_text() + "\n[nowhere](../../examples/nowhere.yaml)\n")
    built = build(root, tmp_path / "out")
    assert built.returncode != 0
    assert "faq.md: link to ../../examples/nowhere.yaml, which is not in the repository" in built.stderr
