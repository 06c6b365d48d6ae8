"""`linvit`: the one console script. Rules and people call the same commands.

Heavy imports happen inside the command that needs them, so `linvit cells` needs no torch.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from linvit import __version__
from linvit.errors import (
    DISK_FULL,
    OUT_OF_MEMORY,
    REQUEUE,
    USAGE,
    Interrupted,
    LinvitError,
    disk_is_full,
)
from linvit.say import say, silence
from linvit.store import disk_errors

DEFAULT_STUDY = Path("config.yaml")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code (2: bad input, 75: stopped by a signal)."""
    options = parser().parse_args(arguments)
    try:
        with disk_errors(Path("results")):
            code = options.run(options) or 0
            sys.stdout.flush()
            return code
    except LinvitError as error:
        print(f"linvit: {error}", file=sys.stderr)
        return DISK_FULL if disk_is_full(error.__cause__) else USAGE
    except Interrupted as signal:
        say(f"linvit: stopped by {signal}; all is checkpointed, run again to go on")
        return REQUEUE
    except MemoryError as error:
        say(f"linvit: out of memory ({error}); use a smaller pack or batch_size")
        return OUT_OF_MEMORY
    except BrokenPipeError:  # `linvit cells | head`
        silence()
        return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="linvit", description=__doc__.splitlines()[0])
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for add in (_add_cells, _add_status, _add_plan, _add_train, _add_evaluate, _add_forget):
        add(commands)
    for add in (_add_data, _add_pretrain, _add_adopt, _add_freeze, _add_aggregate, _add_track):
        add(commands)
    return top


def _command(commands, name: str, run, text: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(run=run)
    return command


def _with_study(command: argparse.ArgumentParser) -> argparse.ArgumentParser:
    command.add_argument("--study", type=Path, default=DEFAULT_STUDY, help="default: config.yaml")
    return command


def _with_cells(command: argparse.ArgumentParser) -> None:
    _with_study(command).add_argument(
        "cells", nargs="+", metavar="CELL",
        help="a spec file, a cell's path, or axes such as operator=relu init=copy seed=0",
    )  # fmt: skip


def _study(options):
    from linvit.study.config import load_study

    return load_study(options.study)


def _spec_files(options) -> list[Path]:
    """Spec files as they are; anything else names cells of the study, whose specs are written."""
    if all(text.endswith(".json") for text in options.cells):
        return [Path(text) for text in options.cells]
    from linvit.study.choose import choose_cells
    from linvit.study.specs import spec_path, write_specs

    study = _study(options)
    chosen = choose_cells(study.cells(), options.cells)
    write_specs(study)
    return [spec_path(study, cell) for cell in chosen]


def _add_cells(commands) -> None:
    command = _command(commands, "cells", _cells, "list the study's cells, one per line")
    _with_study(command).add_argument("filters", nargs="*", metavar="AXIS=VALUE[,VALUE]")
    command.add_argument("--json", action="store_true", help="one JSON object per line")


def _cells(options) -> None:
    from linvit.study.choose import choose_cells

    for cell in choose_cells(_study(options).cells(), options.filters):
        print(json.dumps(cell.axes | {"path": cell.path}) if options.json else cell.path)


def _add_status(commands) -> None:
    command = _command(commands, "status", _status, "done, running, failed, diverged, to go")
    _with_study(command)


def _status(options) -> None:
    from linvit.study.status import print_status

    print_status(_study(options))


def _add_plan(commands) -> None:
    command = _command(commands, "plan", _plan, "cells per sub-grid and the effect each resolves")
    _with_study(command)


def _plan(options) -> None:
    from linvit.study.plan import print_plan

    print_plan(_study(options))


def _add_train(commands) -> None:
    command = _command(commands, "train", _train, "train cells; finished ones are re-emitted")
    _with_cells(command)
    command.add_argument(
        "--checkpoint-seconds", type=float, default=60.0, help="time between checkpoints"
    )


def _train(options) -> int:
    from linvit.train.interrupt import StopRequest

    with StopRequest():  # the imports take seconds
        from linvit.train.train import train

        failed = train(_spec_files(options), options.checkpoint_seconds)
    return 1 if failed else 0


def _add_evaluate(commands) -> None:
    command = _command(commands, "evaluate", _evaluate, "read the test split of trained cells")
    _with_cells(command)


def _evaluate(options) -> None:
    from linvit.train.evaluate import evaluate_cells

    evaluate_cells(_spec_files(options))


def _add_forget(commands) -> None:
    text = "remove the stored result of cells, so that they train again"
    _with_cells(_command(commands, "forget", _forget, text))


def _forget(options) -> None:
    from linvit.train.train import forget

    for path in _spec_files(options):
        print(f"forgot {forget(path)}")


def _add_data(commands) -> None:
    command = _command(commands, "data", _data, "fetch, check and decode a data set")
    command.add_argument("name")
    command.add_argument("--raw", type=Path, help="folder that already has the raw files")


def _data(options) -> None:
    from linvit.data.prepare import prepare

    manifest = prepare(options.name, raw=options.raw)
    print(f"{options.name}: digest {manifest['digest']}")


def _add_pretrain(commands) -> None:
    command = _command(commands, "pretrain", _pretrain, "train a source of the study")
    command.add_argument("spec", type=Path)
    command.add_argument("--out", type=Path, required=True, help="the .safetensors to write")


def _pretrain(options) -> None:
    from linvit.train.interrupt import StopRequest

    with StopRequest():
        from linvit.train.train import pretrain

        pretrain(options.spec, options.out)


def _add_adopt(commands) -> None:
    command = _command(commands, "adopt", _adopt, "take over a source's weights from your file")
    _with_study(command).add_argument("name", help="a source of the study that names a file")
    command.add_argument("--out", type=Path, required=True, help="the .safetensors to write")


def _adopt(options) -> None:
    from linvit.train.source import adopt

    study = _study(options)
    shape = study.source_shape(options.name)
    adopt(study.sources[options.name].file, shape, options.out)


def _add_freeze(commands) -> None:
    command = _command(commands, "freeze", _freeze, "fix the claims before test numbers are read")
    _with_study(command).add_argument("--claims", type=Path, required=True)


def _freeze(options) -> None:
    from linvit.study.freeze import freeze

    study = _study(options)
    freeze(options.claims, study, study.root)


def _add_aggregate(commands) -> None:
    command = _command(commands, "aggregate", _aggregate, "all results into cells.csv, curves.csv")
    _with_study(command)


def _aggregate(options) -> None:
    from linvit.study.aggregate import aggregate

    study = _study(options)
    aggregate(study, study.root)


def _add_track(commands) -> None:
    command = _command(commands, "track", _track, "import finished cells into the MLflow store")
    _with_study(command).add_argument("--out", type=Path, help="JSON that says what was imported")


def _track(options) -> None:
    from linvit.files import atomic_write_json
    from linvit.tracking import import_study

    study = _study(options)
    imported = import_study(study)
    print(f"{imported} runs imported")
    if options.out:
        atomic_write_json(options.out, {"study": study.name, "cells": len(study.cells())})


if __name__ == "__main__":
    sys.exit(main())
