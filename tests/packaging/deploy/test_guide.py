"""docs/run/operate.md names existing flags, chart values, files, and sections."""

import re

import pytest
import yaml

from stowplan.app.command_line.flags.table import KUBE_SCHEDULER_FLAGS
from support.processes.deployments import CHART, DEPLOY, ROOT

GUIDE = ROOT / "docs/run/operate.md"
TEXT = GUIDE.read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
#: Flags of other programs: kubectl, kubeadm, podman, go-runner; and of `stowplan explain`.
OTHERS = {"previous", "patches", "ignorefile", "from-scheduler", "insecure-skip-tls-verify"}
OTHERS |= {"log-file", "also-stdout", "redirect-stderr"}


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize(
    "page", [GUIDE, *(folder / "README.md" for folder in (CHART, DEPLOY, ROOT))], ids=lambda page: page.parent.name
)
def test_links_have_targets(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        path, _, section = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if section:
            headings = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert section in map(anchor, headings), target


def test_flags_exist():
    named = set(re.findall(r"`--([a-z][\w-]+)", PROSE))
    assert len(named) > 8
    assert named <= {flag.name for flag in KUBE_SCHEDULER_FLAGS} | OTHERS


def test_paths_of_deploy_exist():
    named = set(re.findall(r"\bdeploy/[\w./-]+\w", TEXT))
    assert named
    assert all((ROOT / name).exists() for name in named)


def test_chart_values_exist():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    text = PROSE + (CHART / "README.md").read_text() + (DEPLOY / "chart/stowplan/values.yaml").read_text()
    groups = "|".join(key for key, value in values.items() if isinstance(value, dict) and value)
    named = set(re.findall(rf"(?<!/)\b({groups})\.(\w+)\b", text))
    assert len(named) > 8
    assert [f"{group}.{key}" for group, key in named if key not in values[group]] == []
