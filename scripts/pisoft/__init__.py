"""π-Soft Bench: faithfulness evaluation of attributions for decoder-only language models.

`pisoft.evaluate` and the other functions of :mod:`pisoft.api` are imported on first use, so that
importing the package stays cheap.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"
__all__ = ["Scores", "attribute", "calibrate", "evaluate", "load", "load_masked", "plot", "prompt"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("pisoft.api"), name)
    raise AttributeError(f"module 'pisoft' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
