"""A reporter that keeps what it is told."""

from stowplan.engine.reporter import Reporter


class RecordingReporter(Reporter):
    def __init__(self, reports=None):
        """`reports`: a list to keep them in."""
        self.reports = [] if reports is None else reports

    def report(self, problem):
        self.reports.append(problem)
