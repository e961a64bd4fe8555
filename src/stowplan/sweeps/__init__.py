"""Run many independent simulations in parallel: local processes or a Dask cluster."""
