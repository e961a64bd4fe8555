"""The committed build of the page, and its types, equal what their sources produce."""

import shutil
import subprocess
import sys

import pytest

from support.paths import ROOT, STOWPLAN

PAGE = ROOT / "page"
BUILT = STOWPLAN / "stowplan" / "ui" / "static"


def node(*arguments):
    if shutil.which("node") is None or not (PAGE / "node_modules" / "@biomejs").is_dir():
        pytest.skip("node is not installed, or `make page` has not been run")
    done = subprocess.run(["node", *arguments], cwd=PAGE, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_new_build_is_identical_and_small(tmp_path):
    said = node("build.mjs", str(tmp_path))
    assert float(said.split()[0]) < 300
    assert files(tmp_path).keys() == files(BUILT).keys()
    assert [name for name, content in files(tmp_path).items() if files(BUILT)[name] != content] == []


def test_the_protocol_is_generated_from_the_structs():
    script = PAGE.parent / "website" / "page_protocol.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ((PAGE / "src" / "protocol.ts").read_text(), ""), f"run {script.name} again"


def test_type_check():
    node("node_modules/typescript/bin/tsc", "--noEmit")


def test_linter_and_format():
    node("node_modules/@biomejs/biome/bin/biome", "check", "--error-on-warnings")


def test_javascript_tests():
    node("test.mjs")


def test_the_lock_file_names_no_registry():
    assert "://" not in (PAGE / "package-lock.json").read_text().replace("https://opencollective.com", "").replace(
        "https://github.com/sponsors", ""
    )
