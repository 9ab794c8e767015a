"""Open WebUI's REST interface, as far as installing, checking, the demo and the tests use it.

Covered: the token goes to the given address only (redirects are not followed, `.netrc` is
not read) and stands in no error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import requests

from lessons_loop.deploy.processes import session_for
from lessons_loop.filter.errors import LessonsError

Json = dict[str, Any]
SWITCHES = {"is_active": "toggle", "is_global": "toggle/global"}


class OpenWebUIError(LessonsError):
    """Open WebUI refused a request, or did not answer."""


class NoAnswer(OpenWebUIError):
    """Nothing answered at the address."""


class OpenWebUI:
    """One Open WebUI, signed in as one user."""

    def __init__(self, url: str, *, token: str = "", seconds: float = 60.0) -> None:
        self.url = url.rstrip("/")
        self.token = token
        self.seconds = seconds
        self._session = session_for(self.url)

    def send(
        self, method: str, path: str, body: object = None, *, stream: bool = False
    ) -> requests.Response:
        """Send one request; raise OpenWebUIError only when there is no answer."""
        try:
            return self._session.request(
                method,
                self.url + path,
                json=body,
                auth=self._sign,
                timeout=self.seconds,
                stream=stream,
                allow_redirects=False,
            )
        except (requests.RequestException, ValueError) as error:
            reason = type(error).__name__
            raise NoAnswer(f"{method} {self.url}{path}: no answer ({reason})") from None

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the token; being there at all, it keeps requests from reading `.netrc`."""
        if self.token:
            request.headers["Authorization"] = f"Bearer {self.token}"
        return request

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send one request and return the decoded answer; raise OpenWebUIError on any refusal."""
        response = self.send(method, path, body)
        if response.status_code >= 300:
            raise OpenWebUIError(f"{method} {path}: {response.status_code} {detail(response)}")
        return decoded(response, f"{method} {path}")

    def sign_in(self, email: str, password: str) -> None:
        """Sign in; later requests carry the token."""
        form = {"email": email, "password": password}
        self.token = str(self.ask("POST", "/api/v1/auths/signin", form)["token"])

    def signed_in_as(self, email: str, password: str) -> OpenWebUI:
        """Return another client of the same server, signed in as somebody else."""
        other = OpenWebUI(self.url, seconds=self.seconds)
        other.sign_in(email, password)
        return other

    def add_user(self, name: str, email: str, password: str) -> Json:
        """Create a user of role `user` (needs an admin)."""
        form = {"name": name, "email": email, "password": password, "role": "user"}
        return dict(self.ask("POST", "/api/v1/auths/add", form))

    def function(self, function_id: str) -> Json | None:
        """Return a stored plugin with its source, None where there is none."""
        path = f"/api/v1/functions/id/{function_id}"
        response = self.send("GET", path)
        if response.status_code != 200:
            return None
        return dict(decoded(response, f"GET {path}") or {}) or None

    def install_function(self, function_id: str, name: str, source: str) -> bool:
        """Store a plugin, active and global; return whether anything was written.

        Raises OpenWebUIError when Open WebUI's loader refuses the source.
        """
        written = self.store_function(function_id, name, source)
        return bool(self.switch_on(function_id)) or written

    def store_function(self, function_id: str, name: str, source: str) -> bool:
        """Store a plugin's source where it differs; an existing one keeps name and switches."""
        base = "/api/v1/functions"
        found = self.function(function_id)
        if found and found["content"] == source:
            return False
        where = f"{base}/id/{function_id}/update" if found else f"{base}/create"
        known = (found or {}).get("meta") or {}
        form = {
            "id": function_id,
            "name": (found or {}).get("name") or name,
            "content": source,
            "meta": {"description": known.get("description") or name},
        }
        self.ask("POST", where, form)
        return True

    def switch_on(self, function_id: str, flags: Iterable[str] = SWITCHES) -> list[str]:
        """Make a plugin active and global; return which of the two it was not."""
        state = self.function(function_id) or {}
        off = [flag for flag in flags if not state.get(flag)]
        for flag in off:  # both calls flip
            self.ask("POST", f"/api/v1/functions/id/{function_id}/{SWITCHES[flag]}")
        return off

    def functions(self) -> list[Json]:
        """Return every stored plugin without its source (needs an admin)."""
        return list(self.ask("GET", "/api/v1/functions/list") or [])

    def install_tool(self, tool_id: str, name: str, source: str) -> bool:
        """Store a tool everybody may use; return whether anything was written."""
        base = "/api/v1/tools"
        response = self.send("GET", f"{base}/id/{tool_id}")
        found = dict(response.json() or {}) if response.ok else {}
        if found.get("content") == source:
            return False
        everybody = {"principal_type": "user", "principal_id": "*", "permission": "read"}
        where = f"{base}/id/{tool_id}/update" if found else f"{base}/create"
        form = {"id": tool_id, "name": name, "content": source, "access_grants": [everybody]}
        self.ask("POST", where, form | {"meta": {"description": name}})
        return True

    def valves(self, kind: str, name: str) -> Json:
        """Return the stored valves of a plugin (`functions`) or tool (`tools`)."""
        return dict(self.ask("GET", f"/api/v1/{kind}/id/{name}/valves") or {})

    def set_valves(self, kind: str, name: str, values: Mapping[str, object]) -> None:
        """Replace all stored valves of a plugin (`functions`) or tool (`tools`)."""
        self.ask("POST", f"/api/v1/{kind}/id/{name}/valves/update", dict(values))

    def set_user_valves(self, function_id: str, values: Mapping[str, object]) -> None:
        """Replace the signed-in user's own valves of a plugin."""
        self.ask("POST", f"/api/v1/functions/id/{function_id}/valves/user/update", dict(values))

    def stored_chat(self, chat_id: str) -> Json:
        """Return a saved chat as the server keeps it."""
        return dict(self.ask("GET", f"/api/v1/chats/{chat_id}"))

    def stored_message(self, chat_id: str, message_id: str) -> Json:
        """Return one message of a saved chat, with its status lines and sources."""
        return dict(self.stored_chat(chat_id)["chat"]["history"]["messages"][message_id])

    def warm_embedding(self) -> None:
        """Have the server embed something: a local model's first use takes seconds."""
        query = {"collection_name": "warm-up", "query": "warm up", "k": 1, "hybrid": False}
        self.send("POST", "/api/v1/retrieval/query/doc", query)  # there is no such collection

    def model_ids(self) -> list[str]:
        """Return the models this user can choose; also loads the server's model list."""
        return [str(model["id"]) for model in self.ask("GET", "/api/models")["data"]]

    def chat(self, model: str, text: str, **extra: object) -> requests.Response:
        """Ask as an API client does: not saved, not streamed unless `stream=True` is given."""
        body = {"model": model, "messages": [{"role": "user", "content": text}], "stream": False}
        return self.send("POST", "/api/chat/completions", body | extra)

    def stop_chat(self, chat_id: str) -> None:
        """Press Stop."""
        self.ask("POST", f"/api/tasks/chat/{chat_id}/stop")


def decoded(response: requests.Response, what: str) -> Any:
    """Return an answer's JSON; raise OpenWebUIError."""
    try:
        return response.json()
    except ValueError:
        raise OpenWebUIError(f"{what}: the answer is no JSON") from None


def detail(response: requests.Response) -> str:
    """Return the reason a refusal gives, in one line."""
    try:
        body = response.json()
        text = body.get("detail", body) if isinstance(body, dict) else body
    except ValueError:
        text = response.text
    plain = text if isinstance(text, str) else json.dumps(text)
    return " ".join(plain.split())[:200]
