"""Put the plugin into an existing Open WebUI: create or update, switch on, set valves, read back.

Covered: a second run (changes nothing), a plugin pasted under another id, valves the admin set
(kept), everything that is not an Open WebUI with an admin's token (one line each).
Not covered: a token sent in clear text over http to another machine; use https.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from lessons_loop.deploy.webui.client import (
    NoAnswer,
    OpenWebUI,
    OpenWebUIError,
    decoded,
    detail,
)
from lessons_loop.deploy.webui.plugin_file import (
    PLUGIN_ID,
    PLUGIN_TITLE,
    front_matter,
    is_ours,
    release,
)
from lessons_loop.filter.address import public_url
from lessons_loop.filter.errors import LessonsError

PLUGIN_NAME = "Lessons"
SECONDS = 30.0
GATEWAY = (502, 503, 504)
_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass
class Installed:
    """What is true in Open WebUI after an installation, read back from it."""

    url: str
    open_webui: str
    """Its version."""
    function: str
    """The id the plugin is stored under."""
    version: str
    """The plugin's."""
    source_digest: str
    outcome: str
    """created | updated | unchanged"""
    switched_on: list[str] = field(default_factory=list)
    """Of `is_active`, `is_global`, those that were off before."""
    valves_set: dict[str, object] = field(default_factory=dict)
    """The valves this run changed; None: back to the default."""
    valves: dict[str, object] = field(default_factory=dict)
    """All stored valves."""

    @property
    def changed(self) -> bool:
        """Whether anything was written."""
        return self.outcome != "unchanged" or bool(self.switched_on or self.valves_set)


def server_address(url: str) -> str:
    """Return an Open WebUI's base address, cleaned; raise OpenWebUIError."""
    cleaned = url.strip()
    try:
        parts = urlsplit(cleaned)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        parts.port  # noqa: B018  # raises for what is no port
    except ValueError:
        usable = False
    if not usable:
        shown = public_url(cleaned)[:80]
        raise OpenWebUIError(f"{shown!r} is no http(s) address: pass --url http://HOST:PORT")
    if parts.username or parts.password:
        raise OpenWebUIError("the address carries a password: pass --url without, and --token")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def clean_token(token: str) -> str:
    """Return the token without stray white space; raise OpenWebUIError for what is none."""
    cleaned = token.strip()
    if not _TOKEN.fullmatch(cleaned):
        raise OpenWebUIError(
            "the token holds characters no token has: pass --token as Open WebUI shows it"
        )
    return cleaned


def connect(url: str, token: str = "", seconds: float = SECONDS) -> OpenWebUI:
    """Return a client of an Open WebUI that is not asked yet; raise OpenWebUIError."""
    return OpenWebUI(
        server_address(url), token=clean_token(token) if token else "", seconds=seconds
    )


def open_webui_version(client: OpenWebUI) -> str:
    """Return the version of the Open WebUI at the address; raise OpenWebUIError."""
    try:
        response = client.send("GET", "/api/version")
    except NoAnswer as error:
        reason = str(error).rpartition(" ")[2]
        if "SSL" in reason:
            raise NoAnswer(
                f"{client.url} has no usable TLS {reason}: pass --url http://…,"
                " or correct its certificate"
            ) from None
        raise NoAnswer(
            f"nothing answers at {client.url} {reason}: start Open WebUI, or correct --url"
        ) from None
    if 300 <= response.status_code < 400:
        raise OpenWebUIError(redirected(client.url, response.headers.get("Location", "")))
    if response.status_code in GATEWAY:
        raise OpenWebUIError(
            f"{client.url} answers {response.status_code}: the proxy is up, Open WebUI is not yet"
        )
    try:
        version = decoded(response, "version").get("version")
    except (OpenWebUIError, AttributeError):
        version = None
    if response.status_code != 200 or not isinstance(version, str):
        raise OpenWebUIError(
            f"{client.url} is no Open WebUI (/api/version is missing there):"
            " pass --url with the address its page has"
        )
    return version


def redirected(url: str, target: str) -> str:
    """Say what a redirect of the version's address means: moved, or a sign-in before it."""
    shown = public_url(target)[:200]
    if shown.endswith("/api/version"):
        return f"{url} redirects: pass --url {shown.removesuffix('/api/version')}"
    return (
        f"{url} redirects to {shown or 'nowhere'}, maybe a sign-in before it:"
        " pass an address that reaches Open WebUI itself"
    )


def require_release(version: str, source: str) -> None:
    """Raise OpenWebUIError when this Open WebUI is older than the plugin needs."""
    needed = front_matter(source).get("required_open_webui_version", "0")
    if release(version) < release(needed):
        raise OpenWebUIError(
            f"Open WebUI {version[:20]} is too old, the plugin needs {needed}: upgrade it first"
        )


