"""The README's Python block runs unchanged."""

import re

from support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    (tmp_path / "scheduler.yaml").write_text(config)
    (example,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    namespace = {"__name__": "readme"}
    exec(compile(example, "README.md", "exec"), namespace)
    assert namespace["verdict"].to_dict()["feasible"] == ["big"]
