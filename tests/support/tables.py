"""Tables of hundreds of small cases in one test: pytest takes several milliseconds for a test of its own."""

from contextlib import contextmanager

#: A group with more failures says how many they are, and shows these.
SHOWN = 20


@contextmanager
def every_case():
    """Yields a context for each case, by its name. All cases are tried; those that failed are raised together."""
    failed, tried = [], 0

    @contextmanager
    def case(name):
        nonlocal tried
        tried += 1
        try:
            yield
        except Exception as error:
            error.add_note(f"case: {name}")
            failed.append(error)

    yield case
    assert tried, "the table is empty"
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {tried} cases failed", failed[:SHOWN])
