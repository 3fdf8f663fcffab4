"""List the recipes, or print one whole."""

from typing import Any


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "--print", type=str, metavar="RECIPE", help="print this recipe with every setting it leaves out"
    )


def run(arguments: Any) -> int:
    """Print the list or the recipe."""
    import yaml

    from ncmi.recipes import list_recipes, read_recipe
    from ncmi.training.config import make_config

    if arguments.print is not None:
        config = make_config(read_recipe(arguments.print), owner=f"recipe {arguments.print}")
        print(yaml.safe_dump(config.to_dict(), sort_keys=False, allow_unicode=True), end="")
        return 0
    names = list_recipes()
    width = max(map(len, names))
    for name in names:
        print(f"{name:<{width}}  {read_recipe(name)['description']}")
    return 0
