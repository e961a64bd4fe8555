"""HTTP: the client of API servers, and our own ports."""
