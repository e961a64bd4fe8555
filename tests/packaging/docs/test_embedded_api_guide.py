"""The program in docs/use/embedded-api.md works as described."""

import re

from support.paths import ROOT

GUIDE = ROOT / "docs/use/embedded-api.md"


def test_the_pod_of_the_guide_starts_running():
    (program,) = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    program = program.replace(
        "            break\n", "            seen.append(event.object.spec.node_name)\n            break\n"
    )
    seen = []
    exec(compile(program, "docs/use/embedded-api.md", "exec"), {"__name__": "guide", "seen": seen})
    assert seen == ["n1"]
