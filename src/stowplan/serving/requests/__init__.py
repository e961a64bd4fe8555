"""From the bytes of a connection to a request, and from a page's answer to a response."""
