"""Requests to a model: servers that misbehave, what is recorded, what a recording answers."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.eval.agent.wire import (
    EXCHANGES,
    HttpWire,
    NoRecording,
    RecordingWire,
    ReplayWire,
    read_exchanges,
    request_key,
)
from lessons_loop.filter.errors import ModelError, StoreError, UnreadableReply
from support.llm_server import (
    LlmServer,
    breaks_off,
    completion,
    dribbles,
    dribbles_headers,
    floods,
    hangs,
    http_error,
    redirects,
    refuses,
    says,
    sends,
)

KEY = "sk-fake-0123456789abcdefghij"
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": False, "seed": 5}


def text_of(reply):
    return reply["choices"][0]["message"]["content"]


class Scripted:
    """A wire that gives prepared replies, for recordings."""

    name, notes = "scripted", ()

    def __init__(self, *replies):
        self.replies = list(replies)
        self.lock = threading.Lock()

    def post(self, body):
        with self.lock:
            reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def test_reply_comes_as_the_server_sent_it():
    with LlmServer([says("hello")]) as server:
        assert text_of(HttpWire(server.url, KEY).post(BODY)) == "hello"
    sent = server.requests[0]
    assert sent.body == BODY and sent.headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (http_error(500, "boom"), "HTTP 500: boom"),
        (http_error(401, f"bad key {KEY}"), r"HTTP 401: bad key \[key\]"),
        (sends(b"<html>hello</html>"), "no JSON object"),
        (sends([1, 2]), "no JSON object"),
        (sends(b'data: {"choices": []}\n\n'), "only streams"),
        (sends(b"[" * 100_000), "no JSON object"),
        (breaks_off(), "cannot be reached"),
        (redirects("http://127.0.0.1:9/elsewhere"), "redirects elsewhere"),
        (floods(3_000_000), "sent more than 2000000 bytes"),
        (hangs(100), "did not answer within 0.5 s"),
        (dribbles(100), "did not answer within 0.5 s"),
        (dribbles_headers(100), "did not answer within 0.5 s"),
    ],
)
def test_a_bad_server_is_one_error_in_time(step, message):  # T-16 and its kind
    started = time.monotonic()
    with LlmServer([step]) as server, pytest.raises(ModelError, match=message) as caught:
        HttpWire(server.url, KEY, seconds=0.5 if "within" in message else 20).post(BODY)
    assert KEY not in str(caught.value) and "\n" not in str(caught.value)
    assert time.monotonic() - started < 60 and len(server.requests) <= 3


def test_nobody_there_is_one_error():
    with pytest.raises(ModelError, match="cannot be reached"):
        HttpWire("http://user:pw@127.0.0.1:9/v1", KEY, seconds=5).post(BODY)
    with pytest.raises(ModelError, match="no http"):
        HttpWire("ftp://host", KEY)


def test_netrc_is_not_read(tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password fake")
    monkeypatch.setenv("NETRC", str(netrc))
    with LlmServer([says("hello")]) as server:
        HttpWire(server.url).post(BODY)
    assert "Authorization" not in server.requests[0].headers


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again(status):
    waits = []
    busy = http_error(status, "busy", Retry_After="2")
    with LlmServer([busy, busy, says("at last")]) as server:
        wire = HttpWire(server.url, KEY, seconds=30, sleep=waits.append)
        assert text_of(wire.post(BODY)) == "at last"
    assert waits == [2.0, 2.0]


def test_a_long_wait_is_not_waited():
    with (
        LlmServer([http_error(429, "later", Retry_After="3600")]) as server,
        pytest.raises(ModelError, match="429"),
    ):
        HttpWire(server.url, KEY, seconds=30).post(BODY)
    assert len(server.requests) == 1


def test_a_refused_seed_is_left_out_and_told_once():
    with LlmServer([refuses("seed", "Unsupported parameter: 'seed'", says("fine"))]) as server:
        wire = HttpWire(server.url, KEY)
        assert [text_of(wire.post(BODY | {"n": turn})) for turn in range(3)] == ["fine"] * 3
    assert ["seed" in one.body for one in server.requests] == [True, False, False, False]
    assert len(wire.notes) == 1 and "`seed`" in wire.notes[0]


def test_two_refused_parameters_are_left_out():
    step = refuses("seed", "seed: extra fields", refuses("temperature", "temperature?", says("k")))
    with LlmServer([step]) as server:
        wire = HttpWire(server.url, KEY)
        assert text_of(wire.post(BODY | {"temperature": 0})) == "k"
    assert len(wire.notes) == 2 and "temperature" not in server.requests[-1].body


def test_an_error_that_only_names_the_seed_changes_nothing():
    with LlmServer([http_error(400, "the seed catalogue is too long")]) as server:
        wire = HttpWire(server.url, KEY)
        for _ in range(2):
            with pytest.raises(ModelError, match="catalogue"):
                wire.post(BODY)
    assert wire.notes == () and "seed" in server.requests[-2].body


def test_key_stands_nowhere(tmp_path):
    with LlmServer([says("hello"), http_error(500, f"leak {KEY}")]) as server:
        wire = RecordingWire(HttpWire(f"http://u:{KEY}@127.0.0.1:{server.port}", KEY), tmp_path)
        wire.post(BODY)
        with pytest.raises(ModelError):
            wire.post(BODY | {"seed": 6})
    shown = f"{wire.name} {HttpWire(server.url, KEY)!r} {wire.file.read_text()}"
    assert KEY not in shown and "leak [key]" in shown


def test_recording_answers_in_place_of_a_model(tmp_path):
    with LlmServer([says("hello")]) as server:
        wire = RecordingWire(HttpWire(server.url, KEY), tmp_path)
        live = wire.post(BODY)
    turned = dict(reversed(BODY.items()))
    again = ReplayWire(tmp_path).post(turned)
    assert again == live and len(server.requests) == 1
    assert again.seconds > 0


def test_recording_is_private(tmp_path):
    wire = RecordingWire(Scripted({"a": 1}), tmp_path / "run")
    wire.post(BODY)
    assert stat.S_IMODE(wire.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(wire.file.parent.stat().st_mode) == 0o700


def test_what_is_not_recorded_is_an_error(tmp_path):
    RecordingWire(Scripted({"a": 1}), tmp_path).post(BODY)
    with pytest.raises(ModelError, match=r"not recorded: request [0-9a-f]{12}"):
        ReplayWire(tmp_path).post(BODY | {"seed": 6})


def test_equal_requests_get_their_replies_in_order(tmp_path):
    wire = RecordingWire(Scripted({"n": 1}, {"n": 2}), tmp_path)
    wire.post(BODY), wire.post(BODY)
    replay = ReplayWire(tmp_path)
    assert [replay.post(BODY)["n"], replay.post(BODY)["n"]] == [1, 2]
    with pytest.raises(ModelError, match="not recorded more than 2 times"):
        replay.post(BODY)


def test_an_outage_that_passed_is_not_replayed(tmp_path):
    wire = RecordingWire(Scripted(ModelError("down"), {"n": 1}, ModelError("gone")), tmp_path)
    with pytest.raises(ModelError):
        wire.post(BODY)
    wire.post(BODY)
    with pytest.raises(ModelError):
        wire.post(BODY | {"seed": 6})
    replay = ReplayWire(tmp_path)
    assert replay.post(BODY) == {"n": 1}
    with pytest.raises(ModelError, match="gone"):
        replay.post(BODY | {"seed": 6})


def test_a_torn_line_costs_only_itself(tmp_path):
    RecordingWire(Scripted({"n": 1}), tmp_path).post(BODY)
    file = tmp_path / EXCHANGES
    file.write_bytes(file.read_bytes() + b'{"key": "abc", "rep')
    RecordingWire(Scripted({"n": 2}), tmp_path).post(BODY | {"seed": 6})
    replay = ReplayWire(tmp_path)
    assert [replay.post(BODY)["n"], replay.post(BODY | {"seed": 6})["n"]] == [1, 2]


def test_threads_and_programs_write_whole_lines(tmp_path):
    wires = [RecordingWire(Scripted(*[{"t": "x" * 5000}] * 100), tmp_path) for _ in range(2)]
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, 'tests');"
        "from test_eval_agent_wire import *;"
        "w = RecordingWire(Scripted(*[{'t': 'y' * 5000}] * 100), Path(sys.argv[1]));"
        "[w.post(BODY | {'seed': -n}) for n in range(100)]"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: wires[n % 2].post(BODY | {"seed": n + 1}), range(200)))
    assert other.wait(120) == 0
    replies, _ = read_exchanges(tmp_path / EXCHANGES)
    assert sum(map(len, replies.values())) == 300


@pytest.mark.parametrize("content", [None, "", "no json\n", '{"key": 5}\n[]\n{"key": "a"}\n'])
def test_no_recording_is_told(tmp_path, content):
    if content is not None:
        (tmp_path / EXCHANGES).write_text(content)
    with pytest.raises(NoRecording, match=r"recorded exchange|cannot be read"):
        ReplayWire(tmp_path)


def test_requests_are_kept_masked_and_replies_as_they_came(tmp_path):
    secret = "password=hunter2-fake-value"
    body = BODY | {"messages": [{"role": "user", "content": f"use {secret} now"}]}
    wire = RecordingWire(Scripted(completion(f"I used {secret}")), tmp_path)
    wire.post(body)
    row = json.loads((tmp_path / EXCHANGES).read_text())
    assert "hunter2" not in json.dumps(row["request"]) and row["key"] == request_key(body)
    assert secret in text_of(ReplayWire(tmp_path).post(body))


def test_a_folder_that_cannot_be_used_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be used"):
        RecordingWire(Scripted(), tmp_path / "file" / "run")


def test_odd_bytes_survive_a_recording(tmp_path):
    odd = {"text": "a\u2028b\ud800 \x00 ü", "n": 1e300}
    RecordingWire(Scripted(odd), tmp_path).post(BODY | {"m": "\ud800"})
    assert ReplayWire(tmp_path).post(BODY | {"m": "\ud800"}) == odd


@given(
    st.dictionaries(
        st.text(max_size=5), st.recursive(st.none() | st.text(max_size=9), st.lists, max_leaves=5)
    )
)
def test_key_depends_on_content_alone(body):
    assert request_key(body) == request_key(dict(reversed(list(body.items()))))
    assert request_key(body | {"new key": 1}) != request_key(body)


def test_a_flood_is_an_unreadable_reply():
    with LlmServer([floods(3_000_000)]) as server, pytest.raises(UnreadableReply):
        HttpWire(server.url).post(BODY)
