"""The API server without HTTP: the store, the verbs, and what is known of each kind."""
