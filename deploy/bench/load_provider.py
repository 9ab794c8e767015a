"""A model for many chats at once: streams at a fixed pace, embeds in 10 ms, learns one lesson.

    python -m lessons_loop.deploy.bench.load_provider PORT

Each answer begins with what the model was given: the lessons' references, and which worker
asked (the probe plugin puts its number into the request). Covered: chats, titles and the like,
distilling, embeddings. Not covered: errors, tool calls; those are the tests' provider's.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from typing import Any

from aiohttp import web

from lessons_loop.deploy.bench.lessons import WordEmbedder
from lessons_loop.filter.embed import Purpose

MODEL = "load-chat"
PIECES = 20
"""Pieces of an answer."""
PIECE_SECONDS = 0.03
THINK_SECONDS = 0.05
"""Before the first piece."""
EMBED_SECONDS = 0.01
PROVEN = "load_ledger"
"""The table whose use an exchange proves; what is learned is to count there."""
LESSON = f"Count crates in table {PROVEN}."
_REFERENCE = re.compile(r"^- \[(\w{8})\] Trigger: ", re.MULTILINE)
Json = dict[str, Any]
asked: Counter[str] = Counter()
pace = {"distill": 0.0}
"""Seconds a distill request waits for its answer."""
embedder = WordEmbedder()


def system_of(body: Json) -> str:
    """Return all system text of a request."""
    return "\n".join(str(m.get("content")) for m in body["messages"] if m.get("role") == "system")


def is_distill_request(system: str) -> bool:
    """Say whether a request asks to distill lessons."""
    return "NOTHING" in system and '"lessons"' in system


def answer_pieces(body: Json) -> list[str]:
    """Return an answer in pieces; the first tells what came with the question."""
    lessons = ",".join(_REFERENCE.findall(system_of(body)))
    first = f"lessons={lessons} worker={body.get('worker', 0)} "
    return [first, *(f"and this is piece {n} of it " for n in range(1, PIECES))]


def learned(body: Json) -> str:
    """Answer a distill request as a model would that read the transcript."""
    transcript = str(body["messages"][-1].get("content"))
    lines = [int(n) for n in re.findall(r"^\[(\d+)\] (?:CALL|RESULT)", transcript, re.MULTILINE)]
    if PROVEN not in transcript or not lines:
        return "NOTHING"
    lesson = {
        "text": LESSON,
        "kind": "resolution-pattern",
        "trigger": "counting crates",
        "tags": ["crates"],
        "lines": lines,
        "quote": f'"table": "{PROVEN}"',
    }
    return json.dumps({"lessons": [lesson]})


def whole(body: Json) -> web.Response:
    """Answer what is not streamed: a distill request, a title."""
    distilling = is_distill_request(system_of(body))
    text = learned(body) if distilling else "{}"
    asked["distill" if distilling else "task"] += 1
    asked["learned"] += text.startswith('{"lessons"')
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return web.json_response({"id": "c", "object": "chat.completion", "choices": [choice]})


async def streamed(request: web.Request, body: Json) -> web.StreamResponse:
    """Stream an answer at a fixed pace."""
    asked["chat"] += 1
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await asyncio.sleep(THINK_SECONDS)
    await response.prepare(request)
    for piece in answer_pieces(body):
        await response.write(event({"content": piece}, None))
        await asyncio.sleep(PIECE_SECONDS)
    await response.write(event({}, "stop") + b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def event(delta: Json, reason: str | None) -> bytes:
    """Return one line of a streamed answer."""
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    piece = {"id": "c", "object": "chat.completion.chunk", "model": MODEL, "choices": [choice]}
    return f"data: {json.dumps(piece)}\n\n".encode()


async def chat(request: web.Request) -> web.StreamResponse:
    """Answer a chat request."""
    body = await request.json()
    if body.get("stream"):
        return await streamed(request, body)
    if is_distill_request(system_of(body)):
        asked["distill begun"] += 1
        await asyncio.sleep(pace["distill"])
    return whole(body)


async def embeddings(request: web.Request) -> web.Response:
    """Embed as a bag of words, after the fixed delay."""
    body = await request.json()
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    vectors = embedder.embed([str(text) for text in texts], Purpose.DOCUMENT)
    asked["embed"] += 1
    await asyncio.sleep(EMBED_SECONDS)
    rows = [
        {"object": "embedding", "index": n, "embedding": row}
        for n, row in enumerate(vectors.tolist())
    ]
    return web.json_response({"object": "list", "data": rows})


async def models(_request: web.Request) -> web.Response:
    """Name the one model."""
    entry = {"id": MODEL, "object": "model", "owned_by": "load"}
    return web.json_response({"object": "list", "data": [entry]})


async def set_pace(request: web.Request) -> web.Response:
    """Change how long a distill request waits."""
    pace.update(await request.json())
    return web.json_response(pace)


async def counts(_request: web.Request) -> web.Response:
    """Tell how often what was asked."""
    return web.json_response(dict(asked))


def application() -> web.Application:
    """Return the server."""
    made = web.Application(client_max_size=16 * 2**20)
    made.add_routes(
        [
            web.get("/v1/models", models),
            web.get("/counts", counts),
            web.post("/pace", set_pace),
            web.post("/v1/embeddings", embeddings),
            web.post("/v1/chat/completions", chat),
        ]
    )
    return made


if __name__ == "__main__":
    web.run_app(application(), host="127.0.0.1", port=int(sys.argv[1]), print=None)
