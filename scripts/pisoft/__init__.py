"""π-Soft Bench: faithfulness evaluation of attributions for decoder-only language models."""

__version__ = "0.2.0"
