"""The HTTP front of the API server: requests in, answers and watches out."""
