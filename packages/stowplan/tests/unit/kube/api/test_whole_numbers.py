import pytest

from stowplan.kube.api.whole_numbers import whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        ("0" * 5000 + "1", 1),
        ("9" * 5000, None),
        *((text, None) for text in ("", "-1", "+1", "1.5", "1_0", " 1", "x", "\u0663", "\u00b2")),
    ],
    ids=lambda value: str(value)[:20],
)
def test_whole_numbers(text, number):
    assert whole_number(text) == number


def test_the_largest_number_is_a_choice():
    assert (whole_number("9", 9), whole_number("10", 9), whole_number("0", -1)) == (9, None, None)
