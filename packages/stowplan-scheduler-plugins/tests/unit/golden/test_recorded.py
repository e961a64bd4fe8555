"""Answers equal the recorded ones of scheduler-plugins; `make test` asks for a tenth of the scenarios."""

from pathlib import Path

import pytest

from stowplan_scheduler_plugins.golden.categories import CONFIG, KNOWN, compared, listed
from support.examples import sampled

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("category", sorted({CONFIG, *KNOWN}))
def test_answers_equal_the_recorded_ones(category):
    answers = list(compared(DATA, category, sampled))
    assert answers
    assert not [(answer.name, answer.differences) for answer in answers if answer.differences]


def test_each_category_is_known_and_has_data():
    assert set(listed(DATA)) == {CONFIG, *KNOWN}
