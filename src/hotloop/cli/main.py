"""Dispatches the command line to a verb, prints errors and returns exit codes."""

from __future__ import annotations

import importlib
import sys
import traceback
from contextlib import nullcontext
from typing import TYPE_CHECKING

from hotloop.core.env import ENV
from hotloop.core.errors import ConfigError, DataError, HotloopError, UsageError, did_you_mean
from hotloop.core.package import __version__
from hotloop.process.run_script import Left
from hotloop.process.standard_streams import open_standard_streams, say, steady_streams

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

VERBS = {
    "doctor": "why is it slow, is it right: hotloop doctor [train.py | char-lm ... | RUN_DIR]",
    "run": "run a script with techniques put in: hotloop run --with fused-adamw train.py",
    "tune": "find and prove a faster plan: hotloop tune [--budget 10m] train.py | char-lm ...",
    "rehearse": "run it on a simulated card: hotloop rehearse --card rtx3090 train.py",
    "train": "train a recipe: hotloop train char-lm [key=value ...]",
    "data": "find data sets, tokenise and pack them once: hotloop data find | tokenize ...",
    "bench": "before and after, rung by rung: hotloop bench char-lm [--require TARGETS]",
    "sample": "print text from a trained run: hotloop sample RUN_DIR [--prompt TEXT]",
    "predict": "labels of rows, by a trained classifier: hotloop predict RUN_DIR FILE",
    "export": "a trained model for transformers or PEFT: hotloop export RUN_DIR --to hf",
    "monitor": "what it does now, and why it is idle: hotloop monitor [RUN_DIR | --pid N]",
    "status": "every run below a folder, how far it is and what is saved: hotloop status [DIR]",
    "report": "one HTML page of a run, or of two side by side: hotloop report RUN_DIR [RUN_DIR]",
    "checkpoints": "list a run's checkpoints: hotloop checkpoints RUN_DIR [--verify]",
    "clean": "what runs and caches take, and what can go: hotloop clean [DIR] [--yes]",
    "techniques": "what makes training faster, and what is usable here or why not",
    "rules": "what the doctor looks for in a script",
    "explain": "guides, and pages of techniques and rules: hotloop explain out-of-memory",
    "track": "a run in TensorBoard, MLflow or W&B: hotloop track RUN_DIR --to tensorboard",
}
BUG = 70
SCRIPTS = ("doctor", "run")  # run a script in this process


def _help() -> str:
    verbs = "\n".join(f"  {name:<12} {text}" for name, text in VERBS.items())
    return (
        "usage: hotloop VERB [options] ...\n\n"
        "Trains PyTorch models at full speed on the GPU you have, safely.\n\n"
        f"{verbs}\n\n"
        "hotloop VERB --help says more. Data go to stdout, everything else to stderr."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code (docs/architecture.md)."""
    args = list(sys.argv[1:] if argv is None else argv)
    open_standard_streams()
    verb = args[0] if args else ""
    # A script gets the streams that it would have without hotloop.
    with nullcontext() if verb in SCRIPTS else steady_streams(stdout=verb == "train"):
        return _run_guarded(args)


def _run_guarded(args: list[str]) -> int:
    """Run one command; turn an exception that ends it into its exit code."""
    try:
        return _dispatch(args)
    except HotloopError as error:
        # Every process of a machine has the same error in its command; one of them prints it.
        alike = ENV.local_rank > 0 and isinstance(error, (UsageError, ConfigError))
        if not (error.is_told or alike):
            say(f"hotloop: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        say("hotloop: stopped")
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of stdout has gone, which is not an error of hotloop
        return 141
    except Exception as error:  # noqa: BLE001 - the last line of defence; it is printed whole
        if isinstance(error, PermissionError) and error.filename:  # a file of the user's
            say(f"hotloop: {error.filename}: this user may not read or write it; change its mode")
            return DataError.exit_code
        say(traceback.format_exc().rstrip())
        say(f"hotloop {__version__}: this is a bug of ours, please report it")
        return BUG
    except Left:  # a script has ended, and exits as it would without hotloop
        raise
    except SystemExit as leave:  # argparse's own help and usage errors
        return leave.code if isinstance(leave.code, int) else 2


def _dispatch(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help", "help"):
        print(_help())
        return 0 if args else 2
    if args[0] in ("-V", "--version"):
        print(f"hotloop {__version__}")
        return 0
    verb, *rest = args
    if verb not in VERBS:
        near = did_you_mean(verb, VERBS)
        raise UsageError(f"no command is called {verb!r}{near} (see hotloop --help)")
    module = importlib.import_module(f"{__package__}.{verb}")
    code: int = module.run(rest)
    return code
