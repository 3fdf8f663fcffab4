"""Small sets of bags in every layout, as their tools write them."""

import csv

import h5py
import numpy
import torch

from ncmi.data.bags import Bag, BagSet, HeldBags

WIDTH = 6


def instances(slide, count, width=WIDTH, dtype=numpy.float16):
    """Features (count, width) that tell which slide they are of."""
    generator = numpy.random.default_rng(sum(slide.encode()))
    return generator.standard_normal((count, width)).astype(dtype)


def coordinates(count):
    return numpy.stack([numpy.arange(count) * 256, numpy.arange(count) % 2], axis=1).astype(numpy.int32)


def write_h5(path, features, coords=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["features"] = features
        if coords is not None:
            file["coords"] = coords


def write_csv(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


# Slide, patient, label and number of instances: two slides of p1, two labels.
ROWS = (("s1", "p1", "tumor", 3), ("s2", "p1", "tumor", 2), ("s3", "p2", "normal", 4), ("s4", "p3", "normal", 1))


def write_table(path, rows=ROWS):
    return write_csv(
        path, ("case_id", "slide_id", "label"), [(patient, slide, label) for slide, patient, label, _ in rows]
    )


def write_clam(folder, rows=ROWS, kind="h5_files"):
    for slide, _, _, count in rows:
        if kind == "h5_files":
            write_h5(folder / kind / f"{slide}.h5", instances(slide, count), coordinates(count))
        else:
            (folder / kind).mkdir(parents=True, exist_ok=True)
            torch.save(torch.from_numpy(instances(slide, count)), folder / kind / f"{slide}.pt")
    write_table(folder / "dataset.csv", rows)
    return folder


def write_trident(job, encoders=("uni_v1",), patches="20x_256px_0px_overlap", rows=ROWS):
    for encoder in encoders:
        for slide, _, _, count in rows:
            folder = job / patches
            write_h5(folder / f"features_{encoder}" / f"{slide}.h5", instances(slide, count), coordinates(count))
            write_h5(folder / f"slide_features_{encoder}" / f"{slide}.h5", instances(slide, 1)[0])
            write_h5(folder / "patches" / f"{slide}_patches.h5", instances(slide, 1), coordinates(count))
    return job


def write_acmil(path, rows=ROWS, labels=("normal", "tumor")):
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for slide, _, label, count in rows:
            group = file.create_group(slide)
            group["feat"], group["coords"] = instances(slide, count), coordinates(count)
            group.attrs["label"] = labels.index(label)
    return path


def write_npz(path, sizes=(2, 3, 1), targets=(0, 1, 1)):
    owners = numpy.repeat(numpy.arange(len(sizes)), sizes)
    features = numpy.arange(len(owners) * WIDTH, dtype=numpy.float32).reshape(-1, WIDTH)
    path.parent.mkdir(parents=True, exist_ok=True)
    numpy.savez(path, x=features, bag=owners, y=numpy.array(targets, dtype=numpy.uint8))
    return path


def write_splits(folder, fold=0, train=("s1", "s2"), val=("s3",), test=("s4",)):
    rows = []
    for place in range(max(len(train), len(val), len(test))):
        rows.append((place, *(part[place] if place < len(part) else "" for part in (train, val, test))))
    return write_csv(folder / f"splits_{fold}.csv", ("", "train", "val", "test"), rows)


def made_set(targets, patients=None, columns=None, width=2, slides=None):
    """A set in memory whose bag i has i % 5 + 1 instances, all with the value i."""
    slides = tuple(slides or (f"slide_{index}" for index in range(len(targets))))
    bags = {slide: Bag(torch.full((i % 5 + 1, width), float(i)).half(), None) for i, slide in enumerate(slides)}
    names = tuple(f"class {label}" for label in range(max(2, max(targets) + 1)))
    return BagSet(
        slides,
        tuple(patients or slides),
        torch.tensor(targets, dtype=torch.int64),
        names,
        width,
        HeldBags(bags),
        "made",
        columns or {},
    )


def check_rows(bags, rows=ROWS, with_coordinates=True):
    assert bags.slides == tuple(row[0] for row in rows)
    assert bags.patients == tuple(row[1] for row in rows)
    assert bags.in_features == WIDTH
    assert bags.class_names == ("normal", "tumor")
    assert bags.targets.tolist() == [bags.class_names.index(row[2]) for row in rows]
    for index, (slide, _, _, count) in enumerate(rows):
        bag = bags.bag(index)
        assert bag.instances.dtype == torch.float16
        assert torch.equal(bag.instances, torch.from_numpy(instances(slide, count)))
        if with_coordinates:
            assert torch.equal(bag.coordinates, torch.from_numpy(coordinates(count)).long())
        else:
            assert bag.coordinates is None
