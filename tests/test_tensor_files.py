"""Files of tensors are whole or as before, whatever happens to the writer; a damaged or foreign one is refused."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from ncmi.tensor_files import read_tensors, save_checkpoint, save_safetensors, write_atomically

ENDINGS = ("pt", "safetensors")


def content():
    return {"weight": torch.randn(20, 5), "bias": torch.randn(5, dtype=torch.bfloat16), "steps": torch.tensor(7)}


def save(path, tensors):
    (save_safetensors if path.suffix == ".safetensors" else save_checkpoint)(path, tensors)


def same(one, other):
    return one.keys() == other.keys() and all(
        torch.equal(one[key], other[key]) and one[key].dtype == other[key].dtype for key in one
    )


def refused(path, match):
    with pytest.raises(ValueError, match=match) as caught:
        read_tensors(path, f"owner: {path}")
    assert str(caught.value).startswith(f"owner: {path} is damaged, or ")


def start(code, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True, **options
    )


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_was_written_is_read(tmp_path, ending):
    path, tensors = tmp_path / f"file.{ending}", content()
    for _ in range(2):  # a new file, and one that is replaced
        save(path, tensors)
        assert same(read_tensors(path, "owner"), tensors)
        assert same(read_tensors(str(path), "owner"), tensors)
    assert os.listdir(tmp_path) == [path.name]
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_checkpoint_of_more_than_tensors(tmp_path):
    path = tmp_path / "last.pt"
    network = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.AdamW(network.parameters())
    network(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    given = {
        "model": network.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": torch.get_rng_state(),
        "epoch": 3,
        "best": None,
        "history": [{"loss": 0.5, "name": "Γ"}],
    }
    save_checkpoint(path, given)
    found = read_tensors(path, "owner")
    assert found.keys() == given.keys()
    assert found["history"] == given["history"]
    assert found["optimizer"]["param_groups"] == given["optimizer"]["param_groups"]
    assert same(found["model"], given["model"])
    first = path.read_bytes()
    save_checkpoint(path, given)
    assert path.read_bytes() == first  # no name of a temporary file, no time


@pytest.mark.parametrize("foreign", [Path("a"), {"args": threading.Thread}], ids=["path", "class"])
def test_a_checkpoint_that_could_not_be_loaded_is_not_written(tmp_path, foreign):
    path = tmp_path / "last.pt"
    save_checkpoint(path, {"epoch": 1})
    with pytest.raises(ValueError, match=r"nothing else could be loaded again; got (pathlib|threading)\.\w+\. Turn"):
        save_checkpoint(path, {"epoch": 2, "more": foreign})
    assert read_tensors(path, "owner") == {"epoch": 1}
    assert os.listdir(tmp_path) == ["last.pt"]


def test_shared_and_strided_tensors(tmp_path):
    path, weight = tmp_path / "file.safetensors", torch.randn(6, 4)
    given = {
        "tied": torch.nn.Parameter(weight),
        "weight": weight,
        "turned": weight.T,
        "part": weight[2:4],
        "last": torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        "empty": torch.zeros(0, 3),
        "also empty": torch.zeros(0),
    }
    save_safetensors(path, given, {"model": "resnet18", "classes": json.dumps(["Γ", "b"])})
    assert same(read_tensors(path, "owner"), {name: tensor.detach() for name, tensor in given.items()})
    with pytest.importorskip("safetensors").safe_open(path, "pt") as file:
        words = file.metadata()
    assert words["model"] == "resnet18"
    assert json.loads(words["classes"]) == ["Γ", "b"]


def test_safetensors_of_others_have_no_checksum(tmp_path):
    path, tensors = tmp_path / "file.safetensors", content()
    pytest.importorskip("safetensors.torch").save_file(tensors, path)
    assert same(read_tensors(path, "owner"), tensors)


def test_the_ending_says_how_it_is_read(tmp_path):
    with pytest.raises(
        ValueError, match=r"save_safetensors: the name must end in \.safetensors, .*; got 'weights\.pt'"
    ):
        save_safetensors(tmp_path / "weights.pt", content())


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_safetensors_no_file(tmp_path, ending, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    path = tmp_path / f"file.{ending}"
    if ending == "pt":
        save(path, content())
        return
    with pytest.raises(ImportError, match=r"needs the package safetensors: `pip install safetensors`"):
        save(path, content())
    path.touch()
    with pytest.raises(ImportError, match=r"owner needs the package safetensors: `pip install safetensors`"):
        read_tensors(path, "owner")


@pytest.mark.parametrize("ending", ENDINGS)
def test_truncated_and_empty_files(tmp_path, ending):
    path = tmp_path / f"file.{ending}"
    save(path, content())
    whole = path.read_bytes()
    for length in (0, 1, 7, 8, 9, len(whole) // 3, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(path, r"Fetch or save it again\.|besides tensors")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_flipped_bit_never_changes_what_is_read(tmp_path, ending):
    path, tensors = tmp_path / f"file.{ending}", content()
    save(path, tensors)
    whole = path.read_bytes()
    order = torch.randperm(8 * len(whole))[:400].tolist()
    refusals = []
    for place in order:
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        try:
            found = read_tensors(path, "owner")
        except ValueError as error:
            refusals.append(str(error))
        else:  # in the padding between two parts, or in a time stamp
            assert same(found, tensors)
    assert len(refusals) > 50
    assert all(refusal.startswith("owner is damaged, or ") for refusal in refusals)


@pytest.mark.parametrize("ending", ENDINGS)
def test_flipped_numbers_are_refused(tmp_path, ending):
    path, tensors = tmp_path / f"file.{ending}", content()
    save(path, tensors)
    whole = bytearray(path.read_bytes())
    start = whole.index(tensors["weight"].numpy().tobytes())
    for bit in (0, 13, 8 * tensors["weight"].numel() * 4 - 1):
        flipped = bytearray(whole)
        flipped[start + bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        refused(path, r"is damaged, or not a file of weights.*Fetch or save it again\.")


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("text", ["a note, not a tensor\n", "<html>404 Not Found</html>", "\0" * 4096, "Γ" * 10])
def test_files_of_something_else(tmp_path, ending, text):
    path = tmp_path / f"file.{ending}"
    path.write_text(text, encoding="utf-8")
    refused(path, r"is damaged, or not a file of weights")


class Hostile:
    def __reduce__(self):
        return os.mkdir, (str(self.place),)

    def __init__(self, place):
        self.place = place


@pytest.mark.parametrize("write", ["torch, zipped", "torch, plain", "pickle"])
def test_a_foreign_pickle_runs_nothing(tmp_path, write):
    path, place = tmp_path / "file.pt", tmp_path / "made by the pickle"
    given = {"model": torch.ones(2) if write != "pickle" else 1, "more": Hostile(place)}
    if write == "pickle":
        path.write_bytes(pickle.dumps(given))
    else:
        torch.save(given, path, _use_new_zipfile_serialization=write == "torch, zipped")
    refused(path, r"besides tensors; loading those could run foreign code|not a file of weights")
    assert not place.exists()


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^owner: .* is not a file\. Check the path\.$"):
        read_tensors(tmp_path, f"owner: {tmp_path}")


HALF = """
import sys, time
from pathlib import Path
from ncmi.tensor_files import write_atomically

