"""The `lessons` command: everything a person or a timer runs."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from lessons_loop.deploy import migrate_command, store_commands
from lessons_loop.deploy.audit import command as audit_command
from lessons_loop.deploy.doctor import command as doctor_command
from lessons_loop.deploy.evaluation import collapse_command as eval_collapse_command
from lessons_loop.deploy.evaluation import demo_command as eval_demo_command
from lessons_loop.deploy.evaluation import run_command as eval_run_command
from lessons_loop.deploy.report import command as report_command
from lessons_loop.deploy.schedule import command as schedule_command
from lessons_loop.deploy.schedule import run_command as schedule_run_command
from lessons_loop.deploy.status import command as status_command
from lessons_loop.deploy.webui import install_command
from lessons_loop.eval import commands as eval_commands
from lessons_loop.promote import commands as gate_commands
from lessons_loop.promote.embedding import reembed_command
from lessons_loop.promote.embedding.forms import FORMS_OR_NONE
from lessons_loop.promote.entry import INTERRUPTED, run_app
from lessons_loop.promote.exchange import commands as exchange_commands
from lessons_loop.promote.forget import command as forget_command
from lessons_loop.promote.ledger import history_command, verify_command
from lessons_loop.promote.quiet import quiet_libraries
from lessons_loop.promote.runs import pause_commands
from lessons_loop.promote.snapshot import commands as snapshot_commands
from lessons_loop.promote.waiting import announce_waiting
from lessons_loop.seeds import commands as seed_commands

EXIT_CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: 143, signal.SIGHUP: 129}

app = typer.Typer(
    name="lessons",
    help="Lessons a self-hosted chat learns from finished chats, checks and recalls.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def show_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"lessons {version('lessons-loop')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Lessons a self-hosted chat learns from finished chats, checks and recalls."""


@app.command()
def up(
    data_dir: Annotated[
        Path, typer.Option(help="Folder everything is kept in; delete it to start anew.")
    ] = Path(".run/openwebui"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    seeds: Annotated[bool, typer.Option(help="Load the shipped lessons.")] = True,
    domain: Annotated[str, typer.Option(help="Comma list.")] = "sql,openwebui",
    embedding: Annotated[
        str,
        typer.Option(help=f"{FORMS_OR_NONE}."),
    ] = "",
    baseline: Annotated[
        bool,
        typer.Option("--baseline", help="Ask the sql questions before the seeds, and behind them."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print where everything is as JSON, once it is ready.")
    ] = False,
) -> None:
    """Run a real Open WebUI here with everything installed.

    Models: OPENAI_API_BASE_URL and OPENAI_API_KEY, else a local Ollama, else the practice
    model, a script for trying the loop out. Ctrl-C stops everything.

    Example: lessons up --port 0
    """
    from lessons_loop.deploy.local.installation import Options
    from lessons_loop.deploy.local.up import run_up

    options = Options(data_dir, port, domain, seeds, embedding, baseline=baseline)
    run_up(options, as_json=as_json)


@app.command()
def demo(
    model_url: Annotated[
        str, typer.Option(help="OpenAI-compatible URL of a real model; default: the script.")
    ] = "",
    model: Annotated[str, typer.Option(help="Its name there.")] = "",
    model_api_key: Annotated[
        str,
        typer.Option(
            envvar=["LESSONS_LLM_API_KEY", "OPENAI_API_KEY"],
            show_default=False,
            help="Its key; better in the env.",
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures only.")] = False,
) -> None:
    """Show the whole loop once: one to two minutes.

    It uses a folder of its own and leaves nothing behind. It exits 0 only if every step
    was observed. A script stands in for the model, unless one is given.

    Example: lessons demo --model-url http://127.0.0.1:11434/v1 --model qwen3:8b
    """
    if bool(model_url.strip()) != bool(model.strip()):
        raise typer.BadParameter("--model-url and --model go together")
    from lessons_loop.deploy.local.demo import run_demo
    from lessons_loop.deploy.local.recorder import Endpoint

    url, name = model_url.strip(), model.strip()
    run_demo(as_json=as_json, endpoint=Endpoint(url, name, model_api_key.strip()) if url else None)


def main() -> None:
    """Run one command and end with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command: 1 with one line for errors of ours, 2 for usage, 130 when interrupted."""
    stopped: list[int] = []
    quiet_libraries()

    def stop(number: int, _frame: FrameType | None) -> None:
        if stopped and number == signal.SIGHUP:  # a closed terminal says it twice
            return
        stopped.append(EXIT_CODES[signal.Signals(number)])
        raise KeyboardInterrupt

    for number in EXIT_CODES:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, stop)
    code = run_app(app, arguments, "lessons")
    return stopped[0] if stopped and code in (1, INTERRUPTED) else code


install_command.register(app)
doctor_command.register(app)
store_commands.register(app)
migrate_command.register(app)
status_command.register(app)
audit_command.register(app)
report_command.register(app)
reembed_command.register(app)
exchange_commands.register(app)
forget_command.register(app)
gate_commands.register(app)
snapshot_commands.register(app)
verify_command.register(app)
history_command.register(app)
pause_commands.register(app)
schedule_command.register(app)
schedule_run_command.register(schedule_command.schedule)
seed_commands.register(app)
eval_group = eval_commands.register(app)
eval_run_command.register(eval_group)
eval_demo_command.register(eval_group)
eval_collapse_command.register(eval_group)
announce_waiting(app)  # last: it wraps what is registered by then

if __name__ == "__main__":
    main()
