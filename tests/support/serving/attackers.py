"""Clients that pipeline random tokens on many connections, as a program: `attackers.py PORT CONNECTIONS`.

Prints "ready" once all have connected; a closed connection is reopened soon. Exits when its standard input is closed.
"""

import asyncio
import os
import ssl
import sys
from contextlib import suppress

PIPELINED = 50


def requests():
    return b"".join(
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n" % os.urandom(16).hex().encode()
        for _ in range(PIPELINED)
    )


async def attack(port, context, connected):
    while True:
        with suppress(OSError, ssl.SSLError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            try:
                writer.write(requests())
                connected()
                while await reader.read(65536):
                    writer.write(requests())
            finally:
                writer.transport.abort()
        await asyncio.sleep(0.2)


async def main(port, number):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    came, all_came = 0, asyncio.Event()

    def connected():
        nonlocal came
        came += 1
        if came == number:
            all_came.set()

    attacks = [asyncio.create_task(attack(port, context, connected)) for _ in range(number)]
    await all_came.wait()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for one in attacks:
        one.cancel()
    await asyncio.gather(*attacks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
