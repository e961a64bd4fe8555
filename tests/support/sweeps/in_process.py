"""Workers that run in this process."""

from concurrent.futures import ThreadPoolExecutor


class InProcessWorkers:
    def __init__(self, number=None):
        pass

    def executor(self):
        return ThreadPoolExecutor(1)

    def parallel(self, executor):
        return 1
