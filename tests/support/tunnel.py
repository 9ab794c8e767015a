"""A way through a network namespace's wall: TCP on one side, a socket file between, TCP beyond.

python tunnel.py LISTEN CONNECT      each `unix:PATH` or `tcp:PORT`; prints the port it listens on
"""

from __future__ import annotations

import asyncio
import contextlib
import sys


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes until it ends."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


async def relay(listen: str, connect: str) -> None:
    """Serve for ever."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kind, _, place = connect.partition(":")
        try:
            if kind == "unix":
                there = await asyncio.open_unix_connection(place)
            else:
                there = await asyncio.open_connection("127.0.0.1", int(place))
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    kind, _, place = listen.partition(":")
    if kind == "unix":
        server: asyncio.Server = await asyncio.start_unix_server(serve, place)
    else:
        server = await asyncio.start_server(serve, "127.0.0.1", int(place))
    print(server.sockets[0].getsockname()[1] if kind == "tcp" else place, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(relay(sys.argv[1], sys.argv[2]))