def write(temporary):
    with temporary.open("wb") as file:
        file.write(b"half")
        file.flush()
        print("half", flush=True)
        time.sleep(60)

write_atomically(Path(sys.argv[1]), write)
"""


@pytest.mark.parametrize("before", [True, False], ids=["over an old file", "into nothing"])
def test_a_writer_killed_in_the_middle(tmp_path, before):
    path, old = tmp_path / "last.pt", content()
    if before:
        save(path, old)
    with start(HALF, path) as process:
        assert process.stdout.readline() == "half\n"
        # While it lives, its file is not another writer's to remove.
        if before:
            save(path, old)
        (partial,) = tmp_path.glob(".last.pt.*.partial")
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert partial.read_bytes() == b"half"
    assert path.exists() == before
    if before:
        assert same(read_tensors(path, "owner"), old)
    unrelated = [tmp_path / ".last.pt.backup", tmp_path / ".best.pt.0123abcd.partial", tmp_path / "last.pt.partial"]
    for other in unrelated:
        other.touch()
    new = content()
    save(path, new)
    assert same(read_tensors(path, "owner"), new)
    assert sorted(tmp_path.iterdir()) == sorted([path, *unrelated])


ENDLESS = """
import itertools, sys, torch
from ncmi.tensor_files import save_checkpoint

for count in itertools.count():
    save_checkpoint(sys.argv[1], {"count": count, "weight": torch.full((500_000,), float(count))})
    print(count, flush=True)
"""


def test_a_checkpoint_survives_a_kill_at_any_moment(tmp_path):
    path = tmp_path / "last.pt"
    for delay in (0.0, 0.004, 0.013):
        with start(ENDLESS, path) as process:
            process.stdout.readline()
            time.sleep(delay)
            process.kill()
            announced = len(process.stdout.read().splitlines())
        found = read_tensors(path, "owner")
        assert found["count"] in (announced, announced + 1)
        assert bool((found["weight"] == found["count"]).all())
    save_checkpoint(path, {"count": -1})
    assert os.listdir(tmp_path) == ["last.pt"]


FULL = """
import resource, sys, torch
from ncmi.tensor_files import save_checkpoint, save_safetensors

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
save = save_checkpoint if sys.argv[1].endswith("pt") else save_safetensors
try:
    save(sys.argv[1], {"weight": torch.zeros(100_000)})
except OSError as error:
    print(error)
"""


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_room(tmp_path, ending):
    path, old = tmp_path / f"last.{ending}", content()
    save(path, old)
    with start(FULL, path) as process:
        said = process.stdout.read()
    assert f"write_atomically: {path} could not be written ([Errno 27] File too large). What was there before" in said
    assert same(read_tensors(path, "owner"), old)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt, SystemExit])
def test_a_writer_that_fails_leaves_nothing(tmp_path, error):
    path = tmp_path / "note.txt"
    path.write_text("old")

    def write(temporary):
        temporary.write_text("half")
        raise error

    with pytest.raises(error):
        write_atomically(path, write)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["note.txt"]


def test_a_writer_that_puts_another_file_in_place(tmp_path):
    path, source = tmp_path / "best.pt", tmp_path / "last.pt"
    source.write_text("same bytes")

    def link(temporary):
        temporary.unlink()
        os.link(source, temporary)

    write_atomically(path, link)
    assert path.samefile(source)
    write_atomically(source, lambda temporary: temporary.write_text("new"))
    assert path.read_text() == "same bytes"
    assert sorted(os.listdir(tmp_path)) == ["best.pt", "last.pt"]


def test_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"write_atomically: .*nowhere is not a folder\. Create it, or"):
        write_atomically(tmp_path / "nowhere" / "file", lambda temporary: temporary.touch())


def test_many_writers_of_one_file(tmp_path):
    path = tmp_path / "file.pt"
    errors = []

    def write(number):
        try:
            for _ in range(20):
                save_checkpoint(path, {"weight": torch.full((1000,), float(number))})
                found = read_tensors(path, "owner")["weight"]
                assert bool((found == found[0]).all())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert os.listdir(tmp_path) == ["file.pt"]
