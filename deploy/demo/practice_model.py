"""The practice model: a small OpenAI-compatible server that stands in for a language model.

A script, not a language model. It lets the loop run without a network and proves
the machinery, not the benefit. It answers as chat model with tool calls, as
distiller and as reviewer, by what the request is, and keeps no state: whatever
it knows stands in the request.

    python -m lessons_loop.deploy.demo.practice_model --port 9101 --log requests.jsonl

With `--error-rate` it errs as often as asked, drawn from the seed and the request.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lessons_loop.deploy.demo.practice_bad import bad_distill_reply, misled_arguments
from lessons_loop.deploy.demo.practice_chat import Step, next_step, past_calls, text_of
from lessons_loop.deploy.demo.practice_options import PracticeOptions, errs
from lessons_loop.deploy.demo.practice_roles import (
    distill_reply,
    is_distill_prompt,
    is_review_prompt,
    review_reply,
    task_reply,
)

MODEL_ID = "practice-model"
MODEL_NAME = "Practice model (a script, not an LLM)"
BODY_LIMIT = 20_000_000
CHARACTERS_PER_TOKEN = 4
AS_IT_IS = PracticeOptions()


def reply_to(body: Mapping[str, Any], options: PracticeOptions = AS_IT_IS) -> tuple[str, Step]:
    """Return the role a request asks for and what the model says."""
    messages = [m for m in _listed(body.get("messages")) if isinstance(m, Mapping)]
    system = "\n".join(text_of(m.get("content")) for m in messages if m.get("role") == "system")
    asked = [text_of(m.get("content")) for m in messages if m.get("role") == "user"]
    last = asked[-1] if asked else ""
    if is_distill_prompt(system):
        distilled = bad_distill_reply if options.bad_advice else distill_reply
        return "distiller", Step(distilled(last))
    if is_review_prompt(system):
        return "reviewer", Step(review_reply(last))
    if (reply := task_reply(last)) is not None:
        return "task", Step(reply)
    names = [_tool_name(tool) for tool in _listed(body.get("tools"))]
    wrong = errs(options, body.get("seed"), last, not past_calls(messages))
    step = next_step(messages, names, wrong)
    return "chat", step._replace(arguments=misled_arguments(step.arguments, system))


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _tool_name(tool: object) -> str:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    return str(function.get("name", "")) if isinstance(function, Mapping) else ""


def usage_of(body: Mapping[str, Any], step: Step) -> dict[str, int]:
    """Return the tokens of a request and its answer, counted by their characters."""
    asked = json.dumps([body.get("messages"), body.get("tools")], ensure_ascii=False)
    said = step.text + step.tool + step.arguments
    spent = [-(-len(text) // CHARACTERS_PER_TOKEN) for text in (asked, said)]
    return {
        "prompt_tokens": spent[0],
        "completion_tokens": spent[1],
        "total_tokens": sum(spent),
    }


def completion(step: Step, usage: Mapping[str, int]) -> dict[str, Any]:
    """Return a whole answer in OpenAI's shape."""
    message: dict[str, Any] = {"role": "assistant", "content": step.text or None}
    if step.tool:
        message["tool_calls"] = [_tool_call(step)]
    choice = {"index": 0, "message": message, "finish_reason": _finish(step)}
    return _envelope("chat.completion") | {"choices": [choice], "usage": usage}


def chunks(step: Step, usage: Mapping[str, int] | None) -> Iterator[dict[str, Any]]:
    """Yield the same answer as OpenAI streams it."""
    head = _envelope("chat.completion.chunk")
    for delta in _deltas(step):
        yield head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield head | {"choices": [{"index": 0, "delta": {}, "finish_reason": _finish(step)}]}
    if usage is not None:
        yield head | {"choices": [], "usage": usage}


