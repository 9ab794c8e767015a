from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

from lessons_loop.deploy.demo.practice_model import MODEL_ID, PracticeServer

LESSONS = [sys.executable, "-m", "lessons_loop.deploy.cli"]


def test_demo_goes_round_with_a_model_behind_a_url() -> None:
    foreign = ("OPENAI_API_", "RAG_", "LESSONS_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    env["OPENAI_API_KEY"] = "obviously-fake-key"
    with PracticeServer(0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = ["demo", "--json", "--model-url", server.url, "--model", MODEL_ID]
        done = subprocess.run(
            [*LESSONS, *words], capture_output=True, text=True, env=env, timeout=500, check=False
        )
        server.shutdown()
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["model"] == f"{MODEL_ID} at {server.url}"
    assert figures["second"]["tool_calls"] < figures["first"]["tool_calls"]
    assert "obviously-fake-key" not in done.stdout + done.stderr
