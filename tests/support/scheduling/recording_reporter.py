"""A reporter that records the reports."""

from stowplan.scheduler.engine.context import Reporter


class RecordingReporter(Reporter):
    def __init__(self, reports=None):
        """`reports`: the list to record them in."""
        self.reports = [] if reports is None else reports

    def report(self, problem):
        self.reports.append(problem)
