"""Many independent runs at once: on this machine's cores, or on a Dask cluster."""
