from stowplan_lab.simulation.report.simulation_report import LEFT_OUT
from support.paths import ROOT


def test_the_documentation_has_the_same_list():
    text = (ROOT / "docs/use/simulate.md").read_text(encoding="utf-8").partition("\n## Not modelled\n")[2]
    items = [" ".join(item.split()) for item in text.split("\n* ")[1:]]
    assert items == list(LEFT_OUT)
