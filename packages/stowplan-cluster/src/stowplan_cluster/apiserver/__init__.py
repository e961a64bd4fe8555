"""The API server without HTTP: store, verbs and per-kind rules."""
