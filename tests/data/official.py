"""Small files in the official layouts: CIFAR records, Python 2 pickles and idx files."""

import gzip
import struct

import torch


def images(count, channels=3, size=32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (count, channels, size, size), dtype=torch.uint8, generator=generator)


def cifar_records(pixels, *labels):
    """Label bytes and pixel bytes of each image, as in the binary version."""
    columns = [torch.tensor(column, dtype=torch.uint8).unsqueeze(1) for column in labels]
    return bytes(torch.cat((*columns, pixels.flatten(1)), dim=1).flatten().tolist())


def python2_pickle(value):
    """Protocol 2 as Python 2 wrote it: strings are bytes, arrays go through numpy.core.multiarray."""
    return b"\x80\x02" + _pickled(value) + b"."


def _pickled(value):
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value
    if isinstance(value, int):
        return b"K" + bytes([value]) if value < 256 else b"J" + struct.pack("<i", value)
    if isinstance(value, tuple):
        return b"(" + b"".join(map(_pickled, value)) + b"t"
    if isinstance(value, list):
        return b"](" + b"".join(map(_pickled, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(_pickled(item) for pair in value.items() for item in pair) + b"u"
    assert value.dtype == torch.uint8
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    content = value.contiguous().numpy().tobytes()
    return made + b"(K\x01" + _pickled(tuple(value.shape)) + dtype + b"\x89" + _pickled(content) + b"tb"


def idx_images(pixels):
    count, _, height, width = pixels.shape
    return struct.pack(">IIII", 2051, count, height, width) + bytes(pixels.flatten().tolist())


def idx_labels(labels):
    return struct.pack(">II", 2049, len(labels)) + bytes(labels)


def write_idx(folder, train, test, compressed=False):
    """The four files of an idx folder; each part is (images, labels)."""
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, (pixels, labels) in {"train": train, "t10k": test}.items():
        contents = {"images-idx3-ubyte": idx_images(pixels), "labels-idx1-ubyte": idx_labels(labels)}
        for name, content in contents.items():
            if compressed:
                (folder / f"{prefix}-{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / f"{prefix}-{name}").write_bytes(content)
