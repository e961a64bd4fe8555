"""Run many independent simulations in parallel: local processes or a Dask cluster."""

from stowplan_lab.sweeps.workers import Dask, Processes, Workers, WorkersError

__all__ = ["Dask", "Processes", "Workers", "WorkersError"]
