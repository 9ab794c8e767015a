"""What an Open WebUI must have before questions are worth asking: plugin, recall, model, tools.

Each refusal is one line with the next step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lessons_loop.deploy.webui.client import OpenWebUI, OpenWebUIError
from lessons_loop.deploy.webui.install import require_admin
from lessons_loop.deploy.webui.plugin_file import is_ours
from lessons_loop.filter.valves import LessonsValves

ADMIN_MODELS = "Admin Panel, Settings, Models"
ACCOUNTS = "the evaluation accounts (role user)"


@dataclass(frozen=True)
class Chosen:
    """What every question is asked with."""

    model: str
    tools: tuple[str, ...]
    system: str = ""


def require_plugin(admin: OpenWebUI) -> str:
    """Return the plugin's id; raise OpenWebUIError unless it is there once and gives lessons."""
    ours = [plugin for plugin in require_admin(admin) if is_ours(plugin)]
    install = f"`lessons install --url {admin.url}`"
    if not ours:
        raise OpenWebUIError(f"the plugin is not installed at {admin.url}: run {install}")
    if len(ours) > 1:
        names = ", ".join(sorted(str(plugin["id"]) for plugin in ours))
        raise OpenWebUIError(f"the plugin is there {len(ours)} times ({names}): delete all but one")
    if not ours[0].get("is_active"):
        raise OpenWebUIError(f"the plugin is switched off at {admin.url}: run {install}")
    valves = LessonsValves.model_validate(admin.valves("functions", str(ours[0]["id"])))
    if not (valves.recall_enabled and valves.top_k and valves.token_budget):
        raise OpenWebUIError(
            "recall is switched off by the valves recall_enabled, top_k or token_budget:"
            f" run {install} with --set recall_enabled=true"
        )
    return str(ours[0]["id"])


def choose(
    admin: OpenWebUI,
    account: OpenWebUI,
    plugin: str,
    wanted: str,
    tools: Sequence[str] | None,
    system: str = "",
) -> Chosen:
    """Return model and tools as `account` can use them; raise OpenWebUIError.

    Without `tools` they are the model's own, which the web page switches on in a new chat.
    """
    model = require_model(admin, account, wanted)
    require_running(admin, plugin, model)
    own = ((model.get("info") or {}).get("meta") or {}).get("toolIds") or ()
    given = tuple(own if tools is None else tools)
    require_tools(account, given)
    return Chosen(str(model["id"]), given, system)


def require_model(admin: OpenWebUI, account: OpenWebUI, wanted: str) -> Mapping[str, Any]:
    """Return the model's entry; raise OpenWebUIError where the account cannot use it."""
    seen = {str(model["id"]): model for model in account.ask("GET", "/api/models")["data"]}
    if wanted in seen:
        return dict(seen[wanted])
    if not wanted and len(seen) == 1:
        return dict(next(iter(seen.values())))
    offered = set(admin.model_ids())
    if not wanted and seen:
        raise OpenWebUIError(
            f"{len(seen)} models are offered: pass --agent-model NAME ({names_of(seen)})"
        )
    if wanted and wanted not in offered:
        raise OpenWebUIError(f"{admin.url} has no model {wanted} ({names_of(offered)})")
    raise OpenWebUIError(
        f"{ACCOUNTS} cannot see {wanted or 'any model'}: make it public or give them"
        f" read access ({ADMIN_MODELS}), then run this again"
    )


def names_of(models: Mapping[str, object] | set[str]) -> str:
    """Return at most five names, for an error."""
    names = sorted(models)
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "") or "it offers none"


def require_running(admin: OpenWebUI, plugin: str, model: Mapping[str, Any]) -> None:
    """Raise OpenWebUIError where the plugin does not run for this model."""
    state = admin.function(plugin) or {}
    meta = (model.get("info") or {}).get("meta") or {}
    if state.get("is_global") or plugin in (meta.get("filterIds") or ()):
        return
    raise OpenWebUIError(
        f"the plugin is not global and {model['id']} does not name it:"
        f" run `lessons install --url {admin.url}`, or add it to the model ({ADMIN_MODELS})"
    )


def require_tools(account: OpenWebUI, tools: Sequence[str]) -> None:
    """Raise OpenWebUIError for a tool the account may not use."""
    seen = {str(tool["id"]) for tool in account.ask("GET", "/api/v1/tools/")}
    missing = [tool for tool in tools if tool not in seen and not tool.startswith("server:")]
    if missing:
        raise OpenWebUIError(
            f"{ACCOUNTS} cannot use the tool {', '.join(missing)}: give them read access"
            " (Workspace, Tools, Access), or pass --tool-ids with others"
        )