def _deltas(step: Step) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    if step.tool:
        call = _tool_call(step)
        arguments = call["function"]["arguments"]
        start = call | {"function": {"name": step.tool, "arguments": ""}}
        yield {"tool_calls": [{"index": 0, **start}]}
        yield {"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}
    for word in re.findall(r"\S*\s*", step.text):
        if word:
            yield {"content": word}


def _tool_call(step: Step) -> dict[str, Any]:
    function = {"name": step.tool, "arguments": step.arguments}
    return {"id": f"call_{uuid.uuid4().hex[:12]}", "type": "function", "function": function}


def _finish(step: Step) -> str:
    return "tool_calls" if step.tool else "stop"


def _envelope(kind: str) -> dict[str, Any]:
    ident = f"chatcmpl-{uuid.uuid4().hex[:12]}"
    return {"id": ident, "object": kind, "created": int(time.time()), "model": MODEL_ID}


def model_list() -> dict[str, Any]:
    """Return the answer to /v1/models."""
    card = {"id": MODEL_ID, "object": "model", "created": 0, "owned_by": "lessons-loop"}
    return {"object": "list", "data": [card | {"name": MODEL_NAME}]}


class PracticeServer(ThreadingHTTPServer):
    """The server; `log` gets one JSON line per chat request."""

    daemon_threads = True

    def __init__(
        self, port: int, log: Path | None = None, options: PracticeOptions = AS_IT_IS
    ) -> None:
        super().__init__(("127.0.0.1", port), PracticeRequest)
        self.options = options
        self.log, self._writing = log, threading.Lock()

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about a client that went away; that is what Stop does."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def note(self, role: str, body: Mapping[str, Any], step: Step) -> None:
        """Append a request and its answer to the log."""
        if self.log is None:
            return
        entry = {"at": time.time(), "role": role, "body": body, "answer": step._asdict()}
        with self._writing, self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


class PracticeRequest(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = 60
    server: PracticeServer

    def do_GET(self) -> None:
        """Answer /v1/models."""
        if self.path.partition("?")[0].rstrip("/") in ("/v1/models", "/models"):
            self._send(HTTPStatus.OK, model_list())
        else:
            self._fail(HTTPStatus.NOT_FOUND, f"no such path: {self.path}")

    def do_POST(self) -> None:
        """Answer /v1/chat/completions."""
        body = self._body()
        if body is None:
            self._fail(HTTPStatus.BAD_REQUEST, "the request body is no JSON object")
        elif not self.path.partition("?")[0].rstrip("/").endswith("/chat/completions"):
            self._fail(HTTPStatus.NOT_FOUND, f"no such path: {self.path}")
        else:
            self._answer(body)

    def _body(self) -> dict[str, Any] | None:
        stated = self.headers.get("Content-Length") or ""
        length = int(stated) if stated.isdecimal() else 0
        if not 0 < length <= BODY_LIMIT:
            self.close_connection = True
            return None
        try:
            body = json.loads(self.rfile.read(length))
        except ValueError:
            return None
        return body if isinstance(body, dict) else None

    def _answer(self, body: dict[str, Any]) -> None:
        role, step = reply_to(body, self.server.options)
        self.server.note(role, body, step)
        usage = usage_of(body, step)
        if not body.get("stream"):
            self._send(HTTPStatus.OK, completion(step, usage))
            return
        asked = body.get("stream_options")
        counted = isinstance(asked, Mapping) and bool(asked.get("include_usage"))
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for chunk in chunks(step, usage if counted else None):
            self.wfile.write(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _fail(self, status: HTTPStatus, message: str) -> None:
        self._send(status, {"error": {"message": message, "type": "invalid_request_error"}})

    def _send(self, status: HTTPStatus, content: dict[str, Any]) -> None:
        body = json.dumps(content, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal quiet; `--log` is the record."""


def share(text: str) -> float:
    """Read a share between 0 and 1."""
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share: give 0 to 1")
    return value


def main(arguments: list[str] | None = None) -> int:
    """Serve until interrupted or terminated."""
    parser = argparse.ArgumentParser(prog="practice_model", description=MODEL_NAME)
    parser.add_argument("--port", type=int, default=0, help="loopback port; 0 takes a free one")
    parser.add_argument("--log", type=Path, help="file that gets each request as a JSON line")
    parser.add_argument("--error-rate", type=share, default=0.0, help="share of wrong answers")
    parser.add_argument("--seed", type=int, default=0, help="which answers are wrong")
    parser.add_argument("--bad-advice", action="store_true", help="distil what does harm")
    options = parser.parse_args(arguments)
    manner = PracticeOptions(options.error_rate, options.seed, options.bad_advice)
    try:
        server = PracticeServer(options.port, options.log, manner)
    except OSError as error:
        print(
            f"port {options.port} cannot be used: {error.strerror}; try --port 0", file=sys.stderr
        )
        return 1
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"{MODEL_NAME}: {server.url}", flush=True)
    try:
        server.serve_forever(poll_interval=0.1)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
