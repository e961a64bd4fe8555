"""Tables of hundreds of small cases in one test: a separate pytest test takes several milliseconds each."""

from contextlib import contextmanager

#: A group with more failures is cut to this number of them, with the total.
SHOWN = 20


@contextmanager
def every_case():
    """Yields a context manager per named case. All cases are run; failures are raised together."""
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
