"""Shared by the commands: exit codes, error messages, printing and JSON."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from weakprox.errors import InputError, WeakproxError
from weakprox.storage.table import shown_path as shown_path

DONE, FAILED, BAD, UNCONFIRMED, INTERRUPTED = 0, 1, 2, 3, 130
REFUSED = 1  # an invalid proof
EXIT_CODES = (
    "Exit codes: 0 done, accuracy reached; 1 unexpected error; 2 bad usage or bad input, "
    "nothing written; 3 finished, but the requested accuracy is not confirmed (outputs are "
    "written); 130 interrupted (the best point so far is written, if there is one)."
)
# Arguments of the library that are options of a command.
OPTIONS = {"lam", "tau", "rank", "eps", "tol", "seed", "key", "x_key", "solver"} | {
    "max_memory",
    "max_seconds",
    "max_svds",
    "checkpoint",
    "checkpoint_every",
    "resume",
    "scheduler",
    "output",
    "factors",
    "proof",
    "report",
    "figures",
    "summary",
    "row",
    "col",
    "value",
    "pairs",
    "loss",
    "intercepts",
    "sep",
    "decimal",
    "index_col",
    "scaling",
    "scale",
}


# Other words for the commands, and options whose values are chosen if they are omitted.
COMMANDS = {
    "plan": "info",
    **dict.fromkeys(("denoise", "fit", "solve", "run", "minimize"), "estimate"),
    **dict.fromkeys(("fill", "interpolate"), "impute"),
    **dict.fromkeys(("predict", "recommend"), "complete"),
    **dict.fromkeys(("prove", "check"), "certify"),
    "help": "--help",
}
CHOSEN = {"--lam", "--tau", "--rank"}


class Shell(TyperGroup):
    """The group of commands; reports every failure by one line and an exit code."""

    def main(self, *args: Any, **options: Any) -> Any:
        options["standalone_mode"] = False
        try:
            code = super().main(*args, **options)
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        except InputError as error:
            code = _failed(shown_error(error), BAD)
        except ModuleNotFoundError as error:
            if error.name is not None and error.name.startswith("weakprox"):
                raise
            code = _failed(str(error), BAD)
        except WeakproxError as error:
            code = _failed(str(error), FAILED)
        except MemoryError:
            code = _failed("out of memory", FAILED)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            code = _failed(f"{where}{error.strerror or error}", FAILED)
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise  # unexpected: a bug report needs the traceback
            code = _failed(_advised(error.format_message()), BAD)
        if code == INTERRUPTED:
            typer.echo("weakprox: interrupted", err=True)
        sys.exit(code if isinstance(code, int) else DONE)


def _advised(message: str) -> str:
    """The message about a command line, with the command that was probably meant."""
    unknown = re.search(r"No such command '(\w+)'\.$", message)
    if unknown is not None and unknown[1].lower() in COMMANDS:
        return f"{message} Did you mean weakprox {COMMANDS[unknown[1].lower()]}?"
    option = re.match(r"Invalid value for '(--\w+)'", message)
    if option is not None and option[1] in CHOSEN:
        return f"{message}. Leave {option[1]} out to have it chosen."
    return message


def _failed(message: str, code: int) -> int:
    """Print the error as one line on stderr; return the code."""
    typer.echo(f"weakprox: {' '.join(message.split())}", err=True)
    return code


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print warnings inside the block as one line on stderr."""

    def one_line(message: Warning | str, *where: Any, **more: Any) -> None:
        typer.echo(f"weakprox: {' '.join(str(message).split())}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = one_line
        yield


def shown_error(error: InputError) -> str:
    """The message, with the name of the option instead of the argument."""
    if error.argument not in OPTIONS:
        return str(error)
    option = "--" + error.argument.replace("_", "-")
    return f"{option}: got {error.given}; wanted {error.wanted}."


def shown_advice(advice: str) -> str:
    """The advice, with the names of options instead of arguments."""

    def option(found: re.Match[str]) -> str:
        name = found[2]
        return f"{found[1]} --{name.replace('_', '-')}" if name in OPTIONS else found[0]

    return re.sub(r"\b(Raise|larger|or) (\w+)", option, advice)


def as_json(summary: dict[str, Any]) -> str:
    from weakprox.report.markup import clean

    return json.dumps(clean(summary), indent=2, allow_nan=False)


def show(title: str, lines: list[tuple[str, str]], warning: str | None = None) -> None:
    """A heading and named lines; bold and coloured on a terminal, plain text elsewhere."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(title, style="bold"), soft_wrap=True)
    for name, text in lines:
        for i, part in enumerate(text.splitlines() or [""]):
            line = Text(f"  {name if i == 0 else '':<11}", style="cyan")
            console.print(line.append(part, style="default"), soft_wrap=True)
    if warning is not None:
        console.print(Text(f"  {warning}", style="bold yellow"), soft_wrap=True)
