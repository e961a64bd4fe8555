"""HTTP responses as bytes: valid ones in all forms, and invalid ones."""

import gzip

from stowplan.net.client.http.http1 import LONGEST_HEAD

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
GZIP = OK + b"Content-Encoding: gzip\r\n"
ZIPPED = gzip.compress(b"zipped" * 9)

#: The bytes, and what is read from them: code, body, whether the connection is kept open.
COMPLETE = {
    "length": (OK + b"Content-Length: 3\r\n\r\nabc", (200, b"abc", True)),
    "no length at all": (OK + b"Content-Length: 0\r\n\r\n", (200, b"", True)),
    "no reason": (b"HTTP/1.1 201\r\nContent-Length: 1\r\n\r\na", (201, b"a", True)),
    "empty reason": (b"HTTP/1.1 201 \r\nContent-Length: 1\r\n\r\na", (201, b"a", True)),
    "any case": (OK + b"cOnTeNt-LeNgTh:3\r\n\r\nabc", (200, b"abc", True)),
    "spaces around a value": (OK + b"Content-Length: \t 3 \t\r\n\r\nabc", (200, b"abc", True)),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"", True)),
    "no content despite a length": (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", (204, b"", True)),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", (304, b"", True)),
    "chunks": (CHUNKED + b"1\r\na\r\nA\r\n0123456789\r\n0\r\n\r\n", (200, b"a0123456789", True)),
    "one empty chunk": (CHUNKED + b"0\r\n\r\n", (200, b"", True)),
    "a large number of the last chunk": (CHUNKED + b"3\r\nabc\r\n000\r\n\r\n", (200, b"abc", True)),
    "extensions": (CHUNKED + b'3;a=b;c="d"\r\nabc\r\n0 ; x\r\n\r\n', (200, b"abc", True)),
    "trailers": (CHUNKED + b"3\r\nabc\r\n0\r\nA: b\r\nContent-Length: 9\r\n\r\n", (200, b"abc", True)),
    "line ends within chunks": (CHUNKED + b"5\r\n\r\n0\r\n\r\n0\r\n\r\n", (200, b"\r\n0\r\n", True)),
    "continue": (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\na", (200, b"a", True)),
    "early hints": (b"HTTP/1.1 103 E\r\nLink: x\r\n\r\n" * 3 + OK + b"Content-Length: 1\r\n\r\na", (200, b"a", True)),
    "close": (OK + b"Connection: close\r\nContent-Length: 1\r\n\r\na", (200, b"a", False)),
    "close among others": (
        OK + b"Connection: x\r\nConnection: Close\r\nContent-Length: 1\r\n\r\na",
        (200, b"a", False),
    ),
    "1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", (200, b"a", False)),
    "1.0 that is kept": (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na", (200, b"a", True)),
    "1.0 with chunks": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        (200, b"a", False),
    ),
    "gzip": (GZIP + b"Content-Length: %d\r\n\r\n" % len(ZIPPED) + ZIPPED, (200, b"zipped" * 9, True)),
    "gzip in chunks": (
        GZIP
        + b"Transfer-Encoding: chunked\r\n\r\n5\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n"
        % (ZIPPED[:5], len(ZIPPED) - 5, ZIPPED[5:]),
        (200, b"zipped" * 9, True),
    ),
    "gzip of nothing": (GZIP + b"Content-Length: 0\r\n\r\n", (200, b"", True)),
    "identity": (OK + b"Content-Encoding: identity\r\nContent-Length: 1\r\n\r\na", (200, b"a", True)),
    "an error": (b"HTTP/1.1 503 Sorry\r\nContent-Length: 1\r\n\r\na", (503, b"a", True)),
    "a code nobody knows": (b"HTTP/1.1 999 What\r\nContent-Length: 1\r\n\r\na", (999, b"a", True)),
    "latin-1": (OK + b"X: \xe9\xff\r\nContent-Length: 1\r\n\r\na", (200, b"a", True)),
}
#: The same, if the connection ends.
UNTIL_THE_END = {
    "the end": (OK + b"\r\nabc", (200, b"abc", False)),
    "the end, at once": (OK + b"\r\n", (200, b"", False)),
    "1.0 and the end": (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nabc", (200, b"abc", False)),
    "gzip and the end": (GZIP + b"\r\n" + ZIPPED, (200, b"zipped" * 9, False)),
}
#: With a pattern of the error message.
WRONG = {
    "TLS": (b"\x15\x03\x01\x00\x02\x02\x16", 'it begins with "'),
    "SSH": (b"SSH-2.0-OpenSSH_9.6\r\n", 'it begins with "SSH-2.0'),
    "HTTP/2": (b"HTTP/2 200\r\n\r\n", "its first line is"),
    "HTTP/0.9": (b"<html>", 'it begins with "<html>"'),
    "RTSP": (b"RTSP/1.0 200 OK\r\n\r\n", "its first line is"),
    "an empty line first": (b"\r\n" + OK + b"Content-Length: 0\r\n\r\n", "its first line is"),
    "no code": (b"HTTP/1.1 OK\r\n\r\n", "its first line is"),
    "two digits": (b"HTTP/1.1 20 OK\r\n\r\n", "its first line is"),
    "four digits": (b"HTTP/1.1 2000 OK\r\n\r\n", "its first line is"),
    "a code below 100": (b"HTTP/1.1 099 OK\r\n\r\n", "its first line is"),
    "LF only": (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "CR LF"),
    "LF among others": (OK + b"A: b\nContent-Length: 0\r\n\r\n", "control characters"),
    "CR in a header": (OK + b"A: b\rc\r\nContent-Length: 0\r\n\r\n", "control characters"),
    "CR and LF in two headers": (OK + b"A: b\rc\r\nD: \nContent-Length: 0\r\n\r\n", "control characters"),
    "NUL in a header": (OK + b"A: \0\r\nContent-Length: 0\r\n\r\n", "control characters"),
    "a header without a name": (OK + b": x\r\nContent-Length: 0\r\n\r\n", 'headers is called ""'),
    "no header": (OK + b"hello world\r\nContent-Length: 0\r\n\r\n", 'called "hello world"'),
    "a space before the colon": (OK + b"Content-Length : 0\r\n\r\n", 'called "Content-Length "'),
    "a header over two lines": (OK + b"A: b\r\n c\r\nContent-Length: 0\r\n\r\n", 'called " c"'),
    "a long head": (OK + b"A: " + b"x" * LONGEST_HEAD + b"\r\n\r\n", "its head is longer than"),
    "a head without end": (OK + b"A: b\r\n" * LONGEST_HEAD, "its head is longer than"),
    "two lengths": (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "its Content-Length is"),
    "a negative length": (OK + b"Content-Length: -1\r\n\r\n", 'its Content-Length is "-1"'),
    "a signed length": (OK + b"Content-Length: +1\r\n\r\na", "its Content-Length is"),
    "a hexadecimal length": (OK + b"Content-Length: 0x1\r\n\r\na", "its Content-Length is"),
    "a length in other digits": (OK + b"Content-Length: \xb2\r\n\r\n", "its Content-Length is"),
    "an empty length": (OK + b"Content-Length:\r\n\r\n", 'its Content-Length is ""'),
    "an absurd length": (OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", "its Content-Length is"),
    "chunks and a length": (
        OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        'is "chunked" beside a Content-Length',
    ),
    "another coding": (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "its Transfer-Encoding is"),
    "chunked twice": (
        OK + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n",
        'its Transfer-Encoding is "chunked, chunked"',
    ),
    "no chunk length": (CHUNKED + b"\r\nabc\r\n0\r\n\r\n", 'a chunk\'s length is ""'),
    "no hexadecimal chunk length": (CHUNKED + b"xyz\r\nabc\r\n", 'a chunk\'s length is "xyz"'),
    "a signed chunk length": (CHUNKED + b"-3\r\nabc\r\n", "a chunk's length is"),
    "an absurd chunk length": (CHUNKED + b"f" * 16 + b"\r\n", "a chunk's length is"),
    "a chunk that is too long": (CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n", "longer than announced"),
    "a chunk that is much too long": (CHUNKED + b"3\r\nabc" + b"d" * 99, "longer than announced"),
    "a chunk line without end": (CHUNKED + b"3;" + b"x" * 5000, "a line between chunks is longer"),
    "trailers without end": (CHUNKED + b"0\r\n" + b"A: b\r\n" * LONGEST_HEAD, "its trailers are longer"),
    "no gzip": (GZIP + b"Content-Length: 1\r\n\r\nx", "not one whole gzip file"),
    "no gzip at all": (GZIP + b"Content-Length: 20\r\n\r\n" + b"x" * 20, "its body is not gzip"),
    "half a gzip": (GZIP + b"Content-Length: 20\r\n\r\n" + ZIPPED[:20], "not one whole gzip file"),
    "gzip and more": (GZIP + b"Content-Length: %d\r\n\r\n" % (len(ZIPPED) + 1) + ZIPPED + b"x", "not one whole gzip"),
    "brotli": (OK + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\nx", 'its Content-Encoding is "br"'),
    "upgrade": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", "switches protocols"),
}
#: Responses that end too early.
CUT_OFF = {
    "nothing": b"",
    "half a version": b"HTT",
    "half a head": OK + b"A: b\r\n",
    "only 100": b"HTTP/1.1 100 Continue\r\n\r\n",
    "half a body": OK + b"Content-Length: 3\r\n\r\nab",
    "half a chunk": CHUNKED + b"3\r\nab",
    "a chunk without line end": CHUNKED + b"3\r\nabc",
    "half a chunk line": CHUNKED + b"3\r\nabc\r\n0",
    "no last line": CHUNKED + b"3\r\nabc\r\n0\r\nA: b\r\n",
}
