"""What a run learns from: images, or bags of instances."""

from ncmi.training.config import Config
from ncmi.training.sources.base import Source

__all__ = ["Source", "make_source"]


def make_source(config: Config) -> Source:
    """The source that ``config.data.name`` stands for: ``bags:<name>`` for bags, everything else for images."""
    if config.data.name.startswith("bags:"):
        from ncmi.training.sources.bags import BagSource

        return BagSource(config)
    from ncmi.training.sources.images import ImageSource

    return ImageSource(config)
