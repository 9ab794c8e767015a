"""The two evaluation accounts of an Open WebUI: made on first use, apart in one user valve.

Covered: role `user`, nothing is learned from them (`contribute` off), one password for both, kept
readable by the owner only. The accounts stay: an admin grants them models and tools once.
Not covered: two runs from different state folders at once; the second resets the password, which
signs the first out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lessons_loop.deploy.local.home import kept_secret
from lessons_loop.deploy.webui.client import OpenWebUI, OpenWebUIError
from lessons_loop.eval.trials import Arm

ACCOUNTS = {
    Arm.OFF: ("Lessons evaluation, off", "lessons-eval-off@lessons-loop.invalid"),
    Arm.ON: ("Lessons evaluation, on", "lessons-eval-on@lessons-loop.invalid"),
    Arm.PLACEBO: ("Lessons evaluation, placebo", "lessons-eval-placebo@lessons-loop.invalid"),
}
"""Name and address; `.invalid` belongs to nobody."""
PAIR = (Arm.OFF, Arm.ON)
REFUSALS = {
    403: "password sign-in is off (ENABLE_PASSWORD_AUTH), the evaluation accounts need it:"
    " switch it on for the run, or use the harness agent (--agent-url)",
    429: "too many sign-ins: wait three minutes",
}
PASSWORD_FILE = "openwebui-accounts"
PASSWORD_BYTES = 24
"""The longest password Open WebUI takes is 72 bytes; these are 32 characters."""


def signed_in_admin(client: OpenWebUI, email: str, password: str) -> OpenWebUI:
    """Return the client signed in, where it carries no token yet; raise OpenWebUIError."""
    if client.token:
        return client
    if not (email and password):
        raise OpenWebUIError(
            "no admin of Open WebUI given: set LESSONS_OPENWEBUI_TOKEN, or pass --admin-email"
            " and set LESSONS_EVAL_PASSWORD"
        )
    sign_in(client, email, password)
    return client


def open_accounts(
    admin: OpenWebUI, state: Path, plugin: str, arms: Sequence[Arm] = PAIR
) -> dict[Arm, OpenWebUI]:
    """Return the accounts signed in, their valves set; raise OpenWebUIError, StartError."""
    state.mkdir(parents=True, exist_ok=True)
    password = kept_secret(state / PASSWORD_FILE, PASSWORD_BYTES)
    found = {arm: open_account(admin, arm, password) for arm in arms}
    give_lessons(found, plugin, Arm.ON)
    return found


def give_lessons(accounts: Mapping[Arm, OpenWebUI], plugin: str, to: Arm) -> None:
    """Let one account have a plugin's lessons, and nothing be learned from any of them."""
    for arm, client in accounts.items():
        values = {"use_lessons": arm is to, "contribute": False, "show_lessons": True}
        client.set_user_valves(plugin, values)


def open_account(admin: OpenWebUI, arm: Arm, password: str) -> OpenWebUI:
    """Return one account signed in, made or its password set anew where that is needed."""
    name, email = ACCOUNTS[arm]
    known = find_user(admin, email)
    client = OpenWebUI(admin.url, seconds=admin.seconds)
    if known is None:
        admin.add_user(name, email, password)
    elif known.get("role") != "user":
        raise OpenWebUIError(
            f"{email} has the role {known.get('role')}, an evaluation account needs `user`:"
            " change it in Admin Panel, Users"
        )
    elif signs_in(client, email, password):
        return client
    else:
        admin.ask("POST", f"/api/v1/users/{known['id']}/update", {"password": password})
    sign_in(client, email, password)
    return client


def find_user(admin: OpenWebUI, email: str) -> Mapping[str, Any] | None:
    """Return the user of this address, None where there is none; raise OpenWebUIError."""
    found = admin.ask("GET", f"/api/v1/users/?query={email}")
    return next((user for user in found["users"] if user.get("email") == email), None)


class WrongPassword(OpenWebUIError):
    """Address or password is wrong."""


def signs_in(client: OpenWebUI, email: str, password: str) -> bool:
    """Sign in and tell whether the password was right; raise OpenWebUIError for the rest."""
    try:
        sign_in(client, email, password)
    except WrongPassword:
        return False
    return True


def sign_in(client: OpenWebUI, email: str, password: str) -> None:
    """Sign in; raise OpenWebUIError with the next step for each way it can be refused.

    Open WebUI takes 15 sign-ins of one account in three minutes.
    """
    form = {"email": email, "password": password}
    response = client.send("POST", "/api/v1/auths/signin", form)
    if response.status_code == 400:
        raise WrongPassword(f"sign-in as {email} failed: wrong address or password")
    if response.status_code in REFUSALS:
        raise OpenWebUIError(f"sign-in as {email}: {REFUSALS[response.status_code]}")
    told = response.json() if response.ok else {}
    if not isinstance(told, dict) or not told.get("token"):
        raise OpenWebUIError(
            f"sign-in as {email}: {response.status_code} without a token (a second factor?):"
            " except the account from it"
        )
    if told.get("email") != email:
        raise OpenWebUIError(
            f"{client.url} signs everybody in as {told.get('email')} (WEBUI_AUTH, trusted header):"
            " arms cannot be told apart there; use the harness agent (--agent-url)"
        )
    client.token = str(told["token"])
