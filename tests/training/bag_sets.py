"""Made-up bags in the layouts of the sets that recipes name; an instance of class c has c more in one of its numbers."""

import h5py
import numpy
from data.bags.made_bags import WIDTH, coordinates, instances, write_csv, write_h5, write_splits

NPZ = ("musk1", "musk2", "fox", "tiger", "elephant", "ucsb_breast_cancer")
STAGES = ("negative", "itc", "micro", "macro")
BRACS_TYPES = ("N", "PB", "UDH", "FEA", "ADH", "DCIS", "IC")


def bag(slide, label, width=WIDTH):
    """Float16 features (n, width) of a slide, from which its class can be told."""
    features = instances(slide, 2 + sum(slide.encode()) % 7, width)
    features[:, 0] += 3 * label
    return features


def make_bags(folder):
    """Every set that a recipe names, in its layout; ``folder`` itself."""
    make_camelyon17(folder / "camelyon17")
    make_bracs(folder / "bracs")
    make_tcga(folder / "tcga_lung", ("LUAD", "LUSC"))
    make_tcga(folder / "tcga_brca", ("IDC", "ILC"))
    for name in NPZ:
        make_npz(folder / "mil" / f"{name}.npz")
    return folder


def make_camelyon17(folder):
    """One HDF5 file as ACMIL writes it, and the table; two patients of each class and centre, two slides each."""
    rows = []
    for patient in range(0, 100, 3):
        for node in range(2):
            label = patient % 4 if node else 0
            rows.append((f"patient_{patient:03d}_node_{node}", label, patient // 20))
    folder.mkdir(parents=True)
    with h5py.File(folder / "features.h5", "w") as file:
        for slide, label, _ in rows:
            group = file.create_group(slide)
            group["feat"] = bag(slide, label)
            group["coords"] = coordinates(len(group["feat"]))
            group.attrs["label"] = label
    write_csv(
        folder / "dataset.csv",
        ("slide_id", "label", "center"),
        [(slide, STAGES[label], center) for slide, label, center in rows],
    )


def make_bracs(folder):
    """CLAM's folder, with the official split in the table."""
    rows = []
    for number in range(70):
        label, part = number % 7, "train" if number < 49 else "val" if number < 56 else "test"
        slide = f"BRACS_{number}"
        features = bag(slide, label)
        write_h5(folder / "h5_files" / f"{slide}.h5", features, coordinates(len(features)))
        rows.append((number, slide, part, BRACS_TYPES[label]))
    write_csv(folder / "dataset.csv", ("case_id", "slide_id", "split_info", "label"), rows)


def make_tcga(folder, labels, count=40):
    """CLAM's folder with its ``splits_k.csv``; two slides a patient, so that a class has its patients."""
    rows, width = [], 192
    for number in range(count):
        label = number // 2 % 2
        slide = f"TCGA-{number // 2:04d}-{number % 2}"
        features = bag(slide, label, width)
        write_h5(folder / "h5_files" / f"{slide}.h5", features, coordinates(len(features)))
        rows.append((f"TCGA-{number // 2:04d}", slide, labels[label]))
    write_csv(folder / "dataset.csv", ("case_id", "slide_id", "label"), rows)
    names = [slide for _, slide, _ in rows]
    for fold in range(2):
        names = names[8 * fold :] + names[: 8 * fold]
        write_splits(folder / "splits", fold, names[:-16], names[-16:-8], names[-8:])


def make_npz(path, count=40):
    """A classic set: bags of float32 instances and their labels."""
    bags = [bag(f"{path.stem} {number}", number % 2, 12).astype(numpy.float32) for number in range(count)]
    owners = numpy.repeat(numpy.arange(count), [len(one) for one in bags])
    path.parent.mkdir(parents=True, exist_ok=True)
    numpy.savez(path, x=numpy.concatenate(bags), bag=owners, y=numpy.arange(count, dtype=numpy.uint8) % 2)
