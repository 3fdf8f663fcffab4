"""Files of tensors: read without unpickling anything else, written whole or not at all.

A reader sees the old file or the new one, whatever moment the writer is killed at: everything is written beside the file,
brought to the disk, and only then given its name.
"""

import os
import pickle
import secrets
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed: a lock has nothing to add
    fcntl = None

_PARTIAL = ".partial"
_CHECKSUM = "ncmi_crc32"


def read_tensors(path: str | Path, owner: str) -> Any:
    """The content of a file of tensors, on the CPU: torch's format or, by the ending ``.safetensors``, that one.

    Nothing but tensors, numbers, strings and containers of them is unpickled. Every part of a zip archive is compared with
    its checksum (torch does not look), and so is a safetensors file of :func:`save_safetensors`.

    Args:
        path: the file.
        owner: how a refusal starts: who reads what, as ``"load_weights: resnet18.pt"``.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{owner} is not a file. Check the path.")
    if path.suffix == ".safetensors":
        return _read_safetensors(owner, path)
    with path.open("rb") as file:
        try:
            if zipfile.is_zipfile(file):
                _check_sums(file)
            file.seek(0)
            return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged pickle fails in a dozen ways
            if isinstance(error, pickle.UnpicklingError) and "Unsupported global" in str(error):
                raise ValueError(
                    f"{owner} is damaged, or holds Python objects besides tensors; loading those could run foreign code. "
                    "Where you trust its origin, load it yourself and save its state_dict() alone."
                ) from error
            raise ValueError(f"{owner} is damaged, or not a file of weights. Fetch or save it again.") from error


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> None:
    """Give ``path`` the content that ``write`` puts into the temporary path it is called with; all of it or nothing.

    The temporary file lies in the same folder; it is removed if ``write`` fails, and those of killed writers are removed
    by the next one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/note.txt", lambda temporary: temporary.write_text("whole"))
    ...     print(Path(folder, "note.txt").read_text(), os.listdir(folder))
    whole ['note.txt']
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"write_atomically: {path.parent} is not a folder. Create it, or check the path.")
    try:
        _remove_abandoned(path)
        temporary, held = _new_temporary(path)
        try:
            with held:
                write(temporary)
                # By name, since ``write`` may have put another file in the place of the one that is held.
                with temporary.open("rb") as written:
                    os.fsync(written.fileno())
                os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except OSError as error:
        raise OSError(
            f"write_atomically: {path} could not be written ({error}). What was there before is unchanged. Make room on "
            "the disk, or check the permissions of the folder."
        ) from error


def save_checkpoint(path: str | Path, content: dict[str, Any]) -> None:
    """Write ``content`` in torch's format, whole or not at all; equal contents give equal bytes.

    Only what :func:`read_tensors` will read is written: tensors, numbers, strings, and containers of them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_checkpoint(f"{folder}/last.pt", {"step": 3, "model": {"weight": torch.ones(2)}})
    ...     read_tensors(f"{folder}/last.pt", "example")
    {'step': 3, 'model': {'weight': tensor([1., 1.])}}
    """

    def write(temporary: Path) -> None:
        # Into an open file: given a path, torch would write the temporary name into the archive.
        with temporary.open("wb") as file:
            try:
                torch.save(content, file)
            except RuntimeError as error:
                # Behind a full disk torch's writer speaks of positions in the archive.
                if isinstance(error.__context__, OSError):
                    raise error.__context__ from error
                raise
        foreign = torch.serialization.get_unsafe_globals_in_checkpoint(temporary)
        if foreign:
            raise ValueError(
                f"save_checkpoint: {path} must hold tensors, numbers, strings and containers of them alone, because "
                f"nothing else could be loaded again; got {', '.join(sorted(foreign))}. Turn these into plain values."
            )

    write_atomically(path, write)


def save_safetensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a ``state_dict`` and some words about it as safetensors, whole or not at all, with a checksum.

    Tensors that share memory, as tied weights do, are written once each.

    Args:
        path: the file; its name ends in ``.safetensors``.
        tensors: by name, on any device and with any strides.
        metadata: texts by name, as the network's; ``safetensors.safe_open(path, "pt").metadata()`` reads them.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(
            f"save_safetensors: the name must end in .safetensors, by which it is read; got {path.name!r}."
        )
    try:
        from safetensors.torch import save
    except ImportError as error:
        raise ImportError(
            f"save_safetensors: {path} needs the package safetensors: `pip install safetensors`."
        ) from error
    own: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        memory = plain.untyped_storage().data_ptr()
        own[name] = plain.clone() if memory in seen else plain
        seen.add(memory)
    words = {**(metadata or {}), _CHECKSUM: _checksum(own)}
    # As bytes: the package's own writer renames too, but without waiting for the disk, and with other permissions.
    content = save(own, words)
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def _check_sums(file: IO[bytes]) -> None:
    """Every part of the archive has the checksum it was written with; torch does not look."""
    with zipfile.ZipFile(file) as archive:
        bad = archive.testzip()
    if bad is not None:
        raise ValueError(f"{bad} has another checksum")


def _read_safetensors(owner: str, path: Path) -> dict[str, Tensor]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise ImportError(f"{owner} needs the package safetensors: `pip install safetensors`.") from error
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            expected = (file.metadata() or {}).get(_CHECKSUM)
        if expected is not None and expected != _checksum(tensors):
            raise ValueError("it has another checksum")
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{owner} is damaged, or not a file of weights ({error}). Fetch or save it again.") from error
    return tensors


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    """CRC-32 over names, types, shapes and bytes: safetensors has none of its own."""
    value = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        value = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), value)
        content = tensor.reshape(-1).view(torch.uint8).numpy()
        value = zlib.crc32(content, value)  # pyright: ignore[reportArgumentType] (an array is a buffer)
    return f"{value:08x}"


def _new_temporary(path: Path) -> tuple[Path, IO[bytes]]:
    """A new file beside ``path``, locked until it is closed.

    Not by tempfile: its files are readable by their owner alone, and keep that when they are renamed.
    """
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_PARTIAL}")
        held = temporary.open("xb")
        try:
            _lock(held)
        except BlockingIOError:  # another writer was faster, and is about to remove what nobody held
            held.close()
            continue
        except OSError:  # a file system without locks: there, files of killed writers stay
            pass
        if os.fstat(held.fileno()).st_nlink > 0:
            return temporary, held
        held.close()


def _remove_abandoned(path: Path) -> None:
    """Remove temporary files of ``path`` that no writer holds: the system lets go of the locks of a dead one."""
    for name in os.listdir(path.parent):
        if name.startswith(f".{path.name}.") and name.endswith(_PARTIAL):
            other = path.with_name(name)
            # It may be held, go away by itself, or be another user's.
            with suppress(OSError), other.open("rb") as file:
                _lock(file)
                other.unlink()


def _lock(file: IO[bytes]) -> None:
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sync_folder(folder: Path) -> None:
    """Bring the folder's new entry to the disk, where the system lets folders be opened."""
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