def require_admin(client: OpenWebUI) -> list[dict[str, Any]]:
    """Return the stored plugins; raise OpenWebUIError unless the token is an admin's."""
    response = client.send("GET", "/api/v1/functions/list")
    if response.status_code == 200:
        return list(decoded(response, "GET /api/v1/functions/list") or [])
    if response.status_code == 403:
        raise OpenWebUIError(
            f"the token was refused ({detail(response)[:60]}): allow API keys in"
            " Admin Settings, or pass a session token"
        )
    if response.status_code == 401 and client.send("GET", "/api/v1/functions/").status_code == 200:
        raise OpenWebUIError("the token is not an admin's: pass the token of an admin")
    if response.status_code == 401:
        raise OpenWebUIError(
            f"{client.url} does not know the token: make one in"
            " Settings, Account, API keys, and pass it as --token"
        )
    raise OpenWebUIError(f"{client.url} answers {response.status_code}: {detail(response)}")


def function_id(
    functions: list[dict[str, Any]], name: str = PLUGIN_ID, title: str = PLUGIN_TITLE
) -> str:
    """Return the id a plugin is stored under, or shall be; raise OpenWebUIError."""
    ours = [str(function.get("id")) for function in functions if is_ours(function, title)]
    if len(ours) > 1:
        raise OpenWebUIError(
            f"{title} is there {len(ours)} times ({', '.join(sorted(ours))}):"
            " delete all but one in Admin Panel, Functions"
        )
    taken = {str(function.get("id")) for function in functions}
    if not ours and name in taken:
        raise OpenWebUIError(
            f"another plugin has the id {name}: rename or delete it in Admin Panel, Functions"
        )
    return ours[0] if ours else name


def install(
    client: OpenWebUI,
    source: str,
    valves: Mapping[str, object],
    note: Callable[[str], None] = lambda _: None,
) -> Installed:
    """Bring plugin, switches and the given valves in place; raise OpenWebUIError.

    A valve of None goes back to its default. `note` is told each stage.
    """
    note("asking Open WebUI who it is")
    version = open_webui_version(client)
    require_release(version, source)
    functions = require_admin(client)
    name = function_id(functions)
    there = any(function.get("id") == name for function in functions)
    note("storing the plugin")
    written = store(client, name, source)
    note("setting valves")
    changed = set_valves(client, name, valves)
    note("switching the plugin on")
    switched = client.switch_on(name)
    note("reading back")
    fields = front_matter(source)
    found = Installed(
        url=client.url,
        open_webui=version,
        function=name,
        version=fields.get("version", ""),
        source_digest=fields.get("source_digest", ""),
        outcome=("updated" if there else "created") if written else "unchanged",
        switched_on=switched if there else [],
        valves_set=changed,
        valves=client.valves("functions", name),
    )
    read_back(client, found, source)
    return found


def store(client: OpenWebUI, name: str, source: str, title: str = PLUGIN_NAME) -> bool:
    """Store the source where it differs; raise OpenWebUIError when it is refused."""
    try:
        return client.store_function(name, title, source)
    except NoAnswer:
        raise
    except OpenWebUIError as error:
        raise OpenWebUIError(
            f"Open WebUI did not take the plugin ({error}): its own log has the reason"
        ) from None


def set_valves(client: OpenWebUI, name: str, wanted: Mapping[str, object]) -> dict[str, object]:
    """Set the valves that differ, keep the others; return those that were changed."""
    stored = client.valves("functions", name)
    changed = {
        valve: value
        for valve, value in wanted.items()
        if (valve in stored if value is None else stored.get(valve) != value)
    }
    if changed:
        kept = {valve: value for valve, value in (stored | changed).items() if value is not None}
        client.set_valves("functions", name, kept)
    return changed


def read_back(client: OpenWebUI, found: Installed, source: str) -> None:
    """Raise OpenWebUIError unless Open WebUI has what was written."""
    state = client.function(found.function) or {}
    if state.get("content") != source:
        raise OpenWebUIError("Open WebUI stored another text than it was sent: run it again")
    if not (state.get("is_active") and state.get("is_global")):
        raise OpenWebUIError("Open WebUI switched the plugin off again: its own log has the reason")
    wrong = [valve for valve, value in found.valves_set.items() if found.valves.get(valve) != value]
    if wrong:
        raise OpenWebUIError(f"Open WebUI did not keep the valve {wrong[0]}: run it again")
    if all(function.get("id") != found.function for function in client.functions()):
        raise LessonsError(
            "Open WebUI runs without plugins (ENABLE_PLUGINS or ENABLE_FUNCTIONS is false):"
            " switch them on and restart it"
        )
