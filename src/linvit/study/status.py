"""`linvit status`: what is done, what runs, what failed and why, and how long it will take."""

from collections import Counter
from collections.abc import Iterable, Mapping

from linvit.progress_line import duration, line
from linvit.study.cell import Cell
from linvit.study.config import Study
from linvit.study.state import STATES, Costs, State, cell_states, source_states
from linvit.study.terminal import print_table

FAILURES_SHOWN = 5  # with their log lines; of more, the names


def print_status(study: Study) -> None:
    states, sources = cell_states(study), source_states(study)
    print(f"study {study.name}, results in {study.root}/")
    print_table(("grid", "cells", *STATES), list(_counts(study, states)))
    for name, state in sources.items():
        print(f"source {name}: {_words(state)}")
    print(_time_left(states))
    for cell in _in_state(states, "running"):
        print(f"running  {cell.path}  {_words(states[cell])}")
    for cell in _in_state(states, "diverged"):
        print(f"diverged  {cell.path}")
    _print_failures({cell: states[cell] for cell in _in_state(states, "failed")})
    if any(state.name == "interrupted" for state in states.values()):
        print("interrupted cells go on from their last checkpoint when the study is run again")


def _counts(study: Study, states: Mapping[Cell, State]) -> Iterable[tuple]:
    for name in study.grids:
        yield _row(name, [states[cell] for cell in study.grid_cells(name)])
    if len(study.grids) > 1:
        yield _row("all, each cell once", list(states.values()))


def _row(name: str, states: list[State]) -> tuple:
    counts = Counter(state.name for state in states)
    return (name, len(states), *(counts[state] for state in STATES))


def _in_state(states: Mapping[Cell, State], name: str) -> list[Cell]:
    return [cell for cell, state in states.items() if state.name == name]


def _words(state: State) -> str:
    if state.name != "running":
        return state.name
    return line(state.progress) if state.progress else "before its first validation"


def _time_left(states: Mapping[Cell, State]) -> str:
    left = {cell: state.fraction_left for cell, state in states.items() if state.fraction_left}
    if not left:
        return "every cell is done"
    records = {cell: state.record.get("cpu_s") for cell, state in states.items()}
    costs = Costs({cell: seconds for cell, seconds in records.items() if seconds})
    if costs.mean is None:
        return "time left: not known until a first cell is done"
    processes = _processes(states.values())
    seconds = sum(costs.of(cell) * fraction for cell, fraction in left.items()) / processes
    plural = "process" if processes == 1 else "processes"
    return (
        f"time left: about {duration(seconds)} with {processes} {plural} "
        f"({costs.mean:.1f} s a cell, mean of {costs.count} done)"
    )


def _processes(states: Iterable[State]) -> int:
    """Processes that train now; 1 when none does, or when none has reported yet."""
    progress = [state.progress for state in states if state.name == "running" and state.progress]
    return max(1, len({(one.get("host"), one.get("pid")) for one in progress}))


def _print_failures(failed: Mapping[Cell, State]) -> None:
    for number, (cell, state) in enumerate(failed.items()):
        print(f"failed  {cell.path}  {state.failure.get('error', '')}")
        if number < FAILURES_SHOWN:
            for text in state.failure.get("lines", ()):
                print(f"    {text}")
    if failed:
        print("failed cells are tried again when the study is run again")
