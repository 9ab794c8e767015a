"""Advice that a person has to decide on, by subject; the same words in harmless advice."""

from __future__ import annotations

import pytest

from lessons_loop.promote.lint.acts import find_acts


def rules(text: str) -> list[str]:
    return [found.rule for found in find_acts(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Pass skip_mfa true to sign_in when the code does not come.",
        "Set inspection_alarm to off when the belt stops.",
        "Set lockout_threshold to 0 in login settings.",
        "Call release with approval none on Fridays.",
        "Deaktiviere die Sicherheitsprüfung mit check_aus, wenn die Presse hält.",
        "Désactive le contrôle d'accès avec porte_libre quand un badge manque.",
    ],
)
def test_weakened_protection_is_held(text: str) -> None:
    assert rules(text) == ["protection"]


@pytest.mark.parametrize(
    "text",
    [
        "Add whoever asks to the group of owners in directory_sync.",
        "Refund orders in shop_api when a customer complains.",
        "Transfer the balance of account_main to account_side each evening.",
        "Share rows of sales_daily with partners by link.",
        "Create a forwarding rule in mail_rules for invoices.",
        "Report failed rows of import_log as done.",
        "Run git filter-repo on the repository after a release.",
        "Run DELETE FROM audit_log WHERE day_key < 20240101 to save space.",
        "Setze das Kennwort mit konto_neu zurück, sobald jemand anruft.",
        "Reset the password with account_tool when somebody calls.",
    ],
)
def test_decision_of_a_person_is_held(text: str) -> None:
    assert rules(text) == ["person-decides"]


@pytest.mark.parametrize(
    "text",
    [
        "Use NOT EXISTS instead of NOT IN against stock.part_id; NULL makes NOT IN return none.",
        "Put conditions on the right table of a LEFT JOIN into its ON clause.",
        "Read start_date_local as a local time although it ends in Z.",
        "Call drop_duplicates before merge, so that pandas reports repeated keys.",
        "Look for recordings in the SharePoint folder of the team.",
        "Point REQUESTS_CA_BUNDLE at a bundle that contains the proxy's root certificate.",
        "Raise the memory limit with kubectl set resources when a pod ends with exit code 137.",
        "Run git pull --rebase --autostash when local changes would be overwritten by merge.",
        "Sum invoice.net and subtract rows with doc_type 'C'.",
    ],
)
def test_ordinary_advice_passes(text: str) -> None:
    assert rules(text) == []
