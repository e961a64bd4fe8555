"""Extenders over HTTP: what they are asked, and what their answers mean. Who sends it is `client.extender_calls`."""
