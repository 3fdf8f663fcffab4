"""Predict the classes of images or slides with a run, or with a file of `ncmi export`."""

from typing import Any


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    parser.add_argument("model", type=str, help="a run folder, a .pt2 or an .onnx file")
    parser.add_argument("inputs", type=str, nargs="+", help="images, .h5 files of slide features, or folders of them")
    parser.add_argument("-o", "--out", type=str, default="predictions.csv", help="the table to write")
    parser.add_argument("--top", type=int, default=3, help="classes that are printed; the table has all of them")


def run(arguments: Any) -> int:
    """Print a line for each file, and write the table."""
    if arguments.top < 1:
        raise ValueError(f"--top must be at least 1; got {arguments.top}.")
    from ncmi.prediction import find_files, open_model, predict, write_csv

    model = open_model(arguments.model)
    rows = []
    for row in predict(model, find_files(arguments.inputs, model.description)):
        print(row.line(arguments.top))
        rows.append(row)
    write_csv(rows, arguments.out)
    print(f"probabilities of all {len(model.description.classes)} classes: {arguments.out}")
    return 0
