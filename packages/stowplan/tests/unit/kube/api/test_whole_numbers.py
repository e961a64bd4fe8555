import pytest

from stowplan.kube.api.whole_numbers import share, whole_number


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


@pytest.mark.parametrize(
    ("value", "total", "round_up", "expected"),
    [
        pytest.param(3, 10, True, 3, id="a number"),
        pytest.param(None, 10, True, 0, id="nothing"),
        pytest.param("25%", 10, True, 3, id="rounded up"),
        pytest.param("25%", 10, False, 2, id="rounded down"),
        pytest.param("²%", 4, True, 0, id="no digits"),
        pytest.param(f"{'9' * 5000}%", 4, True, 0, id="out of range"),
        pytest.param("150%", 4, False, 6, id="more than all"),
    ],
)
def test_numbers_and_percentages(value, total, round_up, expected):
    assert share(value, total, round_up=round_up) == expected
