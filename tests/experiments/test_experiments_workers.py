"""Workers: one cell at a time in one place, and what a process said last."""

import subprocess
import sys

import pytest

from ncmi.experiments.workers import Worker, Workers, count_cores
from ncmi.training.run_folder import RunFolder


def ended(tmp_path, code, text):
    """A worker whose process has printed ``text`` and ended."""
    log = tmp_path / "cell.log"
    log.write_text(text)
    process = subprocess.Popen([sys.executable, "-c", f"import os, signal; {code}"])
    process.wait()
    return Worker("cell", RunFolder(tmp_path / "cell"), process, log.open(), log, 0.0)


def is_free(workers, name):
    lock = workers.claim(name)
    if lock is not None:
        lock.close()
    return lock is not None


def test_a_cell_is_claimed_once_and_its_process_keeps_the_claim(tmp_path):
    with Workers(tmp_path, 1) as workers:
        lock = workers.claim("a")
        assert lock is not None
        assert not is_free(workers, "a")
        assert is_free(workers, "b")
        # As after a comparison that was killed: only the process that it started is left.
        code = "import sys; print('ready', flush=True); sys.stdin.read()"
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(lock.fileno(),)
        )
        process.stdout.readline()
        lock.close()
        assert not is_free(workers, "a")
        process.communicate()
        assert is_free(workers, "a")


@pytest.mark.parametrize(
    ("code", "text", "sentence", "diverged"),
    [
        ("os._exit(1)", "warning: w\nncmi train: training diverged: nan.\n", "training diverged: nan.", True),
        ("os._exit(1)", "ncmi train: CE: logits must be finite; 1 is not. Lower the learning rate, clip gradients or check.\n",
         "CE: logits must be finite; 1 is not. Lower the learning rate, clip gradients or check.", True),
        ("os._exit(1)", "ncmi train: bags: features must be finite; 1 is not.\n", "bags: features must be finite; 1 is not.",
         False),
        ("os._exit(1)", "ncmi train: no file x.\n", "no file x.", False),
        ("os._exit(143)", "stopped in epoch 1.\n", "stopped in epoch 1.", False),
        ("os._exit(3)", "", "it ended with code 3.", False),
        ("os.kill(os.getpid(), signal.SIGKILL)", "half a", "it was ended by SIGKILL; memory may have run out.", False),
    ],
)  # fmt: skip
def test_the_last_sentence_and_whether_numbers_ran_away(tmp_path, code, text, sentence, diverged):
    worker = ended(tmp_path, code, text)
    assert worker.sentence == sentence
    assert worker.diverged == diverged
    assert not worker.finished
    worker.release()


def test_cores_are_counted():
    assert count_cores() >= 1
