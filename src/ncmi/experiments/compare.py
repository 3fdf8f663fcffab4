"""``compare``: runs every cell that a comparison needs and no row has yet, and writes rows and tables as they come."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ncmi.checks import choose
from ncmi.experiments.cells import Cell, Comparison
from ncmi.experiments.folder import ComparisonFolder
from ncmi.experiments.plan import Plan, make_plans, plan_cells
from ncmi.experiments.rows import Row, RowFile, make_row, no_validation, validation_score
from ncmi.experiments.table import Table
from ncmi.experiments.workers import Worker, Workers, count_cores
from ncmi.training.loop import Stopped
from ncmi.training.processes import StopSignal

_WAIT = 0.1  # seconds between two looks at the processes
_WAIT_FOR_OTHERS = 2.0  # and at cells that another comparison runs


def compare(
    comparison: Comparison,
    out: Path,
    runs: Path,
    *,
    jobs: int | None = None,
    retry_failed: bool = False,
    say: Callable[[str], None] = print,
) -> Table:
    """The table of a comparison whose cells have all run; a signal ends it with :class:`ncmi.training.loop.Stopped`.

    Args:
        comparison: what is compared.
        out: where ``rows.jsonl``, ``comparison.json``, ``table.md`` and ``table.csv`` go. A cell with a row there is done; a
            comparison of other losses, models or seeds that is there already stays in the table.
        runs: where the run folders go.
        jobs: cells side by side; by default one for each core.
        retry_failed: run cells again whose rows say that they failed.
        say: called with a line for each finished cell.
    """
    check_comparison(comparison)
    jobs = count_cores() if jobs is None else jobs
    if jobs < 1:
        raise ValueError(f"compare: --jobs must be at least 1; got {jobs}.")
    folder = ComparisonFolder(out)
    folder.join(comparison)
    with StopSignal() as stop, Workers(runs, max(1, count_cores() // jobs)) as workers:
        session = _Session(comparison, folder.rows, workers, jobs, say)
        if retry_failed:
            session.retry_failed()
        finished = -1
        while True:
            plans = session.plans()
            if all(plan.finished for plan in plans):
                return folder.write_table()
            if (now := sum(plan.finished for plan in plans)) > finished:
                finished = now
                folder.write_table()
            if session.start(plans):
                continue
            session.wait(stop)
            if stop.received is not None:
                session.leave(stop)
                folder.write_table()
                raise Stopped(stop.received, session.farewell())


def check_comparison(comparison: Comparison) -> None:
    """A sentence if a model has no such name, or if rates must be chosen and there is nothing to choose them on."""
    for model in comparison.factors.get("model", []):
        if ":" not in model:  # timm's, or someone's own
            choose("compare", "a model", model, comparison.kind.list_models())
    data = comparison.base.data
    if len(comparison.rates) == 1 or data.validation > 0 or comparison.kind.folds:
        return
    from ncmi.data import load_data

    if load_data(data.name, data.folder, **data.options).validation is None:
        raise ValueError(no_validation(data.name))


def describe(comparison: Comparison, out: Path, runs: Path) -> str:
    """The cells of a comparison and which of them are done, one line each; a sentence if ``out`` holds what does not fit."""
    folder = ComparisonFolder(out)
    folder.joined(comparison)
    rows = folder.rows.rows()
    workers = Workers(runs, 1)
    lines, left = [], 0
    for plan in make_plans(comparison, rows):
        cells = plan_cells(comparison, plan)
        lines += [f"{cell.title}: {_state(comparison, cell, rows, workers)}" for cell in cells]
        if plan.chosen is None and plan.later and len(comparison.rates) > 1:
            first, last = comparison.seeds - plan.later, comparison.seeds - 1
            seeds = f"seed {last}" if first == last else f"seeds {first} to {last}"
            lines.append(f"{plan.title}: then {seeds} at the best rate")
        left += len(plan.missing) + plan.later
    count = "nothing is left" if left == 0 else f"cells left: {left}, and more if a best rate is at the end of its grid"
    return "\n".join([*lines, f"{count}. Rows are in {out}."])


def _state(comparison: Comparison, cell: Cell, rows: Mapping[str, Row], workers: Workers) -> str:
    row = rows.get(comparison.fingerprint(cell))
    if row is None:
        return "started" if workers.run_folder(comparison.cell_name(cell)).exists else "to run"
    return f"failed: {row['failed']}" if "failed" in row else f"done{_validation(row)}"


def _validation(row: Row) -> str:
    if "validation" not in row["decisions"].get(row["headline"], {}):  # at a single rate, nothing is chosen
        return ""
    return f" · validation {100 * (validation_score(row) or 0.0):.2f} %"


class _Session:
    """One call of :func:`compare`: which cells run, and how long they take."""

    def __init__(self, comparison: Comparison, file: RowFile, workers: Workers, jobs: int, say: Callable[[str], None]):
        self.comparison, self.file, self.workers, self.jobs, self.say = comparison, file, workers, jobs, say
        self.cells: dict[str, Cell] = {}
        self.elsewhere: set[str] = set()
        self.retried: dict[str, Row] = {}
        self.seconds: list[float] = []
        self.recorded = 0

    def retry_failed(self) -> None:
        """Take the cells that failed before for cells that have not run."""
        self.retried = {name: row for name, row in self.file.rows().items() if "failed" in row}

    def rows(self) -> dict[str, Row]:
        """The rows that count."""
        return {name: row for name, row in self.file.rows().items() if self.retried.get(name) != row}

    def plans(self) -> list[Plan]:
        """Where all groups stand."""
        return make_plans(self.comparison, self.rows())

    def start(self, plans: list[Plan]) -> bool:
        """Start missing cells, as many as there is room for; whether some turned out to be done, which changes the plans."""
        self.elsewhere, changed = set(), False
        for cell in [cell for plan in plans for cell in plan.missing]:
            name = self.comparison.cell_name(cell)
            if name in self.workers.running:
                continue
            if len(self.workers.running) >= self.jobs:
                break
            lock = self.workers.claim(name)
            if lock is None:
                self.elsewhere.add(name)
            elif self.comparison.fingerprint(cell) in self.rows():  # another comparison has just brought it
                lock.close()
                changed = True
            elif (folder := self.workers.run_folder(name)).finished:  # its row was lost, or it outlived its comparison
                self.record(cell, make_row(self.comparison, cell, folder))
                lock.close()
                changed = True
            else:
                if folder.exists and self.comparison.fingerprint(cell) in self.retried:  # from its start
                    folder.discard()
                self.cells[name] = cell
                self.workers.start(name, self.comparison.config(cell), lock)
        return changed

    def wait(self, stop: StopSignal) -> None:
        """Until a cell has ended, a signal has come, or cells elsewhere are worth another look."""
        patience = time.monotonic() + _WAIT_FOR_OTHERS
        while stop.received is None:
            ended = self.workers.collect()
            for worker in ended:
                self.end(worker, stop)
            if ended or (self.elsewhere and time.monotonic() > patience):
                return
            time.sleep(_WAIT)

    def end(self, worker: Worker, stop: StopSignal) -> None:
        """Record what became of a cell; a failure that is not the numbers' ends the comparison."""
        cell = self.cells[worker.name]
        try:
            if worker.finished:
                self.seconds.append(worker.seconds)
                self.record(cell, make_row(self.comparison, cell, worker.folder))
            elif worker.diverged:
                self.record(cell, make_row(self.comparison, cell, worker.folder, failed=worker.sentence))
            elif stop.received is None:  # else it was stopped with us
                raise ValueError(
                    f"{cell.title}: {worker.sentence} What it printed is in {worker.log}. Finished cells are kept, and the "
                    "same command goes on."
                )
        finally:
            worker.release()

    def leave(self, stop: StopSignal) -> None:
        """Ask the processes to save, wait for them, and record those that came to their end on the way."""
        self.workers.terminate()
        while self.workers.running:
            for worker in self.workers.collect():
                self.end(worker, stop)
            time.sleep(_WAIT)

    def record(self, cell: Cell, row: Row) -> None:
        """Write a row, and say so."""
        self.file.append(row)
        self.retried.pop(row["fingerprint"], None)
        self.recorded += 1
        result = f" · failed: {row['failed']}" if "failed" in row else f"{_validation(row)} · {row['seconds']:.1f} s"
        self.say(f"{cell.title}{result} · {self._left()}")

    def farewell(self) -> str:
        """The sentence after a signal."""
        return (
            f"stopped. Finished in this call: {self.recorded}; what was still running is saved, and the same command goes on. "
            f"Rows are in {self.file.path.parent}."
        )

    def _left(self) -> str:
        left = sum(len(plan.missing) + plan.later for plan in self.plans())
        cells = "1 cell left" if left == 1 else f"{left} cells left"
        if left == 0 or not self.seconds:
            return cells
        minutes = left * sum(self.seconds) / len(self.seconds) / self.jobs / 60
        return f"{cells}, about {max(1, round(minutes))} min"
