from __future__ import annotations

from support.openwebui import MODEL, PLUGIN, Server


def test_shipped_plugin_loads_active_and_global(openwebui: Server) -> None:
    found = openwebui.admin.function(PLUGIN)
    assert found
    assert (found["type"], found["is_active"], found["is_global"]) == ("filter", True, True)


def test_api_chat_is_answered(openwebui: Server) -> None:
    response = openwebui.admin.chat(MODEL, "hello")
    assert response.status_code == 200
    assert "Echo: hello" in response.text
